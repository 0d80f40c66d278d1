"""Adaptive rates: the step of a fixed scale that meets a target per minute, from the traffic seen, by record time."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from stream.config.rate_scale import DEFAULT_MIN_RATE, LAST_STEP, STEPS_PER_HALF, rate_of, steps_within
from stream.sampler.step_log import RateStep, StepLog

_BUCKET_MS = 2000
# The short window reacts to a burst within seconds; the long one has enough records in thin traffic.
_WINDOWS = (15, 150)
# The step changes only if the traffic is this unlikely under the current one (in standard deviations) ...
_SIGMAS = 4.0
# ... and the ideal is this many steps away: without this a rate between two steps would oscillate.
_DEAD_BAND = 1.0
# A rate at most doubles at once, because a jump of the clock looks like silence. It may fall as far as it must.
_RISE = STEPS_PER_HALF
# A single record with a wrong time must not move our clock; this many in a row are no accident.
_LATE = 86_400_000 // _BUCKET_MS
_EARLY = 600_000 // _BUCKET_MS
_CONFIRMATIONS = 10
# Steps are forgotten after this time: a record that comes even later does not get the rate of its own time.
_REMEMBERED_MS = 7 * 86_400_000


class TrafficCounter:
    """Counts recent records, by a clock that the records' own times drive forward.

    A late record counts when it arrives. So records out of order, and partitions that are read at different speeds,
    are counted in full.
    """

    def __init__(self) -> None:
        self._now: int | None = None
        self._first = 0
        self._counts: dict[int, int] = {}
        self._strays: list[tuple[int, int]] = []

    def add(self, at_ms: int, number: int = 1) -> bool:
        """Count records of one time; return whether they moved the clock on."""
        bucket = at_ms // _BUCKET_MS
        if self._now is None:
            self._begin(bucket)
        assert self._now is not None
        if not -_LATE <= bucket - self._now <= _EARLY:
            return self._count_stray(bucket, number)
        self._strays.clear()
        return self._count(bucket, number)

    def _count(self, bucket: int, number: int) -> bool:
        assert self._now is not None
        moves = bucket > self._now
        if moves:
            self._move(bucket)
        self._counts[self._now] += number
        return moves

    def _count_stray(self, bucket: int, number: int) -> bool:
        """Count records far from the clock; enough of them in a row move it, and counting restarts there."""
        self._strays.append((bucket, number))
        if len(self._strays) < _CONFIRMATIONS:
            return False
        strays, self._strays = _latest_group(self._strays), []
        self._begin(strays[0][0])
        return sum(self._count(*stray) for stray in strays) > 0

    def count_recent(self, buckets: int) -> tuple[int, float]:
        """Count the records in the last complete buckets; return the count and the minutes, at most since the start."""
        assert self._now is not None
        begin = max(self._now - buckets, self._first)
        counted = sum(self._counts.get(bucket, 0) for bucket in range(begin, self._now))
        return counted, (self._now - begin) * _BUCKET_MS / 60_000

    def forget_before(self, buckets: int) -> None:
        """Stop counting records before the last `buckets`: the traffic was different then."""
        assert self._now is not None
        self._first = max(self._first, self._now - buckets)

    def _begin(self, bucket: int) -> None:
        self._now = self._first = bucket
        self._counts = {bucket: 0}

    def _move(self, bucket: int) -> None:
        self._now = bucket
        self._counts[bucket] = 0
        for old in [old for old in self._counts if old < bucket - _WINDOWS[-1]]:
            del self._counts[old]


def _latest_group(strays: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the last records that are near each other in time, or all of them if time passes between them.

    Partitions that are read in turns have times far apart too, and the gap between those is no silence. But such
    leaps are few, or go back and forth; in thin traffic, times only move forward.
    """
    leaps = [
        (index, two - one) for index, ((one, _), (two, _)) in enumerate(pairwise(strays), 1) if abs(two - one) > _EARLY
    ]
    moves_on = len(leaps) >= _CONFIRMATIONS // 2 and all(leap > 0 for _, leap in leaps)
    return strays if moves_on or not leaps else strays[leaps[-1][0] :]


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """The target of an adaptive rate, and its bounds."""

    target_per_minute: float
    min_rate: float = DEFAULT_MIN_RATE
    max_rate: float = 1.0


