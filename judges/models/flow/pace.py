"""The rate at which an endpoint takes attempts, learnt from the refusals (429, 503) that depend on the rate.

A limit on concurrency cannot hold a rate: one call at a time to an endpoint that answers in 20 ms is 50 per second.
"""

import math
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

# A window ends after this time, with at least this many attempts; where attempts are few, after the longest.
_WINDOW_SECONDS = 0.5
_WINDOW_ATTEMPTS = 20
_LONGEST_WINDOW_SECONDS = 2.0

# The shares of the accepted rate that are tried, and kept where that helped.
_TRIED = 0.85
_KEPT = 0.95
# A trial lasts until this many refusals are due if it does not help; fewer than the second number prove nothing.
_TRIAL_REFUSALS = 8
_LEAST_TRIAL_REFUSALS = 3
_LONGEST_TRIAL_SECONDS = 10.0
# A trial has not helped if the share of refusals stays above this part of what it was; where a rate is known, which
# others may share, more is needed to doubt it. If it rises by this factor, a burst has hidden how far we are above
# the limit.
_STAYED = 0.35
_STAYED_AT_A_RATE = 0.45
_ROSE = 1.3

# A rate grows by this after a window without a problem, and this much faster after each further one.
_FIRST_GROWTH = 0.02
_FASTER = 1.6
_MOST_GROWTH = 0.5
# Where nothing was known of the rate before; and at most, after a trial that did not help.
_SEARCHING_GROWTH = 0.2
_RESUMED_GROWTH = 0.1
# Only a rate of which so much is used may grow; on a busy machine, which is late for its turns, one that makes calls
# wait.
_USED = 0.8
_USED_IF_BINDING = 0.4

# Refusals that need no trial: this many that are half of a window, or most of the last attempts.
_MANY = 10
_MOST = 0.8
_LAST_ATTEMPTS = 20
# Refusals of an endpoint that is shut: most of this many, at least, after a slow-down.
_SHUT = 5
# Refusals that show a limit of concurrency, and the share of accepted attempts that may have had as many in flight.
_CAPPED = 3
_ABOVE_THE_CAP = 0.1

# Refused attempts that cost next to nothing, so that a trial would cost more.
_HARMLESS_SHARE = 0.025

# What is assumed when the first attempts of all are turned away.
_FIRST_RATE = 5.0
# Three per minute: slower than that is not waiting but giving up.
_LEAST_RATE = 0.05
# A slow-down leaves at least so much of the rate, as there may have been waits and few to ask.
_LEAST_LEFT = 0.6
_FORGET_SECONDS = 60.0
# The usual share of refusals is tested again after some windows: it falls by a twentieth with each.
_FORGETTING = 0.95
_MOST_WEIGHT = 0.1
_ATTEMPTS_OF_WEIGHT = 1600
# The accepted rate is that of the last second, or of as long as this many attempts took: a machine that was busy for a
# moment sent few attempts in the last second, and that says nothing about the endpoint.
_LATELY_SECONDS = 1.0
_LATELY_ATTEMPTS = 40
_LONGEST_LATELY_SECONDS = 10.0
_SHORTEST_SPAN = 0.25
# What a machine that was late may make up for; more would be a burst, which an endpoint with a limit refuses. A trial
# must not cost more than the rate that it gives up.
_CATCH_UP_SECONDS = 0.05
_CATCH_UP_IN_A_TRIAL_SECONDS = 0.2
_HAIR = 1e-6


@dataclass(slots=True)
class _Window:
    """Attempts that started within a while, and the refused ones, by the number then in flight."""

    start: float
    slowed: bool = False
    """Whether it follows a slow-down or a wait."""

    binding: bool = False
    """Whether the rate made attempts wait."""

    sent: Counter[int] = field(default_factory=Counter)
    refused: Counter[int] = field(default_factory=Counter)

    @property
    def share(self) -> float:
        """Refused attempts of all; some may have started before the window."""
        return min(1.0, self.refused.total() / max(1, self.sent.total()))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trial:
    """A slow-down of which is not known yet whether it helps."""

    share: float
    """Refused attempts before it, of all."""

    accepted: float
    """Attempts per second that were not refused before it."""

    rate: float
    """The rate before it, and how fast it grew."""

    growth: float


