"""Turns pydantic's errors about a criteria file into plain words at the keys of the file."""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from judges.criteria.criterion import CRITERION_NAME, Criterion, WorkedExample
from judges.criteria.problems import InconsistentError, Loc, describe_actual, describe_error, unknown
from judges.criteria.scale import NOT_BLANK, SCALES, Bounds, Level, LocalizedText, Option, PassFail

_PATTERNS: Mapping[str, str] = {
    CRITERION_NAME: "must be 1 to 64 lower-case letters, digits and '_', starting with a letter",
    NOT_BLANK: "must not be empty",
}
# Models by the key that holds them, to list the valid keys next to an unknown one; all other keys hold a text.
_SECTIONS: Mapping[str, type[BaseModel]] = {
    "criteria": Criterion,
    "levels": Level,
    "binary": PassFail,
    "range": Bounds,
    "options": Option,
    "examples": WorkedExample,
}


class _CataloguePlace(NamedTuple):
    loc: Loc
    """The place in the file, without the parts that pydantic adds."""

    alternatives: str
    """The valid alternatives, if there are several and pydantic reports each separately; else empty."""


def describe_errors(details: Iterable[ErrorDetails], data: Any) -> Iterator[tuple[Loc, str]]:
    """Yield each error by its place in the data, without those that only follow from others."""
    for detail in details:
        place = _place_of(detail["loc"], data)
        error = detail.get("ctx", {}).get("error")
        if isinstance(error, InconsistentError):
            yield from (((*place.loc, *loc), message) for loc, message in error.found)
        elif not _is_consequence(detail, place):
            yield place.loc, _describe(detail, place)


def _is_consequence(detail: ErrorDetails, place: _CataloguePlace) -> bool:
    """Whether an error only follows from another.

    Pydantic reports a list as too short if its items are wrong, and a list of texts with a wrong item as not a text.
    """
    if detail["type"] == "too_short":
        return bool(len(detail["input"]) >= detail["ctx"]["min_length"])
    return place.loc[-2:-1] == ("fields",) and isinstance(detail["input"], list)


def unknown_keys(details: Iterable[ErrorDetails], data: Any) -> list[Loc]:
    """Return the places of unknown keys."""
    return [_place_of(detail["loc"], data).loc for detail in details if detail["type"] == "extra_forbidden"]


# Where the error is


def _place_of(loc: Loc, data: Any) -> _CataloguePlace:
    path: Loc = ()
    kind_seen = False
    for part in loc:
        if path[-1:] == ("scale",) and not kind_seen:
            kind_seen = True  # pydantic puts the kind of a scale before the key of the same name
        elif isinstance(part, int) and isinstance(data, list):
            path, data = (*path, part), data[part]
        elif isinstance(data, dict) and not _alternatives(path) and part != "[key]":
            path, data = (*path, part), data.get(part)
    return _CataloguePlace(path, _alternatives(path))


def _alternatives(loc: Loc) -> str:
    match loc:
        case ("criteria", int(), "examples", int(), "fields", str()):
            return "must be text or a list of texts"
        case ("criteria", int(), "examples", int(), "verdict"):
            return "must be a label or a number"
    return ""


# The message


def _describe(detail: ErrorDetails, place: _CataloguePlace) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "value_error":
        return str(context["error"])
    if kind == "scale":
        return detail["msg"] + _suggest_scale(detail["input"])
    if kind == "extra_forbidden":
        return unknown("key", str(place.loc[-1]), _valid_keys(detail["loc"]))
    if kind == "string_pattern_mismatch":
        return _PATTERNS[context["pattern"]]
    is_text = context.get("class_name") == LocalizedText.__name__
    is_container = kind in {"model_type", "dict_type", "tuple_type"} and not (is_text or place.alternatives)
    actual = describe_actual(detail["input"], container=is_container, text=is_text or kind == "string_type")
    if place.alternatives and kind != "missing":
        return place.alternatives + actual.removesuffix("; put it in quotes")
    return (
        f"must be text, or a mapping with the keys en and ru{actual}"
        if is_text
        else describe_error(kind, context, actual)
    )


def _suggest_scale(scale: Any) -> str:
    """Suggest the kind of scale that a misspelt key probably means."""
    keys = [key for key in scale if isinstance(key, str)] if isinstance(scale, dict) else []
    similar = [(key, kind) for key in keys for kind in difflib.get_close_matches(key.lower(), SCALES, n=1)]
    if len(similar) != 1 or similar[0][0] in SCALES:
        return ""
    return f"; did you mean {similar[0][1]!r} instead of {similar[0][0]!r}?"


def _valid_keys(loc: Loc) -> tuple[str, ...]:
    """Return the valid keys at the place of an unknown one; the place is pydantic's, with the kind of a scale."""
    match loc:
        case (_,):
            return ("criteria",)
        case (*_, "scale", str(kind), _):
            return (kind,)
    around = next(part for part in reversed(loc[:-1]) if isinstance(part, str))
    return tuple(_SECTIONS.get(around, LocalizedText).model_fields)
