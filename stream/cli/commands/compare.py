"""`streamjury compare`: two judgements of the same rows side by side, and with what people say."""

import sys
from collections.abc import Iterable, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from sinks.reports.results_reader import ResultsError
from sinks.reports.sheet import Sheet
from sinks.reports.sheet_rendering import as_markdown, draw
from sinks.text import printable
from stream.cli.commands.evaluate import judge_file
from stream.cli.support.json_output import print_json
from stream.cli.support.options import read_config
from stream.cli.support.progress import Meter
from stream.jobs.compare import (
    LabelsError,
    Meeting,
    Side,
    SideComparison,
    UnknownJudgeError,
    compare,
    load_judges,
    load_side,
    meet,
    on_scales,
    read_labels,
)
from stream.jobs.compare.json_document import as_object
from stream.jobs.compare.sheets import sheets_of
from stream.jobs.evaluate import EvaluateRequest

_NAMES = ("A", "B")
_AWAY = "rename the configuration file, after which the folder is named, or use --restart to throw those results away"


class _Two(click.ParamType):
    name = "name,name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        names = tuple(name.strip() for name in str(value).split(","))
        if len(set(names)) != 2 or len(names) != 2 or not all(names):
            self.fail(f"{value!r} is not two names with a comma between them", param, ctx)
        return names


@click.command("compare")
@click.argument("paths", metavar="A [B]", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--judges", type=_Two(), help="Compare these two judges inside the results A: strict,mild.")
@click.option("--labels", type=click.Path(path_type=Path), help="What people say of the rows: a CSV or JSONL file.")
@click.option("--rows", "file", metavar="FILE", help="Judge this file first, by the two configurations A and B.")
@click.option("--restart", is_flag=True, help="With --rows: throw away what an earlier run has judged.")
@click.option(
    "--changed", type=click.IntRange(min=0), default=10, show_default=True, help="Rows to show that changed most."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
@click.option(
    "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write the tables to a Markdown file too."
)
def compare_command(
    *,
    paths: tuple[Path, ...],
    judges: tuple[str, ...] | None,
    labels: Path | None,
    file: str | None,
    restart: bool,
    changed: int,
    as_json: bool,
    output: Path | None,
) -> None:
    """Compare two results of the same rows: agreement, mean differences, rows that changed, cost and latency.

    A and B are what `streamjury evaluate` wrote, folders or their results.jsonl; with --rows they are configuration
    files, by which the rows of a file are judged first. Rows are matched by their ids; those that only one side has are
    counted and named. With --labels the results, also A alone, are held against what people say: a column `id` or
    `row`, and columns named like the criteria, with labels on their own scales.

    \b
    Example:
      streamjury compare before-results after-results
      streamjury compare --rows answers.csv strict.yaml mild.yaml --output comparison.md
      streamjury compare my-results --judges strict,mild
      streamjury compare my-results --labels labels.csv --json | jq '.labels.A.criteria.clarity.accuracy'
    """
    _refuse_what_does_not_fit(paths, judges=judges, labels=labels, file=file, restart=restart)
    if file is not None:
        paths = _judged(file, paths, restart=restart)
    try:
        sides = _loaded(paths, judges)
        names = judges or _NAMES[: len(sides)]
        meetings = _met(sides, labels)
        comparison = _compared(sides, changed) if len(sides) == 2 else None
    except (ResultsError, LabelsError, UnknownJudgeError) as error:
        raise click.ClickException(str(error)) from None
    sheets = list(sheets_of(sides, comparison, meetings, names))
    if output is not None:
        _write(output, sheets)
    if as_json:
        print_json(as_object(sides, comparison, meetings, names))
    else:
        draw(sheets, Console())


def _refuse_what_does_not_fit(
    paths: Sequence[Path], *, judges: tuple[str, ...] | None, labels: Path | None, file: str | None, restart: bool
) -> None:
    if len(paths) > 2:
        raise click.UsageError(f"two results can be compared, not {len(paths)}")
    if judges is not None and (len(paths) != 1 or file is not None):
        raise click.UsageError("--judges compares two judges inside one results file: give one path, and no --rows")
    if file is not None and (len(paths) != 2 or paths[0] == paths[1]):
        raise click.UsageError("--rows judges a file by two configurations: give both, A.yaml B.yaml")
    if file == "-":
        raise click.UsageError("--rows reads the rows twice, which standard input cannot do: give a file")
    if restart and file is None:
        raise click.UsageError("--restart is about what --rows judges")
    if len(paths) == 1 and judges is None and labels is None:
        raise click.UsageError("give two results to compare, or with one of them --labels or --judges")


def folders_of(file: str, configs: Sequence[Path]) -> tuple[Path, ...]:
    """Where the rows of a file go, judged by each configuration: a folder named after both."""
    stems = [config.stem for config in configs]
    names = stems if len(set(stems)) == len(stems) else [f"{stem}-{at}" for at, stem in enumerate(stems, start=1)]
    return tuple(Path(f"{Path(file).stem}-{name}-results") for name in names)


def _judged(file: str, configs: Sequence[Path], *, restart: bool) -> tuple[Path, ...]:
    """Judges the rows by each configuration, as `streamjury evaluate` does; what is judged already is not again."""
    folders = folders_of(file, configs)
    # All are read before the first is paid for.
    read = [read_config(path) for path in configs]
    for path, config, folder in zip(configs, read, folders, strict=True):
        click.echo(f"judging {file} by {path}", err=True)
        try:
            # Standard output is for the comparison alone.
            with redirect_stdout(sys.stderr):
                judge_file(config, EvaluateRequest(file=file, folder=folder, restart=restart, away=_AWAY))
        except SystemExit as end:
            # 1 says that single rows could not be judged; they are told, counted, and missing on that side.
            if end.code != 1:
                raise
    return folders


def _loaded(paths: Sequence[Path], judges: tuple[str, ...] | None) -> list[Side]:
    with Meter("reading results", float(len(paths)), unit="rows") as meter:
        if judges is not None:
            return load_judges(paths[0], judges, watch=lambda done, total: meter.show(done=done / total, records=done))
        sides: list[Side] = []
        for path in paths:
            behind, rows = len(sides), sum(len(side.judged) for side in sides)

            def show(done: int, total: int, behind: int = behind, rows: int = rows) -> None:
                meter.show(done=behind + done / total, records=rows + done)

            sides.append(load_side(path, watch=show))
        return sides


def _compared(sides: Sequence[Side], changed: int) -> SideComparison:
    first, second = sides
    comparison = compare(first, second, most=changed)
    if not comparison.rows:
        raise click.ClickException(
            f"{first.name} and {second.name} have no row in common: no id is in both, of {first.run.name} and of "
            f"{second.run.name}"
        )
    return comparison


def _met(sides: Sequence[Side], labels: Path | None) -> list[Meeting]:
    if labels is None:
        return []
    criteria = dict.fromkeys(name for side in sides for name in side.scales)
    found = read_labels(labels, criteria, sides)
    if found.ignored:
        ignored = printable(", ".join(found.ignored))
        click.echo(f"{labels}: these columns name no criterion and are not read: {ignored}", err=True)
    return [meet(side, on_scales(found, side)) for side in sides]


def _write(output: Path, sheets: Iterable[Sheet]) -> None:
    try:
        output.write_text(as_markdown("Comparison", sheets), encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"{output} cannot be written: {(error.strerror or str(error)).lower()}") from None
    click.echo(f"written to {output}", err=True)
