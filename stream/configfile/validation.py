"""Validation of a draft against the model, and its errors in plain words at the places that a file has."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic import SecretStr, ValidationError
from pydantic_core import ErrorDetails

from stream.config import PATTERN_WORDS, Config, is_secret, unknown
from stream.configfile.draft import Draft, within
from stream.configwalk import DISCRIMINATOR, below, is_container, is_section, kind_of, names_in
from stream.paths import Loc


def validated(draft: Draft) -> Config | None:
    """The configuration, or None after what is wrong with it was reported to the draft."""
    try:
        return Config.model_validate(draft.data)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            _report(detail, draft)
        return None


def _report(detail: ErrorDetails, draft: Draft) -> None:
    place = _place_of(detail)
    if any(within(place.loc, unread) for unread in draft.unread) or _follows(detail):
        return
    hidden = _is_hidden(place) or place.loc in draft.from_environment
    draft.report(place.loc, _words(detail, place, shown=not hidden) + _source(place.loc, draft))


def _follows(detail: ErrorDetails) -> bool:
    """Whether the error only follows from others: a list counts as short when its items are wrong."""
    return detail["type"] == "too_short" and len(detail["input"]) >= detail["ctx"]["min_length"]


def _source(loc: Loc, draft: Draft) -> str:
    for verb, variables in (("set", draft.overridden), ("item added", draft.added)):
        for length in range(len(loc), 0, -1):
            if loc[:length] in variables:
                return f" ({verb} by {variables[loc[:length]]})"
    return ""


# Where the error is


class _Place(NamedTuple):
    loc: Loc
    """The place as the file has it, without what pydantic adds for itself."""

    around: tuple[Any, ...]
    """The types of the section that it is in."""

    kinds: tuple[Any, ...]
    """The types that the value may have."""


def _place_of(detail: ErrorDetails) -> _Place:
    loc: Loc = ()
    around: tuple[Any, ...] = ()
    kinds: tuple[Any, ...] = (Config,)
    for part in detail["loc"]:
        tagged = [kind for kind in kinds if is_section(kind) and kind_of(kind) == part]
        if tagged and len(kinds) > 1:
            kinds = tuple(tagged)
        elif part != "[key]" and any(map(is_container, kinds)):
            loc, around, kinds = (*loc, part), kinds, below(kinds, part)
    if detail["type"] in {"union_tag_invalid", "union_tag_not_found"}:
        loc, around, kinds = (*loc, DISCRIMINATOR), kinds, below(kinds, DISCRIMINATOR)
    return _Place(loc, around, kinds)


def _is_hidden(place: _Place) -> bool:
    is_option = place.loc[:-1] == ("kafka", "options")
    return SecretStr in place.kinds or (is_option and is_secret(str(place.loc[-1])))


# What is wrong there

_WHOLE, _NUMBER, _TRUTH = "must be a whole number{found}", "must be a number{found}", "must be true or false{found}"
_MAPPING = "must be a mapping{found}"
_WORDS: Mapping[str, str] = {
    "missing": "is required",
    "greater_than": "must be above {gt}{found}",
    "greater_than_equal": "must be at least {ge}{found}",
    "less_than_equal": "must be at most {le}{found}",
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_parsing_size": _WHOLE,
    "int_from_float": _WHOLE,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": "must be a finite number{found}",
    "bool_type": _TRUTH,
    "bool_parsing": _TRUTH,
    "string_type": "must be text{found}",
    "string_unicode": "must be text without half characters",
    "string_too_short": "must have at least {min_length} character(s)",
    "string_too_long": "must have at most {max_length} characters",
    "too_short": "must have at least {min_length} item(s)",
    "too_long": "must have at most {max_length} items",
    "literal_error": "must be {expected}{found}",
    "union_tag_invalid": "must be one of {expected_tags}{found}",
    "union_tag_not_found": "is required",
    "model_type": _MAPPING,
    "model_attributes_type": _MAPPING,
    "dict_type": _MAPPING,
    "tuple_type": "must be a list{found}",
}


def _words(detail: ErrorDetails, place: _Place, *, shown: bool) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    shown = shown and detail["loc"][-1:] != ("[key]",)  # a key is in the path already
    found = _found(context.get("tag", detail["input"]), place.kinds) if shown else ""
    if kind == "value_error":
        return f"{context['error']}{found if {int, float} & {*place.kinds} else ''}"
    if kind == "extra_forbidden":
        return unknown("key", str(place.loc[-1]), names_in(place.around))
    if kind == "string_pattern_mismatch":
        return f"must be {PATTERN_WORDS[context['pattern']]}{found}"
    if {str, bool} <= {*place.kinds}:
        return "must be text, a number, or true or false"
    template = _WORDS.get(kind, "is not valid")
    return template.format(found=found, **{name: _number(value) for name, value in context.items()})


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _found(value: Any, kinds: tuple[Any, ...]) -> str:
    if value is None:
        return ", not empty"
    if isinstance(value, dict | list):
        return f", not {'a list' if isinstance(value, list) else 'a mapping'}"
    if any(map(is_container, kinds)):
        return f", not {'text' if isinstance(value, str) else 'a single value'}"
    hint = "; put it in quotes" if str in kinds and not isinstance(value, str) else ""
    return f", not {_shown(value)}{hint}"


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and value.bit_length() > 64:
        return "a number so large"
    return repr(value) if len(repr(value)) <= 80 else f"{repr(value)[:80]}…"
