"""`streamjury diagnose`: says whether retrieval or generation is to blame for bad answers."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import click
from rich.console import Console

from sinks.reports.results_reader import ResultsError
from sinks.reports.sheet import Sheet
from sinks.reports.sheet_rendering import as_html, as_markdown, draw
from stream.cli.support.cluster import reach
from stream.cli.support.json_output import print_json
from stream.cli.support.options import config_option, json_option, output_option, read_config
from stream.cli.support.time_option import TimeOption
from stream.errors import StageError
from stream.jobs.diagnosis import Diagnosis, as_object, diagnose_all, read_file, read_topic, sheets_of

_TITLE = "Retrieval or generation"
_NOTHING = (
    "No evaluation has a score for both context_sufficiency and groundedness; `streamjury config check` lists the "
    "criteria that are judged"
)


@click.command()
@click.argument("path", metavar="[FILE]", required=False, type=click.Path(path_type=Path))
@click.option("--since", type=TimeOption(), help="Read the topic, since this time or this long ago: 90m, 24h, 7d.")
@json_option()
@output_option("Also write the tables to a file: HTML if its name ends in .html, else Markdown.", metavar="FILE")
@config_option
def diagnose(
    *, path: Path | None, since: datetime | None, as_json: bool, output: Path | None, config_path: Path | None
) -> None:
    """Diagnose whether retrieval or generation is to blame for bad answers, and where.

    FILE is the output of `streamjury evaluate`, a folder or its results.jsonl, or a file with one evaluation per line.
    With --since, evaluations of live traffic are read from the topic instead. Every answer with a score for
    context_sufficiency and for groundedness falls into one of four cells:

    \b
      good        sufficient contexts, grounded answer
      generation  sufficient contexts, but the answer is not grounded
      lucky       contexts do not suffice, but the answer is grounded
      retrieval   contexts do not suffice, and the answer is not grounded

    If criteria.use names answer.refusal, the refusals are counted too: justified if the contexts do not suffice.

    \b
    Examples:
      streamjury diagnose answers-results
      streamjury diagnose --since 1h --output diagnosis.html
      streamjury diagnose --since 24h --json | jq '.cells.retrieval.share'

    \b
    JSON fields:
      schema_version  streamjury.diagnosis/1
      diagnosed       number of answers with a diagnosis
      undiagnosed     number of answers without a score for one of the two criteria
      cells           object: number of answers and weighted share of each diagnosis
      refusals        the same for answered, justified, unjustified and unknown; null if not judged
      slices          worst slices: list of objects with attribute, value and cells
      examples        up to ten faults: list of objects with interaction_id, cell, composite, sufficiency,
                      groundedness, app, question, answer and why
    """
    if (path is None) == (since is None):
        raise click.UsageError("give either a FILE or --since")
    diagnosis = _diagnose_file(path) if path is not None else _diagnose_topic(config_path, since)
    sheets = list(sheets_of(diagnosis))
    if output is not None:
        _write(output, sheets)
    if as_json:
        print_json(as_object(diagnosis))
    elif diagnosis.whole.count or diagnosis.refusals.count:
        draw(sheets, Console())
    elif not diagnosis.undiagnosed:
        click.echo(f"There are no evaluations {'in this file' if since is None else 'since this time'}")
    else:
        click.echo(f"{_NOTHING} ({diagnosis.undiagnosed:,} evaluations were read)")


def _diagnose_file(path: Path) -> Diagnosis:
    try:
        return diagnose_all(read_file(path))
    except ResultsError as error:
        raise click.ClickException(str(error)) from None


def _diagnose_topic(config_path: Path | None, since: datetime | None) -> Diagnosis:
    assert since is not None
    config = read_config(config_path)
    cluster = reach(config.kafka)
    cluster.require(config.topics.evaluations)
    if config.topics.evaluations not in cluster.partitions:  # an embedded broker creates it with the first record
        return diagnose_all(())
    try:
        return diagnose_all(read_topic(config, since, embedded=cluster.embedded))
    except StageError as error:
        raise click.ClickException(str(error)) from None


def _write(output: Path, sheets: Sequence[Sheet]) -> None:
    render = as_html if output.suffix.lower() in {".html", ".htm"} else as_markdown
    try:
        output.write_text(render(_TITLE, sheets), encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"{output} cannot be written: {(error.strerror or str(error)).lower()}") from None
    click.echo(f"written to {output}", err=True)
