"""`streamjury replay`: moves dead letters back to the topic they came from."""

import sys
import time
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Self

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from sinks.text import printable
from stream.cli.support.cluster import reach
from stream.cli.support.interruption import Interruption
from stream.cli.support.json_output import print_json
from stream.cli.support.options import config_option, json_option, limit_option, read_config, yes_option
from stream.cli.support.time_option import TimeOption
from stream.errors import INTERRUPTED, StageError
from stream.jobs.replay import Replay, ReplayRequest, ReplaySurvey

# Between lines if there is no terminal.
_LINE_SECONDS = 2.0


@click.command()
@click.option(
    "--reason", "reasons", metavar="PATTERN", multiple=True, help="Only dead letters with this reason; may be repeated."
)
@click.option("--stage", type=click.Choice(["sampler", "worker"]), help="Only dead letters of this stage.")
@click.option("--app", help="Only dead letters of this app, if their app can be read.")
@click.option("--since", type=TimeOption(), help="Only failures at or after this time, or this long ago: 90m, 24h, 7d.")
@click.option("--until", type=TimeOption(), help="Only failures before this time, or longer ago than this.")
@limit_option("Maximum dead letters to move.")
@click.option("--dry-run", is_flag=True, help="Only print what would be moved.")
@yes_option
@json_option()
@config_option
def replay(
    *,
    config_path: Path | None,
    reasons: tuple[str, ...],
    stage: str | None,
    app: str | None,
    since: datetime | None,
    until: datetime | None,
    limit: int | None,
    dry_run: bool,
    is_confirmed: bool,
    as_json: bool,
) -> None:
    """Move dead letters back to the topic they came from, to be processed again.

    Start with --dry-run: it lists the dead letters by reason. A reason is also shown by `streamjury tail --topic
    deadletter`; in --reason it may contain the wildcards *, ? and [...]. Each dead letter is moved only once, however
    often you run this command and even if it is interrupted, because it is moved and marked as moved in one
    transaction. If two replays run at the same time, the one that started first stops. Dead letters that were truncated
    because of their size are not moved.

    \b
    Examples:
      streamjury replay --dry-run                            # what there is, by reason
      streamjury replay --reason 'unscored_*'                # after an outage of the judges
      streamjury replay --reason bad_json --app shop --since 2h --limit 10
      streamjury replay --dry-run --json | jq '.letters[] | select(.count > 100)'

    \b
    JSON fields:
      dry_run         whether --dry-run was given
      selected        dead letters that match the options
      moved, left     how many of these were moved now, and how many were not
      already_moved   matching dead letters that an earlier replay moved
      not_movable     object with the numbers of dead letters that are truncated, or come from an other_topic
      letters         the selected ones by reason: list of objects with reason, stage, count, first_failed_at and
                      last_failed_at
    """
    config = read_config(config_path)
    reach(config.kafka).require(config.topics.deadletter)
    request = ReplayRequest(reasons=reasons, stage=stage, app=app, since=since, until=until, limit=limit)
    job = Replay(config, request)
    try:
        if dry_run or (sys.stdin.isatty() and not is_confirmed):
            survey = job.survey()
            if not (dry_run and as_json):
                _print_lines(lines_of(survey), err=as_json)
            if dry_run or not survey.wanted or not click.confirm("Move them back?", err=as_json):
                if as_json:
                    print_json(as_object(survey, moved=0, dry_run=dry_run))
                return
        _move(job, as_json=as_json)
    except StageError as error:
        raise click.ClickException(str(error)) from None


def lines_of(survey: ReplaySurvey) -> Iterator[str]:
    """Yield the survey as lines for people: letters to move by reason and stage, and letters that stay."""
    rows = [("letters", "reason", "stage", "first failed", "last failed")]
    for heap, count in survey.heaps.most_common():
        first, last = (f"{time:%Y-%m-%d %H:%M:%S}" for time in (survey.oldest[heap], survey.newest[heap]))
        rows.append((f"{count:,}", printable(heap.reason), printable(heap.stage), first, last))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for number, *words in rows if survey.wanted else ():
        cells = (f"{cell:{width}}" for cell, width in zip(words, widths[1:], strict=True))
        yield "  ".join((number.rjust(widths[0]), *cells)).rstrip()
    yield f"{len(survey.wanted):,} to move"
    yield from _describe_unmoved(survey)


def _describe_unmoved(survey: ReplaySurvey) -> Iterator[str]:
    if survey.moved_before:
        yield f"{survey.moved_before:,} already moved"
    if survey.cut_short:
        yield f"{survey.cut_short:,} not moved: truncated because of their size"
    if survey.homeless:
        yield f"{survey.homeless:,} not moved: they did not come from a topic that replay can move records to"


def as_object(survey: ReplaySurvey, *, moved: int, dry_run: bool) -> dict[str, Any]:
    """Return a replay for programs."""
    return {
        "dry_run": dry_run,
        "selected": len(survey.wanted),
        "moved": moved,
        "left": len(survey.wanted) - moved,
        "already_moved": survey.moved_before,
        "not_movable": {"truncated": survey.cut_short, "other_topic": survey.homeless},
        "letters": [
            {
                "reason": heap.reason,
                "stage": heap.stage,
                "count": count,
                "first_failed_at": survey.oldest[heap].isoformat(),
                "last_failed_at": survey.newest[heap].isoformat(),
            }
            for heap, count in survey.heaps.most_common()
        ],
    }


def _move(job: Replay, *, as_json: bool) -> None:
    survey = job.take_over()
    moved = 0
    with Interruption() as interruption, _Bar(len(survey.wanted)) as bar:
        for moved in job.move(survey):
            bar.show(moved)
            if interruption.stop.is_set():
                break
    left = len(survey.wanted) - moved
    if as_json:
        print_json(as_object(survey, moved=moved, dry_run=False))
    else:
        _print_lines([f"moved {moved:,}" + (f", {left:,} left" if left else ""), *_describe_unmoved(survey)])
    if left:
        raise SystemExit(INTERRUPTED)


def _print_lines(lines: Iterable[str], *, err: bool = False) -> None:
    for line in lines:
        click.echo(line, err=err)


class _Bar:
    """Shows progress on standard error: a bar on a terminal, otherwise an occasional line."""

    def __init__(self, total: int) -> None:
        console = Console(stderr=True)
        self._plain = not console.is_terminal
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            disable=self._plain,
            transient=True,
        )
        self._task = self._progress.add_task("moving dead letters", total=total)
        self._total = total
        self._printed_at = 0.0

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._progress.stop()

    def show(self, moved: int) -> None:
        self._progress.update(self._task, completed=moved)
        if self._plain and (time.monotonic() - self._printed_at >= _LINE_SECONDS or moved == self._total):
            self._printed_at = time.monotonic()
            click.echo(f"moving: {moved:,} of {self._total:,}", err=True)
