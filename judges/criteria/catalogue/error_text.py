"""Turns pydantic's errors about a criteria file into plain words at the keys of the file."""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from judges.criteria.criterion import CRITERION_NAME, Criterion, WorkedExample
from judges.criteria.problems import InconsistentError, Loc, found_instead, in_words, unknown
from judges.criteria.scale import NOT_BLANK, SCALES, Bounds, Level, LocalizedText, Option, PassFail

_PATTERNS: Mapping[str, str] = {
    CRITERION_NAME: "must be 1 to 64 lower-case letters, digits and '_', starting with a letter",
    NOT_BLANK: "must not be empty",
}
# What stands under a key, so that an unknown key in it can be answered with the known ones; all others hold a Text.
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
    """The place as the file has it, without what pydantic adds for itself."""

    alternatives: str
    """What may stand there, where there are several alternatives and pydantic tells of each by itself; else empty."""


def in_plain_words(details: Iterable[ErrorDetails], data: Any) -> Iterator[tuple[Loc, str]]:
    """Each error about the data, by its place; those that only follow from others are left out."""
    for detail in details:
        place = _place_of(detail["loc"], data)
        error = detail.get("ctx", {}).get("error")
        if isinstance(error, InconsistentError):
            yield from (((*place.loc, *loc), message) for loc, message in error.found)
        elif not _follows(detail, place):
            yield place.loc, _words(detail, place)


def _follows(detail: ErrorDetails, place: _CataloguePlace) -> bool:
    """A list counts as short when its items are wrong, and as no text when it is a list of texts with a wrong one."""
    if detail["type"] == "too_short":
        return bool(len(detail["input"]) >= detail["ctx"]["min_length"])
    return place.loc[-2:-1] == ("fields",) and isinstance(detail["input"], list)


def unknown_keys(details: Iterable[ErrorDetails], data: Any) -> list[Loc]:
    """The places of keys that nothing reads."""
    return [_place_of(detail["loc"], data).loc for detail in details if detail["type"] == "extra_forbidden"]


# Where the error is


def _place_of(loc: Loc, data: Any) -> _CataloguePlace:
    kept: Loc = ()
    kind_seen = False
    for part in loc:
        if kept[-1:] == ("scale",) and not kind_seen:
            kind_seen = True  # pydantic names the kind of a scale before the key that says the same
        elif isinstance(part, int) and isinstance(data, list):
            kept, data = (*kept, part), data[part]
        elif isinstance(data, dict) and not _alternatives(kept) and part != "[key]":
            kept, data = (*kept, part), data.get(part)
    return _CataloguePlace(kept, _alternatives(kept))


def _alternatives(loc: Loc) -> str:
    match loc:
        case ("criteria", int(), "examples", int(), "fields", str()):
            return "must be text or a list of texts"
        case ("criteria", int(), "examples", int(), "verdict"):
            return "must be a label or a number"
    return ""


# What is wrong there


def _words(detail: ErrorDetails, place: _CataloguePlace) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "value_error":
        return str(context["error"])
    if kind == "scale":
        return detail["msg"] + _meant(detail["input"])
    if kind == "extra_forbidden":
        return unknown("key", str(place.loc[-1]), _known_beside(detail["loc"]))
    if kind == "string_pattern_mismatch":
        return _PATTERNS[context["pattern"]]
    is_text = context.get("class_name") == LocalizedText.__name__
    is_container = kind in {"model_type", "dict_type", "tuple_type"} and not (is_text or place.alternatives)
    found = found_instead(detail["input"], container=is_container, text=is_text or kind == "string_type")
    if place.alternatives and kind != "missing":
        return place.alternatives + found.removesuffix("; put it in quotes")
    return f"must be text, or a mapping with the keys en and ru{found}" if is_text else in_words(kind, context, found)


def _meant(scale: Any) -> str:
    """The kind of scale that a misspelt key was probably meant to be."""
    keys = [key for key in scale if isinstance(key, str)] if isinstance(scale, dict) else []
    near = [(key, kind) for key in keys for kind in difflib.get_close_matches(key.lower(), SCALES, n=1)]
    if len(near) != 1 or near[0][0] in SCALES:
        return ""
    return f"; did you mean {near[0][1]!r} instead of {near[0][0]!r}?"


def _known_beside(loc: Loc) -> tuple[str, ...]:
    """The keys that may stand where an unknown one does; the place is pydantic's, with the kind of a scale."""
    match loc:
        case (_,):
            return ("criteria",)
        case (*_, "scale", str(kind), _):
            return (kind,)
    around = next(part for part in reversed(loc[:-1]) if isinstance(part, str))
    return tuple(_SECTIONS.get(around, LocalizedText).model_fields)
