"""PromQL, written by functions: the one place where rules and dashboards get their expressions from."""

import json
from collections.abc import Sequence

# The 97.5 % quantile of the normal distribution: all intervals cover 95 %.
_Z = 1.96
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


def increase(selector: str, window: str, by: Sequence[str] = ()) -> str:
    """The growth of counters within a window, over all processes; each by itself first, so that restarts are seen."""
    return total(f"increase({selector}[{window}])", by)


def rate(selector: str, window: str, by: Sequence[str] = ()) -> str:
    """The growth of counters per second within a window, over all processes."""
    return total(f"rate({selector}[{window}])", by)


def quantile(q: float, histogram: str, matchers: str, window: str, by: Sequence[str] = ()) -> str:
    """A quantile of a histogram within a window."""
    return f"histogram_quantile({q:g}, {rate(series(f'{histogram}_bucket', matchers), window, ('le', *by))})"


def or_zero(part: str, whole: str) -> str:
    """The part, and zero where it was never counted but the whole was."""
    return f"({part} or 0 * {whole})"


def fraction(part: str, whole: str) -> str:
    """Part of whole; no value, rather than NaN, while the whole is empty."""
    return f"{part}\n/\n({whole} > 0)"


def share(part: str, whole: str) -> str:
    """Part of whole, and 0 where the part was never counted; no value while the whole is empty."""
    return f"{or_zero(part, whole)} / ({whole} > 0)"


def shares(parts: str, whole: str) -> str:
    """Several parts of one whole; no values, rather than NaN, while the whole is empty."""
    return f"{parts} / on () group_left () ({whole} > 0)"


def named(expression: str, label: str, name: str) -> str:
    """Gives series that lack a label a value of it, for the legend."""
    return f'label_replace({expression}, "{label}", "{name}", "{label}", "")'


def wilson_end(sign: str, *, size: str, size_times_mean: str, size_times_variance: str) -> str:
    """One end (`-` or `+`) of Wilson's 95 % interval of a mean, with the measured variance in place of m·(1 − m).

    Its ends are (n·m + z²/2 ± z·√(n·v + z²/4)) / (n + z²); the products come in, because some callers know them
    without a division.
    """
    lines = (
        "(",
        f"  {size_times_mean} + {_Z**2 / 2:.4f}",
        f"  {sign} {_Z} * sqrt({size_times_variance} + {_Z**2 / 4:.4f})",
        ")",
        f"/ ({size} + {_Z**2:.4f})",
    )
    return "\n".join(lines)
