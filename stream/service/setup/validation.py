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
"""Sections that must fit together."""

# The address, model and key of a judge do not change which criteria it can judge.
_NO_MATTER = {"api_key", "api_key_file", "base_url", "model"}


def validate_draft(draft: Draft) -> Config | None:
    """Return the configuration, or None after reporting its problems to the draft.

    A problem at one place must not hide conflicts at others, so the valid parts are checked on their own.
    """
    _refuse_written_keys(draft)
    config = _read(draft.data, draft)
    _check_sampled_fields(draft)
    if config is not None:
        if all(loc[:1] not in _JUDGING or loc[-1] in _NO_MATTER for loc in draft.problems):
            _check_evaluator(config, draft)
        return config
    sound = _read(_sound_part(draft), draft, only=_JUDGING)
    if sound is not None and all(loc[:1] not in _JUDGING for loc in draft.problems):
        _check_evaluator(sound, draft)
    return None


def _refuse_written_keys(draft: Draft) -> None:
    """Report API keys in the file: files are copied, shown and kept in repositories, so a key would leak."""
    for seats in ("panel", "reserves"):
        with contextlib.suppress(LookupError, TypeError, AttributeError):
            for place, judge in enumerate(draft.data["judges"][seats]):
                loc: Loc = ("judges", seats, place, "api_key")
                if isinstance(judge, dict) and judge.get("api_key") and not _comes_from_outside(loc, draft):
                    message = "must come from the environment, as ${NAME}, or from a file named by api_key_file"
                    draft.report(loc, message)


def _comes_from_outside(loc: Loc, draft: Draft) -> bool:
    """Return whether a value comes from a variable, or was already reported because its variable is not set."""
    return loc in draft.from_environment or loc in draft.unread or bool(_source(loc, draft))


def _read(data: Any, draft: Draft, *, only: Collection[Loc] | None = None) -> Config | None:
    """Validate the data; else return None and report the problems, with `only` those of some sections, to the draft."""
    try:
        return check_config(data)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            if only is None or detail["loc"][:1] in only:
                _report(detail, draft)
        return None


def _sound_part(draft: Draft) -> Any:
    """Copy the data without its wrong parts, as far as the rest keeps its meaning without them."""
    data = copy.deepcopy(draft.data)
    for loc in draft.problems:
        # The place may be missing, or have the wrong type.
        with contextlib.suppress(LookupError, TypeError, AttributeError):
            if loc[:1] not in _JUDGING:
                del data[loc[0]]
            elif loc[:2] in {("judges", "panel"), ("judges", "reserves")} and loc[3:4] != ("name",):
                data["judges"][loc[1]][loc[2]] = _make_stand_in(data["judges"][loc[1]][loc[2]])
            elif loc[:2] in {("composite", "weights"), ("composite", "thresholds")}:
                del data["composite"][loc[1]][loc[2]]
    return data


def _make_stand_in(judge: Any) -> Any:
    """Make a valid judge of the same name, so that other references to the name can be checked."""
    name = judge.get("name", default_name(judge.get(DISCRIMINATOR)))
    return judge if name is None else {DISCRIMINATOR: kind_of(LocalJudgeConfig), "name": name}


def _check_sampled_fields(draft: Draft) -> None:
    """Report conditions on fields that no record of the configured input has; skip broken sections."""
    data = _sound_part(draft)
    sections = {name: data[name] for name in ("input", "sampling") if name in data} if isinstance(data, dict) else {}
    config = _read(sections, draft, only=())
    if config is not None:
        unreadable = find_unreadable(config.sampling, make_adapter(config.input))
        _report_problems(InconsistentError(unreadable), ("sampling",), draft)


def _check_evaluator(config: Config, draft: Draft) -> None:
    """Find problems now that would otherwise end the worker at its start."""
    try:
        build_evaluator(config)
    except InconsistentError as error:
        _report_problems(error, (), draft)
    except ValueError as error:
        draft.report(("judges",), str(error))


def _report(detail: ErrorDetails, draft: Draft) -> None:
    place = _place_of(detail)
    if any(within(place.loc, unread) for unread in draft.unread) or _follows(detail):
        return
    error = detail.get("ctx", {}).get("error")
    if isinstance(error, InconsistentError):
        _report_problems(error, place.loc, draft)
        return
    hidden = _is_hidden(place) or place.loc in draft.from_environment
    draft.report(place.loc, _describe(detail, place, shown=not hidden) + _source(place.loc, draft))


def _report_problems(error: InconsistentError, outer: Loc, draft: Draft) -> None:
    for inner, message in error.found:
        loc = (*outer, *inner)
        if any(within(loc, unread) for unread in draft.unread):
            continue
        secret = _text_at(draft.data, loc) if loc in draft.from_environment else None
        text = message.replace(secret, MASK) if secret else message
        draft.report(loc, text + _source(loc, draft))


def _text_at(data: Any, loc: Loc) -> str:
    for part in loc:
        data = data[part]
    return str(data)


def _follows(detail: ErrorDetails) -> bool:
    """Return whether the error only follows from others: a list counts as short when its items are wrong."""
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
    """The place in the file, without the parts that pydantic adds."""

    around: tuple[Any, ...]
    """The types of the section around it."""

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


# The message


def _describe(detail: ErrorDetails, place: _ErrorPlace, *, shown: bool) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    shown = shown and detail["loc"][-1:] != ("[key]",)  # a key is in the path already
    instead = _describe_found(context.get("tag", detail["input"]), place.kinds) if shown else ""
    if kind == "value_error":
        message = str(context["error"])
        return message + (instead if message.startswith("must") and {int, float} & {*place.kinds} else "")
    if kind == "extra_forbidden":
        return unknown("key", str(place.loc[-1]), names_in(place.around))
    if kind == "string_pattern_mismatch":
        return f"must be {PATTERN_WORDS[context['pattern']]}{instead}"
    if {str, bool} <= {*place.kinds}:
        return "must be text, a number, or true or false"
    return describe_error(kind, context, instead)


def _describe_found(value: Any, kinds: tuple[Any, ...]) -> str:
    return describe_actual(value, container=any(map(is_container, kinds)), text=str in kinds)
