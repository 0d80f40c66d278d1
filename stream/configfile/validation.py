"""Validation of a draft against the model, and its errors in plain words at the places that a file has."""

from typing import Any, NamedTuple

from pydantic import SecretStr, ValidationError
from pydantic_core import ErrorDetails

from judges.problems import InconsistentError, Loc, found_instead, in_words, unknown
from stream.assembly import check_evaluator
from stream.config import MASK, PATTERN_WORDS, Config, is_secret
from stream.configfile.draft import Draft, within
from stream.configwalk import DISCRIMINATOR, below, is_container, is_section, kind_of, names_in


def validated(draft: Draft) -> Config | None:
    """The configuration, or None after what is wrong with it was reported to the draft."""
    try:
        config = Config.model_validate(draft.data)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            _report(detail, draft)
        return None
    if not draft.problems:
        _put_together(config, draft)
    return config


def _put_together(config: Config, draft: Draft) -> None:
    """Finds out now what would otherwise end the worker when it starts."""
    try:
        check_evaluator(config)
    except InconsistentError as error:
        _report_found(error, (), draft)
    except ValueError as error:
        draft.report(("judges",), str(error))


def _report(detail: ErrorDetails, draft: Draft) -> None:
    place = _place_of(detail)
    if any(within(place.loc, unread) for unread in draft.unread) or _follows(detail):
        return
    error = detail.get("ctx", {}).get("error")
    if isinstance(error, InconsistentError):
        _report_found(error, place.loc, draft)
        return
    hidden = _is_hidden(place) or place.loc in draft.from_environment
    draft.report(place.loc, _words(detail, place, shown=not hidden) + _source(place.loc, draft))


def _report_found(error: InconsistentError, outer: Loc, draft: Draft) -> None:
    for inner, message in error.found:
        loc = (*outer, *inner)
        if any(within(loc, unread) for unread in draft.unread):
            continue
        secret = _text_at(draft.data, loc) if loc in draft.from_environment else None
        said = message.replace(secret, MASK) if secret else message
        draft.report(loc, said + _source(loc, draft))


def _text_at(data: Any, loc: Loc) -> str:
    for part in loc:
        data = data[part]
    return str(data)


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


def _words(detail: ErrorDetails, place: _Place, *, shown: bool) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    shown = shown and detail["loc"][-1:] != ("[key]",)  # a key is in the path already
    found = _found(context.get("tag", detail["input"]), place.kinds) if shown else ""
    if kind == "value_error":
        message = str(context["error"])
        return message + (found if message.startswith("must") and {int, float} & {*place.kinds} else "")
    if kind == "extra_forbidden":
        return unknown("key", str(place.loc[-1]), names_in(place.around))
    if kind == "string_pattern_mismatch":
        return f"must be {PATTERN_WORDS[context['pattern']]}{found}"
    if {str, bool} <= {*place.kinds}:
        return "must be text, a number, or true or false"
    return in_words(kind, context, found)


def _found(value: Any, kinds: tuple[Any, ...]) -> str:
    return found_instead(value, container=any(map(is_container, kinds)), text=str in kinds)