class Pace:
    """Unlimited until refusals are found to depend on the rate; from then on a rate that probes for more.

    - Attempts are counted in windows. A window with clearly more refusals than usual starts a trial, at 85 % of the
      accepted rate. If the share of refusals stays, they do not depend on the rate: the rate is restored, and this
      share is usual for a while. If it falls, 95 % of the accepted rate is kept; and where most attempts are refused,
      without a trial.
    - After every window without a problem the rate grows, by 2 % and then ever faster. It is forgotten after a minute
      without refusals, and after an outage.
    - If only those attempts are refused that found more in flight than almost all accepted ones, that is a limit of
      concurrency, which `refused` returns.
    - Refusals of nearly everything after a slow-down say that the endpoint is shut: the rate stays, and all callers
      wait, as long as the endpoint asks for (Retry-After, up to a longest) or twice as long each time. Where refusals
      are scattered, only the refused call waits.

    Below about twenty attempts per second it takes long to tell the two kinds of refusals apart: a limit of requests
    per minute does better.
    """

    def __init__(
        self,
        *,
        learns: bool,
        first: float,
        longest: float,
        longest_hold: float,
        clock: Callable[[], float],
        random: Callable[[], float],
    ) -> None:
        self._learns = learns
        self._first, self._longest, self._longest_hold = first, longest, longest_hold
        self._clock = clock
        self._random = random
        self.rate = math.inf
        """Attempts per second; infinite while no limit is known."""

        self._growth = 0.0
        self._usual_share = 0.0
        self._trial: _Trial | None = None
        self._slowed_at = self._next_at = self._held_until = self._refused_at = -math.inf
        self._holds, self._answered = 0, False
        self._let_in, self._turned_away = _Lately(), _Lately()
        self._last_sent: deque[float] = deque(maxlen=_LAST_ATTEMPTS)
        self._last_refused: deque[float] = deque(maxlen=_LAST_ATTEMPTS)
        self._window, self._previous = _Window(clock()), _Window(clock())

    @property
    def held(self) -> float:
        """Seconds for which the endpoint is left alone; 0 when it is not."""
        return max(0.0, self._held_until - self._clock())

    def wait(self) -> float:
        """Seconds until the next attempt may start."""
        now = self._clock()
        wait = max(self._held_until, self._next_at) - now
        if wait <= _HAIR:
            return 0.0
        self._window.binding |= self._next_at > now
        return wait

    def take(self, in_flight: int) -> None:
        """One attempt starts, as this one of those in flight.

        One that starts late lets the next start earlier, as timers are never quite in time.
        """
        now = self._clock()
        self._review(now)
        self._let_in.add(now)
        self._last_sent.append(now)
        self._window.sent[in_flight] += 1
        if not math.isinf(self.rate):
            catch_up = _CATCH_UP_SECONDS if self._trial is None else _CATCH_UP_IN_A_TRIAL_SECONDS
            self._next_at = max(self._next_at, now - catch_up) + 1 / self.rate

    def hold(self, seconds: float) -> None:
        """Leave the endpoint alone for this long."""
        self._held_until = max(self._held_until, self._clock() + min(self._longest_hold, seconds))

    def succeeded(self) -> None:
        self._answered, self._holds = True, 0

    def refused(self, started_at: float, *, in_flight: int, retry_after: float | None = None) -> int | None:
        """One attempt was turned away; returns how many at once the endpoint takes, if this shows it."""
        now, window = self._clock(), self._window
        self._turned_away.add(now)
        self._refused_at = now
        if started_at < self._slowed_at:
            # It was under way at the slow-down, and cannot answer for it.
            return None
        window.refused[in_flight] += 1
        self._last_refused.append(started_at)
        refused, sent = window.refused.total(), window.sent.total()
        shut = refused >= (1 if self._holds else _SHUT) and refused >= _MOST * sent
        if (shut and window.slowed) or (retry_after and not self._answered):
            self._leave_alone(retry_after)
        elif not self._learns:
            if shut:
                self._leave_alone(retry_after)
        elif (most := self._most_at_once()) is not None:
            self._trial = None
            self._restart(now)
            return most
        elif shut or (refused >= _MANY and refused >= sent / 2) or self._refused_lately():
            self._slow_down(now)
        elif self._trial is None and refused > self._tolerated(sent) + 2 and self._knows_enough(sent):
            self._try_slower(now)
        return None

    def forget(self) -> None:
        """After an outage: its refusals say nothing about a rate."""
        self.rate, self._trial, self._usual_share = math.inf, None, 0.0
        self._restart(self._clock())

    def _leave_alone(self, retry_after: float | None) -> None:
        # Half of it is random, so that the wait is spread and never nothing.
        wait = min(self._longest, self._first * 2.0 ** min(self._holds, 64)) * (1 + self._random()) / 2
        self.hold(retry_after or wait)
        self._holds += 1
        self._slowed_at = self._clock()
        self._restart(max(self._slowed_at, self._held_until), slowed=True)

    def _most_at_once(self) -> int | None:
        """The number in flight above which attempts are refused and up to which they are not, if there is one."""
        sent = self._window.sent + self._previous.sent
        refused = self._window.refused + self._previous.refused
        accepted = sent.total() - refused.total()
        if refused.total() < _CAPPED or accepted < _WINDOW_ATTEMPTS:
            return None
        lowest = min(refused)
        above = sum(number for level, number in sent.items() if level >= lowest) - refused.total()
        return lowest - 1 if lowest > 1 and above <= _ABOVE_THE_CAP * accepted else None

    def _knows_enough(self, sent: int) -> bool:
        """Whether there were attempts enough to guess a rate, if there is no rate yet."""
        return sent >= _WINDOW_ATTEMPTS or not math.isinf(self.rate)

    def _refused_lately(self) -> bool:
        """Whether most of the last attempts were refused."""
        if len(self._last_sent) < _LAST_ATTEMPTS:
            return False
        return sum(moment >= self._last_sent[0] for moment in self._last_refused) >= _MOST * _LAST_ATTEMPTS

    def _review(self, now: float) -> None:
        """Draws the conclusions from a window that has ended."""
        if now - self._refused_at > _FORGET_SECONDS:
            self.rate, self._trial = math.inf, None
        sent, refused, seconds = self._window.sent.total(), self._window.refused.total(), now - self._window.start
        due = _WINDOW_ATTEMPTS if self._trial is None else max(_WINDOW_ATTEMPTS, _TRIAL_REFUSALS / self._trial.share)
        longest = _LONGEST_WINDOW_SECONDS if self._trial is None else _LONGEST_TRIAL_SECONDS
        if not sent or seconds < _WINDOW_SECONDS or (sent < due and seconds < longest):
            return
        if self._trial is not None:
            slowed = self._decide(self._trial, self._window.share, now)
        elif refused > self._tolerated(sent) + 1 and self._learns:
            slowed = self._try_slower(now)
        else:
            slowed = self._grow(self._window.share, sent, seconds)
        if not slowed:
            self._previous, self._window = self._window, _Window(now)

    def _tolerated(self, sent: int) -> float:
        """Refusals that are usual among this many attempts, with a margin for chance."""
        if math.isinf(self.rate):
            usual = max(self._usual_share, _HARMLESS_SHARE) * sent
            return usual + 2 * math.sqrt(usual) + 1
        usual = self._usual_share * sent
        return usual + min(2 * math.sqrt(usual), max(math.sqrt(usual), 0.05 * sent))

    def _grow(self, share: float, sent: int, seconds: float) -> bool:
        usual = self._usual_share
        # One window says the more about the usual share the more attempts it has.
        weight = min(_MOST_WEIGHT, sent / _ATTEMPTS_OF_WEIGHT)
        self._usual_share = min(_FORGETTING * usual, usual + weight * (share - usual))
        used = _USED_IF_BINDING if self._window.binding else _USED
        if sent >= used * self.rate * seconds:
            # What is known from few attempts is less exact.
            self._growth = min(_MOST_GROWTH, max(_FASTER * self._growth, _FIRST_GROWTH, 0.5 / sent))
            self.rate *= 1 + self._growth
        return False

    def _decide(self, trial: _Trial, share: float, now: float) -> bool:
        """Ends a trial: keeps a lower rate if that helped, or else restores the rate; or slows down further."""
        self._trial = None
        if share > _ROSE * trial.share:
            return self._try_slower(now)
        # Where the rate could not be lowered enough, a limit still refuses what is above.
        if_limited = max(0.0, 1 - trial.accepted / self.rate)
        part = _STAYED if math.isinf(trial.rate) else _STAYED_AT_A_RATE
        stayed = share >= if_limited + part * (trial.share - if_limited)
        if stayed and self._window.refused.total() >= _LEAST_TRIAL_REFUSALS:
            self.rate, self._growth, self._usual_share = trial.rate, min(trial.growth, _RESUMED_GROWTH), share
        else:
            self.rate = max(self.rate, min(trial.rate, _KEPT * trial.accepted))
            self._usual_share = min(self._usual_share, share)
        return False

    def _try_slower(self, now: float) -> bool:
        trial = _Trial(share=self._window.share, accepted=self._accepted(now), rate=self.rate, growth=self._growth)
        self._slow_down(now, _TRIED)
        self._trial = trial
        return True

    def _slow_down(self, now: float, part: float = _KEPT) -> None:
        searching = math.isinf(self.rate) and part == _KEPT
        least = _FIRST_RATE if math.isinf(self.rate) else max(_LEAST_RATE, _LEAST_LEFT * self.rate)
        self.rate = max(least, min(self.rate, part * self._accepted(now)))
        self._growth = _SEARCHING_GROWTH if searching else 0.0
        self._trial = None
        self._slowed_at = now
        self._restart(now, slowed=True)

    def _restart(self, now: float, *, slowed: bool = False) -> None:
        self._window, self._previous = _Window(now, slowed), _Window(now)
        self._last_sent.clear()
        self._last_refused.clear()

    def _accepted(self, now: float) -> float:
        """What was let in lately and not turned away, per second."""
        start = self._let_in.start(now)
        # Of those turned away lately, some may have been let in before.
        taken = max(0, self._let_in.count_since(start) - self._turned_away.count_since(start))
        return taken / max(_SHORTEST_SPAN, now - start)


class _Lately:
    """Counts what happened within the last while."""

    def __init__(self) -> None:
        self._moments: deque[float] = deque()
        self._busy_since = -math.inf
        """When it began to happen, after a while without."""

    def add(self, now: float) -> None:
        if not self._moments or self._moments[-1] <= now - _LATELY_SECONDS:
            self._busy_since = now
        self._moments.append(now)
        while self._moments[0] <= now - _LONGEST_LATELY_SECONDS:
            self._moments.popleft()

    def start(self, now: float) -> float:
        """The start of the last while, in which it happened often enough to be counted."""
        if len(self._moments) < _LATELY_ATTEMPTS:
            return max(self._busy_since, now - _LONGEST_LATELY_SECONDS)
        return max(self._busy_since, min(now - _LATELY_SECONDS, self._moments[-_LATELY_ATTEMPTS]))

    def count_since(self, start: float) -> int:
        return len(self._moments) - bisect_left(self._moments, start)
