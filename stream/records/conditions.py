"""Conditions of sampling rules and safety triggers on one value of a record."""

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence

from stream.config.sections.sampling import ConditionConfig, TextConditionConfig

Scalar = bool | int | float | str


ConditionSpec = Scalar | tuple[Scalar, ...] | TextConditionConfig
"""A condition in the configuration."""


class Condition(ABC):
    """A test of one value of a record, which is None if it is missing."""

    words: str
    """The condition in words, to follow the name of the value: `is shop or docs`."""

    unmet: str
    """The same for a value that does not meet it: `is not shop or docs`."""

    @abstractmethod
    def holds(self, value: object) -> bool: ...


class OneOf(Condition):
    """Equal to one of some values; true is not 1, and 1 is 1.0."""

    def __init__(self, values: Sequence[Scalar], *, as_text: bool) -> None:
        self.words, self.unmet = f"is {_join_or(values)}", f"is not {_join_or(values)}"
        plain = [_as_text(value) for value in values] if as_text else values
        self._texts = frozenset(value for value in plain if isinstance(value, str))
        self._truths = frozenset(value for value in plain if isinstance(value, bool))
        self._numbers = frozenset(value for value in plain if not isinstance(value, bool | str))

    def holds(self, value: object) -> bool:
        if type(value) is str:
            return value in self._texts
        if type(value) is bool:
            return value in self._truths
        return isinstance(value, int | float) and value in self._numbers


class MatchesPattern(Condition):
    """A text that a regular expression matches somewhere."""

    def __init__(self, pattern: str) -> None:
        self.words, self.unmet = f"matches /{pattern}/", f"does not match /{pattern}/"
        self._search = re.compile(pattern).search

    def holds(self, value: object) -> bool:
        return type(value) is str and self._search(value) is not None


class Within(Condition):
    """A number within bounds; with `as_text`, the number that a text spells."""

    def __init__(self, low: float | None, high: float | None, *, as_text: bool) -> None:
        bounds = [f"at least {low:g}" if low is not None else "", f"at most {high:g}" if high is not None else ""]
        words = " and ".join(filter(None, bounds))
        self.words, self.unmet = f"is {words}", f"is not {words}"
        self._low = -float("inf") if low is None else low
        self._high = float("inf") if high is None else high
        self._as_text = as_text

    def holds(self, value: object) -> bool:
        if self._as_text:
            value = _number(value)
        # bool is an int in Python, but a JSON true is not a number.
        return isinstance(value, int | float) and type(value) is not bool and self._low <= value <= self._high


class Exists(Condition):
    """Whether there is a value; null counts as missing."""

    def __init__(self, wanted: bool) -> None:
        there, missing = "exists", "is missing"
        self.words, self.unmet = (there, missing) if wanted else (missing, there)
        self._wanted = wanted

    def holds(self, value: object) -> bool:
        return (value is not None) is self._wanted


def compile_condition(spec: ConditionSpec, *, as_text: bool = False) -> Condition:
    """Compile a condition, for JSON values or, with `as_text`, for headers, whose values are all texts."""
    if not isinstance(spec, TextConditionConfig):
        return OneOf(spec if isinstance(spec, tuple) else (spec,), as_text=as_text)
    if spec.regex is not None:
        return MatchesPattern(spec.regex)
    if isinstance(spec, ConditionConfig) and (spec.min is not None or spec.max is not None):
        return Within(spec.min, spec.max, as_text=as_text)
    return Exists(bool(spec.exists))


def _number(value: object) -> object:
    try:
        return float(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _as_text(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _join_or(values: Sequence[Scalar]) -> str:
    *first, last = map(_as_text, values)
    return f"{', '.join(first)} or {last}" if first else last
