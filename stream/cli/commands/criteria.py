"""`streamjury criteria`: lists and shows the built-in criteria, and checks a file of your own."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from judges.criteria.catalogue import (
    CATALOGUES,
    CriteriaError,
    UnknownCriterionError,
    dump_criteria,
    find_criterion,
    load_catalogue,
    load_criteria,
)
from judges.criteria.criterion import Criterion
from judges.criteria.scale import LANGUAGES, Range
from judges.values.interaction import Language
from stream.cli.support.json_output import print_json
from stream.cli.support.options import config_option_with_help, json_option, read_config
from stream.service.setup.criteria_files import load_chosen_criteria

_HEADINGS = ("criterion", "scale", "fields", "title")

_language_option = click.option(
    "--language", type=click.Choice(LANGUAGES), default="en", show_default=True, help="Language of the criteria texts."
)


@click.group()
def criteria() -> None:
    """List and show the built-in criteria, and check your own.

    A criterion is one question to a judge about one field, on one scale. Your own criteria go into a YAML file with the
    same keys as the built-in ones, under `criteria:`; start from one that is close to what you want.

    \b
    Examples:
      streamjury criteria list
      streamjury criteria show writing.empathy > mine.yaml
      streamjury criteria check mine.yaml
    """


@criteria.command("list")
@_language_option
@json_option("a JSON list instead of a table")
@config_option_with_help("List the criteria that this configuration judges, including your own.")
def list_command(language: Language, as_json: bool, config_path: Path | None) -> None:
    """List the built-in criteria, or those that a configuration judges.

    A scale is shown with its answers; * marks the best one. The first field is the one evaluated; the fields after the
    colon are shown to the judge with it. Without -c, no configuration is read.

    \b
    Examples:
      streamjury criteria list
      streamjury criteria list -c streamjury.yaml
      streamjury criteria list --language ru
      streamjury criteria list --json | jq -r '.[].name'

    \b
    JSON fields of each entry of the list:
      name, title, question        in the language of --language
      scale, choices, bounds       kind of scale; its answers with label and value; lowest and highest value, or null
      higher_is                    whether a high value is better or worse
      to_evaluate, context         the field that is evaluated, and the fields shown with it (null: all others)
      needs, needs_whole           fields that it cannot do without, and those it needs untruncated
    """
    listed = _load_built_in() if config_path is None else load_chosen_criteria(read_config(config_path).criteria)
    if as_json:
        print_json([_as_json(name, criterion, language) for name, criterion in listed.items()], indent=2)
    else:
        click.echo(_table(listed, language))


@criteria.command("show")
@click.argument("name")
def show_command(name: str) -> None:
    """Print a criterion as YAML, to read or as a start for your own file.

    NAME is a name from `criteria list`; the part before the dot is optional if no other criterion has the same name.

    \b
    Examples:
      streamjury criteria show rag.groundedness
      streamjury criteria show toxicity > mine.yaml
    """
    try:
        click.echo(dump_criteria([find_criterion(name)]), nl=False)
    except UnknownCriterionError as error:
        raise click.ClickException(str(error)) from None


@criteria.command("check")
@click.argument("file", type=click.Path(path_type=Path))
@_language_option
def check_command(file: Path, language: Language) -> None:
    """Check a file of criteria, and list its criteria or all its problems.

    A scale is shown with its answers; * marks the best one.

    \b
    Example:
      streamjury criteria check mine.yaml
    """
    try:
        loaded = load_criteria(file)
    except CriteriaError as error:
        count = len(error.problems)
        click.echo(f"{count} problem{'s' if count > 1 else ''}", err=True)
        click.echo(error, err=True)
        raise SystemExit(1) from None
    click.echo(f"ok: {file}, {len(loaded)} {'criterion' if len(loaded) == 1 else 'criteria'}")
    click.echo(_table(loaded, language))
    click.echo("* marks the best answer; the field before the colon is judged, those after it are shown with it")


def _load_built_in() -> Mapping[str, Criterion]:
    """Return the criteria of all catalogues by their full names."""
    return {
        f"{source}.{name}": criterion for source in CATALOGUES for name, criterion in load_catalogue(source).items()
    }


def _as_json(name: str, criterion: Criterion, language: Language) -> Mapping[str, Any]:
    scale = criterion.scale
    return {
        "name": name,
        "title": criterion.title.of(language),
        "question": criterion.question.of(language),
        "scale": scale.kind,
        "choices": [{"label": choice.label.of(language), "value": choice.value} for choice in scale.choices],
        "bounds": scale.bounds,
        "higher_is": criterion.higher_is,
        "to_evaluate": criterion.to_evaluate,
        "context": criterion.context,
        "needs": criterion.needs,
        "needs_whole": criterion.needs_whole,
    }


def _table(listed: Mapping[str, Criterion], language: Language) -> str:
    rows = [_HEADINGS, *(_row(name, criterion, language) for name, criterion in listed.items())]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(_line(row, widths) for row in rows)


def _line(cells: Sequence[str], widths: Iterable[int]) -> str:
    return "  ".join(f"{cell:{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip()


def _row(name: str, criterion: Criterion, language: Language) -> tuple[str, str, str, str]:
    return name, _scale(criterion, language), _fields(criterion), criterion.title.of(language)


def _scale(criterion: Criterion, language: Language) -> str:
    """Return the scale in a few words, such as `3 levels: verbose … concise*`, where * marks the good end."""
    scale = criterion.scale
    if isinstance(scale, Range):
        low, high = (f"{bound:g}{'*' * (criterion.normalise(bound) == 1)}" for bound in scale.bounds)
        return f"{low} … {high}"
    best = criterion.worst_first[-1:]
    names = [choice.label.of(language) + "*" * (choice in best) for choice in scale.choices]
    return f"{len(names)} levels: {names[0]} … {names[-1]}" if scale.kind == "levels" else " / ".join(names)


def _fields(criterion: Criterion) -> str:
    beside = "all others" if criterion.context is None else ", ".join(criterion.context)
    return f"{criterion.to_evaluate}: {beside}" if beside else criterion.to_evaluate
