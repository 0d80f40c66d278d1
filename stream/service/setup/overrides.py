"""Overrides from the environment: `STREAMJURY__SAMPLING__RATE=0.5` sets `sampling.rate`, whatever the file says."""

import re
from collections.abc import Mapping
from types import NoneType
from typing import Any, NamedTuple, get_origin

from pydantic import SecretStr

from judges.criteria.problems import Loc
from judges.criteria.strict_yaml import UnreadableError, read_yaml
from stream.config.model import Config
from stream.config.walk import DISCRIMINATOR, below, is_container, of_shape
from stream.service.setup.draft import Draft

_PREFIX = "STREAMJURY__"


def apply_overrides(environ: Mapping[str, str], draft: Draft) -> None:
    """Apply every override to the draft's data; report those without a matching key to the draft."""
    for override in _overrides(environ):
        _Placing(draft, override).place()


class _Override(NamedTuple):
    variable: str
    segments: tuple[str, ...]
    text: str


def _overrides(environ: Mapping[str, str]) -> list[_Override]:
    """List whole sections before their keys, list items in order, and a judge's kind before its other keys."""
    overrides = [
        _Override(name, tuple(name[len(_PREFIX) :].lower().split("__")), text)
        for name, text in environ.items()
        if name.upper().startswith(_PREFIX)
    ]
    return sorted(overrides, key=_override_order)


def _override_order(override: _Override) -> tuple[int, list[tuple[int, int, str]], str]:
    return len(override.segments), [_segment_order(segment) for segment in override.segments], override.variable


def _segment_order(segment: str) -> tuple[int, int, str]:
    return (int(segment) if _is_index(segment) else -1, segment != DISCRIMINATOR, segment)


def _is_index(segment: str) -> bool:
    return re.fullmatch(r"[0-9]{1,6}", segment) is not None


class _Placing:
    """Applies one override to the draft, along the types of the model."""

    def __init__(self, draft: Draft, override: _Override) -> None:
        self._draft = draft
        self._variable, self._segments, self._text = override

    def place(self) -> None:
        here: Any = self._draft.data
        kinds: tuple[Any, ...] = (Config,)
        loc: Loc = ()
        for position, segment in enumerate(self._segments):
            step = self._step(here, loc, segment)
            if step is None:
                return
            loc, kinds = (*loc, step), below(kinds, step)
            if position == len(self._segments) - 1 or not kinds:
                self._set(here, loc, kinds)
                return
            if not any(map(is_container, kinds)):
                self._report(loc, f"has no nested keys, so {'.'.join(self._segments)!r} does not exist")
                return
            here = _enter(here, loc, kinds, self._segments[position + 1])

    def _step(self, here: Any, loc: Loc, segment: str) -> str | int | None:
        """Return the key or index that a segment means; None if there is no such place."""
        if isinstance(here, list):
            return self._index(here, loc, segment)
        # The file has the wrong type here; validation will report it.
        if not isinstance(here, dict):
            return None
        # Shells do not allow dots in names, and no librdkafka option has an underscore.
        return segment.replace("_", ".") if loc == ("kafka", "options") else segment

    def _index(self, here: list[Any], loc: Loc, segment: str) -> int | None:
        end = len(here)
        if not _is_index(segment) or int(segment) > end:
            self._report(loc, f"has no item {segment!r}; use an index from 0 to {end} ({end} adds an item)")
            return None
        index = int(segment)
        if index == end:
            here.append(None)
            self._draft.added[(*loc, index)] = self._variable
        return index

    def _set(self, here: Any, loc: Loc, kinds: tuple[Any, ...]) -> None:
        if loc in self._draft.overridden:
            self._report(loc, f"is also set by {self._draft.overridden[loc]}")
            return
        self._draft.overridden[loc] = self._variable
        self._draft.forget(loc)
        value = self._value(loc, kinds)
        if kinds and loc[-1] == DISCRIMINATOR and here.get(DISCRIMINATOR) != value:
            here.clear()  # the keys of another kind of judge, above all its name, would be wrong here
        here[loc[-1]] = value

    def _value(self, loc: Loc, kinds: tuple[Any, ...]) -> Any:
        """Read text where the key takes text, so that passwords need no quotes, and YAML everywhere else."""
        takes_text = not kinds or ({str, SecretStr} & {*kinds} and not any(map(is_container, kinds)))
        if takes_text and NoneType in kinds and self._text in {"", "~", "null"}:
            return None
        if takes_text and not self._text.startswith(("'", '"')):
            return self._text
        try:
            value = read_yaml(self._text, loc, self._draft)
        except UnreadableError as error:
            if takes_text:
                return self._text
            self._draft.report_unread(loc, self._with_source(error.problem.message))
            return None
        return self._text if takes_text and not isinstance(value, str) else value

    def _report(self, loc: Loc, message: str) -> None:
        self._draft.report(loc, self._with_source(message))

    def _with_source(self, message: str) -> str:
        return f"{message} (set by {self._variable})"


def _enter(here: Any, loc: Loc, kinds: tuple[Any, ...], segment: str) -> Any:
    """Return the container at a place; one that the file lacks starts from the defaults, as the next segment needs."""
    step = loc[-1]
    there = here.get(step) if isinstance(here, dict) else here[step]
    if there is None:
        wanted = of_shape(kinds, "list" if _is_index(segment) else "section") or kinds
        there = here[step] = _default_at(loc, wanted)
    return there


def _default_at(loc: Loc, kinds: tuple[Any, ...]) -> Any:
    """Return the default of a place that the file leaves out: the default list, else an empty container."""
    if not any(get_origin(kind) is tuple for kind in kinds):
        return {}
    data: Any = Config().model_dump(mode="json")
    for part in loc:
        data = data.get(part) if isinstance(data, dict) else None
    return data if isinstance(data, list) else []
