"""The page about the configuration: below the part that people wrote, a table of the keys of every section."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from stream.config.model import Config
from stream.config.reference import describe_values, plain_default
from stream.config.walk import DISCRIMINATOR, alternatives, below, is_section, kind_of

_PAGE = Path(__file__).parents[1] / "configuration.md"
_BEGIN = "<!-- The rest is written by `make reference`. -->"


def page() -> str:
    """The page with its tables regenerated; the part that people wrote above them stays."""
    written, begin, _ = _PAGE.read_text(encoding="utf-8").partition(_BEGIN)
    assert begin, f"{_PAGE} must have the line {_BEGIN}"
    return f"{written}{_BEGIN}\n\n{_tables()}"


class _SectionPlace(NamedTuple):
    """A section of the model and where it stands in a file."""

    path: str
    section: type[BaseModel]
    kind: str | None


def _tables() -> str:
    """Every key with the values it takes, its default and its meaning."""
    places: dict[tuple[type[BaseModel], str], list[_SectionPlace]] = {}
    for place in _sections("", Config):
        if place.path:
            places.setdefault((place.section, place.path if place.kind else ""), []).append(place)
    return "\n".join(map(_section_table, places.values()))


def _sections(path: str, section: type[BaseModel], kind: str | None = None) -> Iterator[_SectionPlace]:
    yield _SectionPlace(path, section, kind)
    for name, field in section.model_fields.items():
        kinds = alternatives(field.annotation)
        for inner in filter(is_section, kinds):
            yield from _sections(f"{path}.{name}".lstrip("."), inner)
        for inner in filter(is_section, below(kinds, 0)):
            yield from _sections(f"{path}.{name}[]".lstrip("."), inner, kind_of(inner))
        for inner in filter(is_section, below(kinds, "")):
            yield from _sections(f"{path}.{name}.*", inner)


def _section_table(places: Sequence[_SectionPlace]) -> str:
    """One section, in all the places where it stands."""
    first = places[0]
    # A section of several kinds of judges stands under the same path in each.
    paths = ", ".join(f"`{path}`" for path in dict.fromkeys(place.path for place in places))
    kind = f" with `{DISCRIMINATOR}: {first.kind}`" if first.kind else ""
    rows = [
        f"| `{name}` | {describe_values(field)} | {_default(field)} | {field.description} |"
        for name, field in first.section.model_fields.items()
    ]
    head = ["| key | takes | default | meaning |", "| --- | --- | --- | --- |"]
    return "\n".join([f"### {paths}{kind}", "", str(first.section.__doc__), "", *head, *rows, ""])


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    is_short = field.default is None or isinstance(field.default, str)
    if any(map(is_section, alternatives(field.annotation))) and not is_short:
        return ""
    return f"`{json.dumps(plain_default(field), ensure_ascii=False)}`"
