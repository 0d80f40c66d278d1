"""The rate at which an endpoint that turns calls away admits them, adapted by trial; and the wait that it asks for.

A limit on concurrency cannot hold a rate: one call at a time to an endpoint that answers in 20 ms is 50 per second.
"""

import math
from collections import deque
from collections.abc import Callable

_SLOWDOWN = 0.9
# How a rate grows after a slow-down: the old one is reached after 2.2 s, and twice that after another 4.6 s;
_STEADY = 0.01
# or, where little is known of the rate, after 0.7 s and another 1.5 s.
_SEARCHING = 0.3
# However slow: within 10 s and another 22 s.
_SLOWEST = 1e-4
# A slower curve lets so many attempts in before it has probed for more,
_TAKEN_PER_PROBE = 20
# and takes so many times the wait that the endpoint asked for, up to a longest.
_HOLDS_PER_PROBE = 10
_DEAREST_SECONDS = 3.0
# What is assumed when the first attempts of all are turned away.
_FIRST_RATE = 5.0
# Three per minute: slower than that is not waiting but giving up.
_LEAST_RATE = 0.05
# A rate found to be at least so much of the one before was known well.
_SURE = 0.75
_MOST_LOST = 0.7
_LATELY_SECONDS = 1.0
_SHORTEST_SPAN = 0.1
_CATCH_UP_SECONDS = 0.05
_HAIR = 1e-6


class Pace:
    """Unlimited until an attempt is turned away (429); from then on a rate that probes for more.

    - At a 429 the rate becomes 90 % of what was lately let in and not turned away, one such step per round: what was
      under way at a slow-down cannot answer for it.
    - From there it follows a cubic of the time since: quickly back to the old rate, slowly around it, then ever faster;
      faster from the start when little is known of the rate, and slower when being turned away costs a long wait.
    - A second 429 in a row without any answer in between says that the endpoint is shut, not that we are too fast: the
      rate stays, and everybody waits, twice as long each time.
    - What the endpoint asks for (Retry-After) holds for everybody, up to a longest.

    Below about two per second every 429 is a large share of all attempts: a limit of requests per minute does better.
    """

    def __init__(
        self,
        *,
        first: float,
        longest: float,
        longest_hold: float,
        clock: Callable[[], float],
        random: Callable[[], float],
    ) -> None:
        self._first, self._longest, self._longest_hold = first, longest, longest_hold
        self._clock = clock
        self._random = random
        self._level, self._curve = math.inf, _SEARCHING
        self._slowed_at = self._next_at = self._held_until = -math.inf
        self._dear = math.inf
        self._shut = 0
        self._answered = False
        self._let_in, self._turned_away = _Lately(), _Lately()

    @property
    def rate(self) -> float:
        """Attempts per second; infinite while nothing was ever turned away."""
        if math.isinf(self._level):
            return math.inf
        curve = min(self._curve, self._dear)
        until_level = math.cbrt((1 - _SLOWDOWN) / curve)
        since = max(0.0, self._clock() - max(self._slowed_at, self._held_until))
        return self._level * (1 + curve * (since - until_level) ** 3)

    @property
    def held(self) -> float:
        """Seconds for which the endpoint is left alone; 0 when it is not."""
        return max(0.0, self._held_until - self._clock())

    def wait(self) -> float:
        """Seconds until the next attempt may start."""
        wait = max(self._held_until, self._next_at) - self._clock()
        return wait if wait > _HAIR else 0.0

    def take(self) -> None:
        """One attempt starts. One that starts late lets the next start earlier, as timers are never quite in time."""
        now, rate = self._clock(), self.rate
        self._let_in.add(now)
        if not math.isinf(rate):
            self._next_at = max(self._next_at, now - _CATCH_UP_SECONDS) + 1 / rate

    def hold(self, seconds: float) -> None:
        """The endpoint asked to be left alone for so long; the dearer it is to be turned away, the slower we probe."""
        self._held_until = max(self._held_until, self._clock() + min(self._longest_hold, seconds))
        self._dear = (_HOLDS_PER_PROBE * min(max(seconds, _HAIR), _DEAREST_SECONDS)) ** -3

    def succeeded(self) -> None:
        self._answered, self._shut = True, 0

    def throttled(self, started_at: float) -> None:
        """One attempt was turned away."""
        now = self._clock()
        self._turned_away.add(now)
        if started_at < self._slowed_at:
            return
        shut = not self._answered
        if math.isinf(self._level):
            self._level, self._curve = max(_FIRST_RATE, self._accepted(now)), _SEARCHING
        elif shut and self._shut:
            self._curve = _SEARCHING
            # Half of it is random, so that the wait is spread and never nothing.
            self.hold(min(self._longest, self._first * 2.0 ** min(self._shut - 1, 64)) * (1 + self._random()) / 2)
            self._dear = math.inf
        else:
            rate = self.rate
            self._level = self._found(rate, self._accepted(now))
            steady = min(_STEADY, max(_SLOWEST, (self._level / _TAKEN_PER_PROBE) ** 3))
            self._curve = steady if self._level >= _SURE * rate else _SEARCHING
        self._shut += shut
        self._answered = False
        self._slowed_at = now

    def _found(self, rate: float, accepted: float) -> float:
        """What was accepted; or more where it was little, as there may have been waits and few to ask."""
        binding = min(rate, 2 * accepted) if accepted else rate
        return max(_LEAST_RATE, min(rate, max(accepted, _MOST_LOST * binding)))

    def _accepted(self, now: float) -> float:
        """What was let in lately and not turned away, per second."""
        # Of those turned away lately, some may have been let in before.
        taken = max(0, self._let_in.count(now) - self._turned_away.count(now))
        return taken / min(_LATELY_SECONDS, max(_SHORTEST_SPAN, now - self._let_in.busy_since))


class _Lately:
    """Counts what happened within the last while."""

    def __init__(self) -> None:
        self._moments: deque[float] = deque()
        self.busy_since = -math.inf
        """When it began to happen, after a while without."""

    def add(self, now: float) -> None:
        if not self.count(now):
            self.busy_since = now
        self._moments.append(now)

    def count(self, now: float) -> int:
        while self._moments and self._moments[0] <= now - _LATELY_SECONDS:
            self._moments.popleft()
        return len(self._moments)
