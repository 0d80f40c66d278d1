"""Validates a draft against the model, and reports errors in plain words at the keys of the file."""

import contextlib
import copy
from collections.abc import Collection
from typing import Any, NamedTuple

from pydantic import SecretStr, ValidationError
from pydantic_core import ErrorDetails

from judges.criteria.problems import InconsistentError, Loc, describe_actual, describe_error, unknown
from stream.config.judge_kinds import default_name
from stream.config.judge_kinds.local import LocalJudgeConfig
from stream.config.model import Config
from stream.config.patterns import PATTERN_WORDS
from stream.config.section import MASK
from stream.config.sections.kafka import is_secret
from stream.config.walk import DISCRIMINATOR, below, is_container, is_section, kind_of, names_in, of_shape
from stream.records.adapters import make_adapter
from stream.sampler.policy import find_unreadable
from stream.service.setup.checks import check_config
from stream.service.setup.draft import Draft, within
from stream.service.setup.evaluator import build_evaluator

_JUDGING: Collection[Loc] = {("criteria",), ("judges",), ("composite",)}
"""The sections that have to go together."""

# Where a judge is asked, and with which key, changes nothing about what it can judge by.
_NO_MATTER = {"api_key", "api_key_file", "base_url", "model"}


def validated(draft: Draft) -> Config | None:
    """The configuration, or None after what is wrong with it was reported to the draft.

    What is wrong at one place must not hide what does not go together at others: what is sound is looked at by itself.
    """
    _refuse_written_keys(draft)
    config = _read(draft.data, draft)
    _check_sampled_fields(draft)
    if config is not None:
        if all(loc[:1] not in _JUDGING or loc[-1] in _NO_MATTER for loc in draft.problems):
            _put_together(config, draft)
        return config
    sound = _read(_sound_part(draft), draft, only=_JUDGING)
    if sound is not None and all(loc[:1] not in _JUDGING for loc in draft.problems):
        _put_together(sound, draft)
    return None


def _refuse_written_keys(draft: Draft) -> None:
    """A file is copied, shown and kept in repositories: a key that stands in one is no secret for long."""
    for seats in ("panel", "reserves"):
        with contextlib.suppress(LookupError, TypeError, AttributeError):
            for place, judge in enumerate(draft.data["judges"][seats]):
                loc: Loc = ("judges", seats, place, "api_key")
                if isinstance(judge, dict) and judge.get("api_key") and not _comes_from_outside(loc, draft):
                    message = "must come from the environment, as ${NAME}, or from a file named by api_key_file"
                    draft.report(loc, message)


def _comes_from_outside(loc: Loc, draft: Draft) -> bool:
    """Whether a value is taken from a variable, or was reported already for being taken from one that is not set."""
    return loc in draft.from_environment or loc in draft.unread or bool(_source(loc, draft))


def _read(data: Any, draft: Draft, *, only: Collection[Loc] | None = None) -> Config | None:
    """The data as a configuration; else None, and what is wrong, in some sections only, is reported to the draft."""
    try:
        return check_config(data)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            if only is None or detail["loc"][:1] in only:
                _report(detail, draft)
        return None


def _sound_part(draft: Draft) -> Any:
    """The data without what is wrong, as far as that can be left out without changing what the rest means."""
    data = copy.deepcopy(draft.data)
    for loc in draft.problems:
        # The problem may be that there is nothing at the place, or something else.
        with contextlib.suppress(LookupError, TypeError, AttributeError):
            if loc[:1] not in _JUDGING:
                del data[loc[0]]
            elif loc[:2] in {("judges", "panel"), ("judges", "reserves")} and loc[3:4] != ("name",):
                data["judges"][loc[1]][loc[2]] = _stand_in(data["judges"][loc[1]][loc[2]])
            elif loc[:2] in {("composite", "weights"), ("composite", "thresholds")}:
                del data["composite"][loc[1]][loc[2]]
    return data


def _stand_in(judge: Any) -> Any:
    """A judge of the same name with nothing wrong about it, so that what is said of the name can be checked."""
    name = judge.get("name", default_name(judge.get(DISCRIMINATOR)))
    return judge if name is None else {DISCRIMINATOR: kind_of(LocalJudgeConfig), "name": name}


def _check_sampled_fields(draft: Draft) -> None:
    """Reports conditions on fields that no record of the configured input has; broken sections are left out."""
    data = _sound_part(draft)
    sections = {name: data[name] for name in ("input", "sampling") if name in data} if isinstance(data, dict) else {}
    config = _read(sections, draft, only=())
    if config is not None:
        unreadable = find_unreadable(config.sampling, make_adapter(config.input))
        _report_found(InconsistentError(unreadable), ("sampling",), draft)


def _put_together(config: Config, draft: Draft) -> None:
    """Finds out now what would otherwise end the worker when it starts."""
    try:
        build_evaluator(config)
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


class _ErrorPlace(NamedTuple):
    loc: Loc
    """The place as the file has it, without what pydantic adds for itself."""

    around: tuple[Any, ...]
    """The types of the section that it is in."""

    kinds: tuple[Any, ...]
    """The types that the value may have."""


def _place_of(detail: ErrorDetails) -> _ErrorPlace:
    loc: Loc = ()
    around: tuple[Any, ...] = ()
    kinds: tuple[Any, ...] = (Config,)
    for part in detail["loc"]:
        tagged = [kind for kind in kinds if is_section(kind) and kind_of(kind) == part]
        if tagged and len(kinds) > 1:
            kinds = tuple(tagged)
        elif shaped := of_shape(kinds, part):
            kinds = shaped
        elif part != "[key]" and any(map(is_container, kinds)):
            loc, around, kinds = (*loc, part), kinds, below(kinds, part)
    if detail["type"] in {"union_tag_invalid", "union_tag_not_found"}:
        loc, around, kinds = (*loc, DISCRIMINATOR), kinds, below(kinds, DISCRIMINATOR)
    return _ErrorPlace(loc, around, kinds)


def _is_hidden(place: _ErrorPlace) -> bool:
    is_option = place.loc[:-1] == ("kafka", "options")
    return SecretStr in place.kinds or (is_option and is_secret(str(place.loc[-1])))


# What is wrong there


def _words(detail: ErrorDetails, place: _ErrorPlace, *, shown: bool) -> str:
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
    return describe_error(kind, context, found)


def _found(value: Any, kinds: tuple[Any, ...]) -> str:
    return describe_actual(value, container=any(map(is_container, kinds)), text=str in kinds)
