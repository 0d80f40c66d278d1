"""`streamjury compare`: compares two results of the same rows with each other, and with human labels."""

import sys
from collections.abc import Iterable, Mapping, Sequence
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
from stream.cli.support.column_option import map_option
from stream.cli.support.json_output import print_json
from stream.cli.support.options import json_option, output_option, read_config, verbose_option
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
_AWAY = "the folder is named after the configuration file: rename the file, or use --restart to discard those results"


class _Two(click.ParamType):
    name = "name,name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        names = tuple(name.strip() for name in str(value).split(","))
        if len(set(names)) != 2 or len(names) != 2 or not all(names):
            self.fail(f"{value!r} must be two names separated by a comma", param, ctx)
        return names


@click.command("compare")
@click.argument("paths", metavar="A [B]", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--judges", type=_Two(), help="Compare these two judges within the results A: strict,mild.")
@click.option("--labels", type=click.Path(path_type=Path), help="Human labels for the rows: a CSV or JSONL file.")
@click.option("--rows", "file", metavar="FILE", help="Judge this file first, with the two configurations A and B.")
@map_option("With --rows: read a field from a column with another name: question=prompt; may be repeated.")
@click.option("--restart", is_flag=True, help="With --rows: discard the results of an earlier run.")
@click.option(
    "--changed",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="Number of rows to show, those that changed most.",
)
@json_option()
@output_option("Also write the tables to a Markdown file.", metavar="FILE")
@verbose_option
def compare_command(
    *,
    paths: tuple[Path, ...],
    judges: tuple[str, ...] | None,
    labels: Path | None,
    file: str | None,
    mapping: Mapping[str, str],
    restart: bool,
    changed: int,
    as_json: bool,
    output: Path | None,
    verbose: bool,
) -> None:
    """Compare two results of the same rows: agreement, mean differences, changed rows, cost and latency.

    A and B are the output of `streamjury evaluate`: folders, or their results.jsonl. With --rows they are configuration
    files, and the rows of a file are judged with both first. Rows are matched by id; rows that only one side has are
    counted and listed. With --labels the results, or A alone, are compared with human labels. The file has a column
    `id` or `row`, and columns named after criteria with labels on their scales, or with yes and no: whether the answer
    is good in that respect. For yes and no the tables show how well the scores find the answers labelled no. If rows
    were chosen at random for labelling, a column `probability` says how probably, and the means are corrected.

    \b
    Examples:
      streamjury compare before-results after-results
      streamjury compare --rows answers.csv strict.yaml mild.yaml --output comparison.md
      streamjury compare my-results --judges strict,mild
      streamjury compare my-results --labels labels.csv --json | jq '.labels.A.criteria.clarity.accuracy'

    \b
    JSON fields:
      schema_version  streamjury.comparison/1
      sides           object: results, evaluator and number of rows of each side
      comparison      object: rows, criteria, composite, statuses, changed rows and expenses; null for one side
      labels          object: agreement with the human labels, by side; only with --labels
    """
    _refuse_conflicts(paths, judges=judges, labels=labels, file=file, mapping=mapping, restart=restart)
    if file is not None:
        paths = _judge_with_each(file, paths, mapping, restart=restart, verbose=verbose)
    try:
        sides = _load_sides(paths, judges)
        names = judges or _NAMES[: len(sides)]
        meetings = _compare_with_labels(sides, labels)
        comparison = _compare_sides(sides, changed) if len(sides) == 2 else None
    except (ResultsError, LabelsError, UnknownJudgeError) as error:
        raise click.ClickException(str(error)) from None
    sheets = list(sheets_of(sides, comparison, meetings, names))
    if output is not None:
        _write(output, sheets)
    if as_json:
        print_json(as_object(sides, comparison, meetings, names))
    else:
        draw(sheets, Console())


def _refuse_conflicts(
    paths: Sequence[Path],
    *,
    judges: tuple[str, ...] | None,
    labels: Path | None,
    file: str | None,
    mapping: Mapping[str, str],
    restart: bool,
) -> None:
    if len(paths) > 2:
        raise click.UsageError(f"cannot compare {len(paths)} results, only two")
    if judges is not None and (len(paths) != 1 or file is not None):
        raise click.UsageError("--judges compares two judges within one results file: give one path, and no --rows")
    if file is not None and (len(paths) != 2 or paths[0] == paths[1]):
        raise click.UsageError("--rows judges a file with two configurations: give both, A.yaml B.yaml")
    if file == "-":
        raise click.UsageError("--rows reads the rows twice, which is not possible with standard input; give a file")
    if restart and file is None:
        raise click.UsageError("--restart requires --rows")
    if mapping and file is None:
        raise click.UsageError("--map requires --rows")
    if len(paths) == 1 and judges is None and labels is None:
        raise click.UsageError("give two results to compare, or one with --labels or --judges")


def folders_of(file: str, configs: Sequence[Path]) -> tuple[Path, ...]:
    """Return the output folder of each configuration, named after the file and the configuration."""
    stems = [config.stem for config in configs]
    if len(set(stems)) < len(stems):
        stems = [f"{stem}-{number}" for number, stem in enumerate(stems, start=1)]
    return tuple(Path(f"{Path(file).stem}-{stem}-results") for stem in stems)


def _judge_with_each(
    file: str, configs: Sequence[Path], mapping: Mapping[str, str], *, restart: bool, verbose: bool
) -> tuple[Path, ...]:
    """Judge the rows with each configuration, as `streamjury evaluate` does; finished rows are not judged again."""
    folders = folders_of(file, configs)
    # All are read before the first costs anything.
    loaded = [read_config(path, verbose=verbose) for path in configs]
    for path, config, folder in zip(configs, loaded, folders, strict=True):
        click.echo(f"judging {file} with {path}", err=True)
        try:
            # Only the comparison goes to standard output.
            with redirect_stdout(sys.stderr):
                request = EvaluateRequest(file=file, folder=folder, mapping=mapping, restart=restart, away=_AWAY)
                judge_file(config, request)
        except SystemExit as end:
            # 1 means that some rows could not be judged. They are reported, and missing on that side.
            if end.code != 1:
                raise
    return folders


def _load_sides(paths: Sequence[Path], judges: tuple[str, ...] | None) -> list[Side]:
    with Meter("reading results", float(len(paths)), unit="rows") as meter:
        if judges is not None:
            return load_judges(paths[0], judges, watch=lambda rows, total: meter.show(done=rows / total, records=rows))
        sides: list[Side] = []
        for path in paths:
            loaded, loaded_rows = len(sides), sum(len(side.judged) for side in sides)

            def show(rows: int, total: int, loaded: int = loaded, loaded_rows: int = loaded_rows) -> None:
                meter.show(done=loaded + rows / total, records=loaded_rows + rows)

            sides.append(load_side(path, watch=show))
        return sides


def _compare_sides(sides: Sequence[Side], changed: int) -> SideComparison:
    first, second = sides
    comparison = compare(first, second, most=changed)
    if not comparison.rows:
        raise click.ClickException(
            f"{first.name} and {second.name} have no row in common: no id is in both {first.run.name} and "
            f"{second.run.name}"
        )
    return comparison


def _compare_with_labels(sides: Sequence[Side], labels: Path | None) -> list[Meeting]:
    if labels is None:
        return []
    criteria = dict.fromkeys(name for side in sides for name in side.scales)
    human_labels = read_labels(labels, criteria, sides)
    if human_labels.ignored:
        ignored = printable(", ".join(human_labels.ignored))
        click.echo(f"{labels}: columns ignored because they name no criterion: {ignored}", err=True)
    return [meet(side, on_scales(human_labels, side)) for side in sides]


def _write(output: Path, sheets: Iterable[Sheet]) -> None:
    try:
        output.write_text(as_markdown("Comparison", sheets), encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"{output} cannot be written: {(error.strerror or str(error)).lower()}") from None
    click.echo(f"written to {output}", err=True)
