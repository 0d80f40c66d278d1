"""Pieces of PromQL: quoted names, and sums over all processes of what counters grew by."""

import json
from collections.abc import Sequence

_SPECIAL = frozenset(r"\.+*?()|[]{}^$")


def quoted(text: str) -> str:
    """Text as a PromQL string; JSON escapes what PromQL does, and nothing in another way."""
    return json.dumps(text, ensure_ascii=False)


def literally(text: str) -> str:
    """A regular expression (RE2) that matches this text alone."""
    return "".join(f"\\{char}" if char in _SPECIAL else char for char in text)


def is_one_of(label: str, values: Sequence[str]) -> str:
    """A matcher for these values of a label."""
    return _matcher(label, values, one="=", several="=~")


def is_none_of(label: str, values: Sequence[str]) -> str:
    """A matcher for all other values of a label; without values it is no matcher at all."""
    return _matcher(label, values, one="!=", several="!~") if values else ""


def _matcher(label: str, values: Sequence[str], *, one: str, several: str) -> str:
    if len(values) == 1:
        return f"{label}{one}{quoted(values[0])}"
    return f"{label}{several}{quoted('|'.join(map(literally, values)))}"


def series(name: str, *matchers: str) -> str:
    """A selector, with those matchers that are not empty."""
    inside = ",".join(filter(None, matchers))
    return f"{name}{{{inside}}}" if inside else name


def total(expression: str, by: Sequence[str] = ()) -> str:
    return f"sum by ({', '.join(by)}) ({expression})" if by else f"sum({expression})"


def grown(selector: str, window: str, by: Sequence[str] = ()) -> str:
    """What counters grew by within a window, over all processes; each by itself first, so that restarts are seen."""
    return total(f"increase({selector}[{window}])", by)


def fraction(part: str, whole: str) -> str:
    """Part of whole; no value, rather than NaN, while the whole is empty."""
    return f"{part}\n/\n({whole} > 0)"


def or_zero(part: str, whole: str) -> str:
    """The part, and zero where it was never counted but the whole was."""
    return f"({part} or 0 * {whole})"
