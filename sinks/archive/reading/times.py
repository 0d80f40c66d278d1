"""Time ranges, and their division into equal slots for charts."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain, count
from typing import Self

MINUTE_MS = 60_000
_HOUR = 60
_DAY = 24 * _HOUR
# Possible lengths of a slot in minutes; slots begin at round times.
_STEPS = (1, 2, 5, 10, 15, 30, *(hours * _HOUR for hours in (1, 2, 3, 6, 12)), *(days * _DAY for days in (1, 2, 7, 30)))
LONGEST_BY_MINUTE = 2 * _DAY
"""Minutes; longer ranges are read from the sums of whole hours."""


def to_ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def from_ms(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRange:
    """From `start` (inclusive) to `end` (exclusive), in milliseconds since 1970."""

    start: int
    end: int

    @classmethod
    def of(cls, start: datetime, end: datetime) -> Self:
        return cls(start=to_ms(start), end=to_ms(end))

    @property
    def duration(self) -> timedelta:
        return timedelta(milliseconds=self.end - self.start)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slots:
    """A range of whole minutes in equal slots, aligned to round times. Minutes are counted since 1970."""

    first: int
    end: int
    """The first minute after the range."""
    step: int
    """Length of a slot in minutes."""
    span: int
    """Length of the sums to read in minutes: 1 or 60."""

    @classmethod
    def divide(cls, period: TimeRange, most: int, *, longest_by_minute: int = LONGEST_BY_MINUTE) -> Self:
        """Divide a range into at most this many slots, which must be two or more.

        The range is extended to whole minutes, or to whole hours if it is longer than `longest_by_minute`.
        """
        minutes = (period.end - period.start) / MINUTE_MS
        span = _HOUR if minutes > longest_by_minute else 1
        first = period.start // MINUTE_MS // span * span
        end = -(-period.end // (MINUTE_MS * span)) * span
        steps = chain(_STEPS, (30 * _DAY * 2**power for power in count(1)))
        step = next(step for step in steps if step >= span and _count_slots(first, end, step) <= most)
        return cls(first=first, end=end, step=step, span=span)

    @property
    def duration(self) -> timedelta:
        return timedelta(minutes=self.end - self.first)

    def start_of(self, number: int) -> datetime:
        """Return when a slot starts, by its number since 1970."""
        return from_ms(number * self.step * MINUTE_MS)


def _count_slots(first: int, end: int, step: int) -> int:
    return -(-end // step) - first // step
