"""The windows of rules: their names, their lengths under a time scale, and the pairs of burn rates."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

# The units of Prometheus whose length does not depend on the calendar, in milliseconds.
_UNITS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_NOMINAL = re.compile(r"(\d+)(ms|[dhms])")
# Prometheus drops a series five minutes after its last sample, so groups must be faster.
_SLOWEST_INTERVAL = 120_000
# Below this, not even a scrape every second shows how a counter grows.
_SHORTEST_WINDOW = 5_000
_LEAST_BAD = 10
# From these lengths on, windows are multiples of these steps, in milliseconds.
_STEPS = ((10_000, 1_000), (1_000, 100))


class Severity(StrEnum):
    PAGE = "page"
    TICKET = "ticket"
    INFO = "info"


def milliseconds(nominal: str) -> int:
    """Return the length of a window named by one number and one unit, such as 1h."""
    match = _NOMINAL.fullmatch(nominal)
    if match is None:
        raise ValueError(f"{nominal!r} must be a number and a unit, such as 1h")
    return int(match[1]) * _UNITS[match[2]]


def format_duration(length: int) -> str:
    """Write milliseconds as a duration of Prometheus, largest unit first."""
    parts = []
    for unit, size in _UNITS.items():
        count, length = divmod(length, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


@dataclass(frozen=True, slots=True)
class TimeScale:
    """The factor on every duration: a window keeps its name and changes its length."""

    factor: float = 1.0

    def __call__(self, nominal: str) -> str:
        """Return the length of the window with this name."""
        return format_duration(self._length(nominal))

    def seconds(self, nominal: str) -> str:
        """Return the same length in seconds."""
        return f"{self._length(nominal) / 1000:g}"

    def interval(self, nominal: str) -> str:
        """Return the time between evaluations of a group."""
        return format_duration(min(self._length(nominal), _SLOWEST_INTERVAL))

    def too_short(self, nominal: str) -> bool:
        """Return whether so few scrapes fall into the window that it may often be empty."""
        return self._length(nominal) < _SHORTEST_WINDOW

    def _length(self, nominal: str) -> int:
        """Return milliseconds, without the odd ones that a rounded factor such as 0.0166667 leaves."""
        length = milliseconds(nominal) * self.factor
        step = next((step for shortest, step in _STEPS if length >= shortest), 1)
        return max(1, step * round(length / step))


@dataclass(frozen=True, slots=True, kw_only=True)
class BurnPair:
    """The burn rate that raises an alert if it is exceeded in a long window and still in a short one."""

    factor: float
    long: str
    short: str
    severity: Severity

    def share(self, target: float) -> str:
        """Return the share of bad interactions above which it fires, as an expression."""
        return f"{self.factor:g} * (1 - {target!r})"

    def least(self, target: float) -> int:
        """Return the minimum number of judgements: with fewer, a few bad ones by chance would reach the share."""
        return math.ceil(_LEAST_BAD / (self.factor * (1.0 - target)))

    def can_fire(self, target: float) -> bool:
        """Return whether the share is below 1, so that it can be exceeded."""
        return self.factor * (1.0 - target) < 1.0

    def spent(self, days: int) -> float:
        """Return the part of a budget of this many days that this rate uses within the long window."""
        return self.factor * milliseconds(self.long) / (days * _UNITS["d"])


BURN_PAIRS = (
    BurnPair(factor=14.4, long="1h", short="5m", severity=Severity.PAGE),
    BurnPair(factor=6.0, long="6h", short="30m", severity=Severity.PAGE),
    BurnPair(factor=3.0, long="1d", short="2h", severity=Severity.TICKET),
    BurnPair(factor=1.0, long="3d", short="6h", severity=Severity.TICKET),
)


def by_length(names: Iterable[str]) -> list[str]:
    """Sort windows by length, each once."""
    return sorted(set(names), key=milliseconds)


LONG_WINDOWS = by_length(pair.long for pair in BURN_PAIRS)
ALL_WINDOWS = by_length([*LONG_WINDOWS, *(pair.short for pair in BURN_PAIRS)])