class ReplayedRate:
    """The rate of one rule from a step log; the traffic does not change it."""

    def __init__(self, rule: str, goal: Goal, log: StepLog) -> None:
        self.steps = steps_within(goal.min_rate, goal.max_rate)
        """The steps it may take, highest rate first."""
        if not self.steps:
            raise ValueError(f"no step lies between {goal.min_rate} and {goal.max_rate}")
        self.share = 1.0
        """This process's part of the target: its partitions among all."""
        self._rule = rule
        self._log = log

    @property
    def lowest(self) -> float:
        return rate_of(self.steps[-1])

    @property
    def highest(self) -> float:
        return rate_of(self.steps[0])

    def observe(self, at_ms: int, number: int = 1) -> float:
        """Count records of the rule; return their rate."""
        return self.rate_at(at_ms)

    def rate_at(self, at_ms: int) -> float:
        """Return the rate at a record time, without counting a record."""
        return rate_of(self._step_at(at_ms))

    def _step_at(self, at_ms: int) -> int:
        step = self._log.step_at(self._rule, at_ms)
        return self.steps[-1] if step is None else self._clamp(step)

    def _clamp(self, step: int) -> int:
        return min(max(step, self.steps[0]), self.steps[-1])


class AdaptiveRate(ReplayedRate):
    """The rate of one rule. It starts at the lowest, or where the log ends, and follows the traffic from there.

    Every two seconds of record time, the traffic of the last half minute, then of up to five minutes, is compared with
    the traffic that the current step is for. The step changes if the difference is significant and more than one step.
    """

    def __init__(self, rule: str, goal: Goal, log: StepLog, note: Callable[[RateStep], None] | None = None) -> None:
        super().__init__(rule, goal, log)
        self._target = goal.target_per_minute
        self._note = note
        self._traffic = TrafficCounter()
        last = log.last(rule)
        self._step = self._clamp(last.k) if last else self.steps[-1]
        self._since: int | None = last.at_ms if last and last.k == self._step else None

    def observe(self, at_ms: int, number: int = 1) -> float:
        if at_ms <= 0:  # Kafka's mark of a record without a time
            return rate_of(self._step)
        complete = self._traffic.add(at_ms, number)
        if self._since is None:
            self._take(at_ms, self._step)
        step = self._step_at(at_ms)
        if complete and (wanted := self._choose_step(step)) != step:
            self._traffic.forget_before(_WINDOWS[0])
            self._take(at_ms, step := wanted)
        return rate_of(step)

    def _step_at(self, at_ms: int) -> int:
        if self._since is None or at_ms >= self._since or at_ms <= 0:
            return self._step
        return super()._step_at(at_ms)

    def _choose_step(self, step: int) -> int:
        """Return the step that fits the traffic; keep the current one without a clear reason to change."""
        target = self._target * self.share
        for buckets in _WINDOWS:
            counted, minutes = self._traffic.count_recent(buckets)
            expected = target / rate_of(step) * minutes
            if abs(counted - expected) <= _SIGMAS * math.sqrt(expected):
                continue
            ideal = _ideal_step(target * minutes, counted)
            if abs(ideal - step) > _DEAD_BAND:
                return self._clamp(round(max(ideal, step - _RISE)))
        return step

    def _take(self, at_ms: int, step: int) -> None:
        self._step, self._since = step, at_ms
        entry = RateStep(at_ms, self._rule, step)
        self._log.add(entry)
        self._log.forget(self._rule, at_ms - _REMEMBERED_MS)
        if self._note is not None:
            self._note(entry)


def _ideal_step(wanted: float, counted: int) -> float:
    """Return the step, as a fraction, that chooses `wanted` of the counted records."""
    if wanted <= 0:
        return float(LAST_STEP)
    return -STEPS_PER_HALF * math.log2(wanted / counted) if counted else -math.inf
