"""The windows of rules: their names, their lengths under a time scale, and the pairs that burn rates are seen in."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

# The units of Prometheus whose length does not depend on the calendar, in milliseconds.
_UNITS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_NOMINAL = re.compile(r"(\d+)(ms|[dhms])")
# A series whose last sample is older than five minutes is gone for Prometheus, so that no group may be that slow.
_SLOWEST_INTERVAL = 120_000
# Below this, not even a scrape every second shows how a counter grows.
_SHORTEST_WINDOW = 5_000
# From this length on, fractions of a second do not matter.
_ROUNDED_FROM = 60_000
_LEAST_BAD = 10


class Severity(StrEnum):
    PAGE = "page"
    TICKET = "ticket"
    INFO = "info"


def milliseconds(nominal: str) -> int:
    """The length of a window called by one number and one unit, such as 1h."""
    match = _NOMINAL.fullmatch(nominal)
    if match is None:
        raise ValueError(f"{nominal!r} must be a number and a unit, such as 1h")
    return int(match[1]) * _UNITS[match[2]]


def written(length: int) -> str:
    """So many milliseconds as Prometheus writes a duration, largest unit first."""
    parts = []
    for unit, size in _UNITS.items():
        count, length = divmod(length, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


@dataclass(frozen=True, slots=True)
class TimeScale:
    """What every duration is multiplied by: a window keeps its name and changes its length."""

    factor: float = 1.0

    def __call__(self, nominal: str) -> str:
        """The length of the window that has this name."""
        return written(self._length(nominal))

    def seconds(self, nominal: str) -> str:
        """The same length as a number."""
        return f"{self._length(nominal) / 1000:g}"

    def interval(self, nominal: str) -> str:
        """The time between evaluations of a group."""
        return written(min(self._length(nominal), _SLOWEST_INTERVAL))

    def too_short(self, nominal: str) -> bool:
        """Whether so few scrapes fall into the window that it may often be empty."""
        return self._length(nominal) < _SHORTEST_WINDOW

    def _length(self, nominal: str) -> int:
        length = max(1, round(milliseconds(nominal) * self.factor))
        # Alerts quote the window: 6m, not the 6m1ms that a rounded factor such as 0.0166667 gives.
        return length if length < _ROUNDED_FROM else round(length, -3)


@dataclass(frozen=True, slots=True, kw_only=True)
class BurnPair:
    """How fast a budget must be used, in a long window and still in a short one, for somebody to be told."""

    factor: float
    long: str
    short: str
    severity: Severity

    def share(self, target: float) -> str:
        """The share of bad interactions above which this is so, as an expression."""
        return f"{self.factor:g} * (1 - {target!r})"

    def least(self, target: float) -> int:
        """Judgements below which the share would be reached by a few bad ones, which come by chance."""
        return math.ceil(_LEAST_BAD / (self.factor * (1.0 - target)))

    def can_fire(self, target: float) -> bool:
        """No share is above 1."""
        return self.factor * (1.0 - target) < 1.0

    def spent(self, days: int) -> float:
        """The part of the budget of so many days that is used within the long window at this speed."""
        return self.factor * milliseconds(self.long) / (days * _UNITS["d"])


BURN_PAIRS = (
    BurnPair(factor=14.4, long="1h", short="5m", severity=Severity.PAGE),
    BurnPair(factor=6.0, long="6h", short="30m", severity=Severity.PAGE),
    BurnPair(factor=3.0, long="1d", short="2h", severity=Severity.TICKET),
    BurnPair(factor=1.0, long="3d", short="6h", severity=Severity.TICKET),
)


def by_length(names: Iterable[str]) -> list[str]:
    """Windows in order of their length, each once."""
    return sorted(set(names), key=milliseconds)


LONG_WINDOWS = by_length(pair.long for pair in BURN_PAIRS)
ALL_WINDOWS = by_length([*LONG_WINDOWS, *(pair.short for pair in BURN_PAIRS)])
