"""`streamjury input check`: shows for sample records which value is read into which field."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import click

from sinks.text import printable
from stream.cli.support.cluster import reach
from stream.cli.support.json_output import print_json
from stream.cli.support.options import config_option, json_option, read_config
from stream.config.model import Config
from stream.errors import StageError
from stream.jobs.input_check.check import REQUIRED, FieldCheck, InputCheck, check_input
from stream.jobs.input_check.samples import read_samples, read_topic

_DEFAULT_LIMIT = 100


@click.group("input")
def input_group() -> None:
    """Check how logged records are read.

    \b
    Example:
      streamjury input check interactions.jsonl
    """


@input_group.command("check", short_help="Show which value is read into which field.")
@click.argument("file", metavar="FILE|-", required=False)
@click.option("--topic", "is_topic", is_flag=True, help="Read the newest records of topics.interactions.")
@click.option(
    "--limit",
    type=click.IntRange(min=1, max=100_000),
    default=_DEFAULT_LIMIT,
    show_default=True,
    help="Number of records to read.",
)
@json_option()
@config_option
def check_command(*, file: str | None, is_topic: bool, limit: int, as_json: bool, config_path: Path | None) -> None:
    """Show for sample records which value is read into which field, and what is missing.

    The records come from a JSONL file or, with --topic, from the input topic. They are read as the pipeline reads
    them, with input.encoding, input.adapter and input.mapping. A file with one record in a Confluent encoding is
    recognised by its first byte. No record is changed or judged. The exit status is 1 if a record cannot be read.

    \b
    Examples:
      streamjury input check interactions.jsonl
      streamjury input check --topic --limit 20
      streamjury input check interactions.jsonl --json | jq -r '.hints[]'

    \b
    JSON fields:
      ok                 whether there are records and all can be read
      source             the file or the topic
      encoding, adapter  how records are read
      records, readable  number of records, and of those that can be read
      fields             list of objects with field, path (null if it is not mapped), required, found and example
      problems           the first problems: objects with place, kind and message
      hints              texts: values that look like a missing field, or another kind of file
    """
    if (file is None) != is_topic:
        raise click.UsageError("give a FILE or --topic")
    config = read_config(config_path)
    result = _check(config, file, limit)
    source = config.topics.interactions if file is None else file
    if as_json:
        print_json(_as_json(result, source), indent=2)
    else:
        for line in _lines(result, source):
            click.echo(printable(line))
    if not result.ok:
        raise SystemExit(1)


def _check(config: Config, file: str | None, limit: int) -> InputCheck:
    try:
        if file is None:
            reach(config.kafka).require(config.topics.interactions)
            return check_input(config, read_topic(config, limit))
        with _open_input(file) as source:
            return check_input(config, read_samples(source, limit))
    except StageError as error:
        raise click.ClickException(str(error)) from None


@contextmanager
def _open_input(file: str) -> Iterator[BinaryIO]:
    if file == "-":
        yield sys.stdin.buffer
        return
    try:
        with Path(file).open("rb") as source:
            yield source
    except OSError as error:
        raise click.ClickException(f"cannot read {file}: {(error.strerror or str(error)).lower()}") from None


def _as_json(result: InputCheck, source: str) -> dict[str, object]:
    return {
        "ok": result.ok,
        "source": source,
        "encoding": result.encoding,
        "adapter": result.adapter,
        "records": result.records,
        "readable": result.readable,
        "fields": [
            {
                "field": check.name,
                "path": check.path,
                "required": check.name in REQUIRED,
                "found": check.found,
                "example": check.example,
            }
            for check in result.fields
        ],
        "problems": [
            {"place": problem.place, "kind": problem.kind, "message": problem.message} for problem in result.problems
        ],
        "hints": result.hints,
    }


def _lines(result: InputCheck, source: str) -> Iterator[str]:
    yield f"{source}: {result.readable} of {result.records} records can be read"
    yield f"encoding {result.encoding}, adapter {result.adapter}"
    if not result.records:
        yield "there are no records"
    else:
        yield ""
        width = max(len(_describe_path(check)) for check in result.fields)
        yield f"  {'field':12}{'path':{width + 2}}{'found':>7}  example"
        for check in result.fields:
            found = f"{check.found}/{result.records}" if check.path is not None else "-"
            yield f"  {check.name:12}{_describe_path(check):{width + 2}}{found:>7}  {check.example or ''}".rstrip()
    for title, texts in (
        ("problems", [f"{problem.place}: {problem.kind}: {problem.message}" for problem in result.problems]),
        ("hints", result.hints),
    ):
        if texts:
            yield ""
            yield title
            yield from (f"  {text}" for text in texts)


def _describe_path(check: FieldCheck) -> str:
    return check.path or "not mapped"
