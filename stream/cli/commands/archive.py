"""`streamjury archive`: figures about the archive, deletion on request, and reading it again from Kafka."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import click

from sinks.archive.database import ArchiveError, ArchiveUnavailable, Database
from sinks.archive.erasure import ErasedKind, allow_again, erase
from sinks.archive.stats import ArchiveStats, read_stats
from sinks.archive.writing import empty
from stream.archivist.stage import open_archive
from stream.cli.support.json_output import print_json
from stream.cli.support.options import Decorator, config_option, json_option, read_config, yes_option
from stream.errors import StageError

_MIB = 1024 * 1024


@click.group()
def archive() -> None:
    """Show, correct and rebuild the archive, the SQL database that the page reads (section `archive`).

    \b
    Example:
      streamjury archive stats
      streamjury archive delete --interaction 7f3a
    """


@archive.command()
@json_option()
@config_option
def stats(config_path: Path | None, as_json: bool) -> None:
    """Print the number of rows, their time span, and the size of the archive.

    \b
    Example:
      streamjury archive stats
      streamjury archive stats --json | jq .rows.evaluations

    \b
    JSON fields:
      rows            object: number of evaluations, texts, alerts, labels, and erasures (interactions and tenants
                      that were deleted with `streamjury archive delete`)
      oldest, newest  times of the oldest and the newest evaluation, or null
      bytes           size on disk
      positions       object: the next offset to read, by topic and partition
    """
    with _open_database(config_path) as database:
        figures = read_stats(database)
    if as_json:
        print_json(
            {
                "rows": figures.rows,
                "oldest": _time(figures.oldest),
                "newest": _time(figures.newest),
                "bytes": figures.size,
                "positions": figures.positions,
            }
        )
        return
    for name, number in figures.rows.items():
        click.echo(f"{name:12} {number:>12,}")
    click.echo(f"{'time':12} {_span(figures)}")
    click.echo(f"{'size':12} {figures.size / _MIB:>12,.1f} MiB")


def _target_options(verb: str) -> Decorator:
    def add(command: click.decorators.FC) -> click.decorators.FC:
        command = click.option("--tenant", metavar="NAME", help=f"{verb} everything about this tenant.")(command)
        return click.option("--interaction", metavar="ID", help=f"{verb} everything about this interaction.")(command)

    return cast(Decorator, add)


@archive.command()
@_target_options("Delete")
@yes_option
@config_option
def delete(config_path: Path | None, interaction: str | None, tenant: str | None, is_confirmed: bool) -> None:
    """Permanently delete an interaction or a tenant from the archive.

    Deletes evaluations, scores, texts, entries in the search index, labels, and mentions in alerts. Sums per app and
    minute are kept. The interaction or tenant is never archived again, not even by a rebuild: the archive keeps a
    digest of its name. Kafka keeps its records until the retention of the topics ends.

    \b
    Example:
      streamjury archive delete --interaction 7f3a --yes
      streamjury archive delete --tenant alderbrook
    """
    kind, name = _choose_target(interaction, tenant)
    with _open_database(config_path) as database:
        _confirm(f"Delete everything about {kind} {name}, and never archive it again?", is_confirmed=is_confirmed)
        erased = erase(database, kind, name)
    counts = ", ".join(f"{number} {table}" for table, number in erased._asdict().items())
    click.echo(f"deleted: {counts}")


@archive.command()
@_target_options("Archive")
@config_option
def allow(config_path: Path | None, interaction: str | None, tenant: str | None) -> None:
    """Archive a deleted interaction or tenant again, starting with the next record.

    Records that were read in the meantime are restored only by a rebuild.

    \b
    Example:
      streamjury archive allow --tenant alderbrook
    """
    kind, name = _choose_target(interaction, tenant)
    with _open_database(config_path) as database:
        if not allow_again(database, kind, name):
            raise click.ClickException(f"{kind} {name} was not deleted")
    click.echo(f"{kind} {name} is archived again")


@archive.command()
@yes_option
@config_option
def rebuild(config_path: Path | None, is_confirmed: bool) -> None:
    """Empty the archive, so that the archivists read all records again that Kafka still has.

    Needed if a change of archive.texts or objectives should apply to past records. Rows older than the retention of the
    topics are lost. The audit log and the list of deletions are kept. A running archivist starts again automatically.

    \b
    Example:
      streamjury archive rebuild --yes
    """
    with _open_database(config_path) as database:
        figures = read_stats(database)
        count = figures.rows["evaluations"]
        click.echo(f"{database.name}: {count} evaluations, {_span(figures)}")
        _confirm("Delete them, and read again all records that Kafka still has?", is_confirmed=is_confirmed)
        empty(database)
    click.echo("archive emptied; running archivists read all topics again (or start one: streamjury archivist)")


@contextmanager
def _open_database(config_path: Path | None) -> Iterator[Database]:
    config = read_config(config_path)
    try:
        with open_archive(config) as database:
            yield database
    except (ArchiveError, ArchiveUnavailable, StageError) as error:
        raise click.ClickException(f"archive: {error}") from error


def _choose_target(interaction: str | None, tenant: str | None) -> tuple[ErasedKind, str]:
    if interaction and not tenant:
        return "interaction", interaction
    if tenant and not interaction:
        return "tenant", tenant
    raise click.UsageError("specify either --interaction or --tenant")


def _confirm(question: str, *, is_confirmed: bool) -> None:
    if sys.stdin.isatty() and not is_confirmed:
        click.confirm(question, abort=True)


def _time(milliseconds: int | None) -> str | None:
    if milliseconds is None:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _span(figures: ArchiveStats) -> str:
    return f"from {_time(figures.oldest)} to {_time(figures.newest)}" if figures.oldest is not None else "empty"
