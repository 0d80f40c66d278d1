"""PromQL, written by functions: the only source of expressions for rules and dashboards."""

import json
from collections.abc import Sequence

# The 97.5 % quantile of the normal distribution: all intervals cover 95 %.
_Z = 1.96
_SPECIAL = frozenset(r"\.+*?()|[]{}^$")


def quote(text: str) -> str:
    """Quote text as a PromQL string; JSON uses the same escapes."""
    return json.dumps(text, ensure_ascii=False)


def escape_regex(text: str) -> str:
    """Return a regular expression (RE2) that matches only this text."""
    return "".join(f"\\{char}" if char in _SPECIAL else char for char in text)


def is_one_of(label: str, values: Sequence[str]) -> str:
    """Return a matcher for these values of a label."""
    return _matcher(label, values, one="=", several="=~")


def is_none_of(label: str, values: Sequence[str]) -> str:
    """Return a matcher for all other values of a label; empty without values."""
    return _matcher(label, values, one="!=", several="!~") if values else ""


def _matcher(label: str, values: Sequence[str], *, one: str, several: str) -> str:
    if len(values) == 1:
        return f"{label}{one}{quote(values[0])}"
    return f"{label}{several}{quote('|'.join(map(escape_regex, values)))}"


def series(name: str, *matchers: str) -> str:
    """Return a selector with the matchers that are not empty."""
    inside = ",".join(filter(None, matchers))
    return f"{name}{{{inside}}}" if inside else name


def total(expression: str, by: Sequence[str] = ()) -> str:
    return f"sum by ({', '.join(by)}) ({expression})" if by else f"sum({expression})"


def increase(selector: str, window: str, by: Sequence[str] = ()) -> str:
    """Return the growth of counters in a window over all processes, per process first, to handle restarts."""
    return total(f"increase({selector}[{window}])", by)


def rate(selector: str, window: str, by: Sequence[str] = ()) -> str:
    """Return the growth of counters per second in a window, over all processes."""
    return total(f"rate({selector}[{window}])", by)


def quantile(q: float, histogram: str, matchers: str, window: str, by: Sequence[str] = ()) -> str:
    """Return a quantile of a histogram in a window."""
    return f"histogram_quantile({q:g}, {rate(series(f'{histogram}_bucket', matchers), window, ('le', *by))})"


def or_zero(part: str, whole: str) -> str:
    """Return the part, or 0 if only the whole was ever counted."""
    return f"({part} or 0 * {whole})"


def fraction(part: str, whole: str) -> str:
    """Divide part by whole; no value, rather than NaN, while the whole is empty."""
    return f"{part}\n/\n({whole} > 0)"


def share(part: str, whole: str) -> str:
    """Divide part by whole, 0 if the part was never counted; no value while the whole is empty."""
    return f"{or_zero(part, whole)} / ({whole} > 0)"


def shares(parts: str, whole: str) -> str:
    """Divide several parts by one whole; no values, rather than NaN, while the whole is empty."""
    return f"{parts} / on () group_left () ({whole} > 0)"


def add_label(expression: str, label: str, name: str) -> str:
    """Add a label to series that lack it, for the legend."""
    return f'label_replace({expression}, "{label}", "{name}", "{label}", "")'


def wilson_end(sign: str, *, size: str, size_times_mean: str, size_times_variance: str) -> str:
    """Return one end (`-` or `+`) of Wilson's 95 % interval of a mean, with the measured variance for m·(1 − m).

    Its ends are (n·m + z²/2 ± z·√(n·v + z²/4)) / (n + z²). The products are arguments, because some callers have them
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
