"""How much of what an endpoint allows is used: limit, pace and a throttling endpoint under one simulated clock."""

import heapq
import itertools
import random
from collections.abc import Callable
from typing import Protocol

import pytest

from judges.models.flow.concurrency import AdaptiveLimit
from judges.models.flow.pace import Pace

ON_THE_WAY = 0.001
SECONDS = 60.0


class Throttle(Protocol):
    per_second: float

    def takes(self, now: float) -> bool: ...


class Even:
    """Fills evenly up to a burst."""

    def __init__(self, per_second: float, burst: float) -> None:
        self.per_second, self._burst, self._level, self._at = per_second, burst, burst, 0.0

    def takes(self, now: float) -> bool:
        self._level = min(self._burst, self._level + (now - self._at) * self.per_second)
        self._at = now
        if self._level < 1:
            return False
        self._level -= 1
        return True


class PerSecond:
    """So many in every second of the clock."""

    def __init__(self, per_second: float) -> None:
        self.per_second, self._second, self._taken = per_second, -1, 0

    def takes(self, now: float) -> bool:
        if int(now) != self._second:
            self._second, self._taken = int(now), 0
        self._taken += 1
        return self._taken <= self.per_second


class Simulation:
    """Callers without end in front of one endpoint; an event is a moment, what happens then, and when it was let in."""

    def __init__(self, throttle: Throttle, latency: float, retry_after: float | None, seed: int) -> None:
        self._throttle, self._latency, self._retry_after = throttle, latency, retry_after
        self._dice = random.Random(seed)
        self._now = 0.0
        self._pace = Pace(first=0.25, longest=5, longest_hold=60, clock=self._clock, random=self._dice.random)
        self._limit = AdaptiveLimit(64, clock=self._clock)
        self._events: list[tuple[float, int, str, float]] = []
        self._numbers = itertools.count()
        self._in_flight = 0
        self.answered = self.turned_away = 0

    def _clock(self) -> float:
        return self._now

    def run(self) -> float:
        """The share of what the endpoint allows."""
        while self._now < SECONDS:
            while self._in_flight < self._limit.value and not self._pace.wait():
                self._pace.take()
                self._in_flight += 1
                self._after(ON_THE_WAY, "arrives", self._now)
            next_at = self._events[0][0] if self._events else SECONDS
            timer = self._now + self._pace.wait() + self._dice.random() * ON_THE_WAY
            if self._in_flight < self._limit.value and timer < next_at:
                self._now = timer
            elif self._events:
                self._now, _, what, let_in = heapq.heappop(self._events)
                self._happens(what, let_in)
            else:
                self._now = next_at
        return self.answered / SECONDS / self._throttle.per_second

    def _after(self, seconds: float, what: str, let_in: float) -> None:
        heapq.heappush(self._events, (self._now + seconds, next(self._numbers), what, let_in))

    def _happens(self, what: str, let_in: float) -> None:
        if what == "arrives":
            takes = self._throttle.takes(self._now)
            seconds = self._latency * self._dice.uniform(0.5, 1.5) if takes else ON_THE_WAY
            self._after(seconds, "answered" if takes else "turned away", let_in)
        elif what == "answered":
            self.answered += 1
            self._pace.succeeded()
            self._limit.succeeded(let_in, in_flight=self._in_flight)
            self._in_flight -= 1
        elif what == "turned away":
            self.turned_away += 1
            self._pace.throttled(let_in)
            self._limit.overloaded(let_in, in_flight=self._in_flight, throttled=True)
            if self._retry_after is not None:
                self._pace.hold(self._retry_after)
            self._in_flight -= 1


THROTTLES: dict[str, tuple[Callable[[], Throttle], float, float | None]] = {
    "even": (lambda: Even(50, 5), 0.05, None),
    "even, Retry-After": (lambda: Even(50, 50), 0.05, 1.0),
    "per second": (lambda: PerSecond(50), 0.05, None),
    "per second, Retry-After": (lambda: PerSecond(50), 0.05, 1.0),
    "fast": (lambda: Even(400, 10), 0.02, None),
    "slow answers": (lambda: Even(20, 5), 1.5, None),
    "slow answers, Retry-After": (lambda: Even(20, 20), 1.5, 1.0),
}


@pytest.mark.parametrize("name", THROTTLES)
def test_a_minute_of_a_storm_uses_most_of_what_is_allowed_and_is_seldom_turned_away(name: str) -> None:
    make, latency, retry_after = THROTTLES[name]
    runs = [Simulation(make(), latency, retry_after, seed) for seed in range(3)]
    assert sum(run.run() for run in runs) / len(runs) >= 0.8
    assert all(run.turned_away <= 0.1 * run.answered for run in runs)
