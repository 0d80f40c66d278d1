"""The rate of attempts that an endpoint accepts, learnt from the refusals (429, 503) that depend on the rate.

A limit on concurrency cannot limit the rate: one call at a time to an endpoint that answers in 20 ms is 50 per second.
"""

import math
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

# A window ends after this time with at least this many attempts; if attempts are few, after the longest time.
_WINDOW_SECONDS = 0.5
_WINDOW_ATTEMPTS = 20
_LONGEST_WINDOW_SECONDS = 2.0

# The share of the accepted rate during a trial, and the share that is kept if the trial helped.
_TRIED = 0.85
_KEPT = 0.95
# A trial lasts until this many refusals are expected if it does not help; fewer than the second number prove nothing.
_TRIAL_REFUSALS = 8
_LEAST_TRIAL_REFUSALS = 3
_LONGEST_TRIAL_SECONDS = 10.0
# A trial has not helped if the share of refusals stays above this part of its earlier value. A known rate, which other
# clients may share, takes more to doubt. If the share rises by this factor, a burst has hidden how far we are above the
# limit.
_STAYED = 0.35
_STAYED_AT_A_RATE = 0.45
_ROSE = 1.3

# A rate grows by this after a window without a problem, and by this factor faster after each further one.
_FIRST_GROWTH = 0.02
_FASTER = 1.6
_MOST_GROWTH = 0.5
# Growth if the rate was unknown before; and the maximum after a trial that did not help.
_SEARCHING_GROWTH = 0.2
_RESUMED_GROWTH = 0.1
# A rate may grow only if this share of it is used; the lower one applies if the rate makes calls wait, because a busy
# machine starts them late.
_USED = 0.8
_USED_IF_BINDING = 0.4

# The rate is lowered without a trial after this many refusals, if half of the attempts of this window and the previous
# one are refused; or if most of the last attempts are.
_MANY = 10
_HALF = 0.5
_MOST = 0.8
_LAST_ATTEMPTS = 20
# Fewer refusals suffice if most attempts are refused: to lower the rate or, after a slow-down, to treat the endpoint
# as shut.
_SHUT = 5
# Refusals that show a limit on concurrency, and the share of accepted attempts that may have had as many in flight.
_CAPPED = 3
_ABOVE_THE_CAP = 0.1

# A share of refused attempts that costs less than a trial would.
_HARMLESS_SHARE = 0.025

# Assumed if the very first attempts are refused.
_FIRST_RATE = 5.0
# Three per minute: anything slower would amount to giving up.
_LEAST_RATE = 0.05
# A slow-down keeps at least this share of the rate: the accepted rate may be low because of waits or few calls.
_LEAST_LEFT = 0.6
_FORGET_SECONDS = 60.0
# The usual share of refusals falls by a twentieth with each window, so that it is tested again after some windows.
_FORGETTING = 0.95
_MOST_WEIGHT = 0.1
_ATTEMPTS_OF_WEIGHT = 1600
# The accepted rate is that of the last second, or of the period of this many attempts if it is longer: a machine that
# was busy for a moment sent few attempts in the last second, which says nothing about the endpoint.
_LATELY_SECONDS = 1.0
_LATELY_ATTEMPTS = 40
_LONGEST_LATELY_SECONDS = 10.0
_SHORTEST_SPAN = 0.25
# Delay that a late machine may catch up on; more would be a burst, which an endpoint with a limit refuses. A trial must
# not cost more than the rate that it gives up.
_CATCH_UP_SECONDS = 0.05
_CATCH_UP_IN_A_TRIAL_SECONDS = 0.2
_HAIR = 1e-6


@dataclass(slots=True)
class _Window:
    """Attempts that started within a window, and the refused ones, by the number in flight at that time."""

    start: float
    slowed: bool = False
    """Whether it follows a slow-down or a wait."""

    binding: bool = False
    """Whether the rate made attempts wait."""

    sent: Counter[int] = field(default_factory=Counter)
    refused: Counter[int] = field(default_factory=Counter)

    @property
    def share(self) -> float:
        """Share of refused attempts; some of them may have started before the window."""
        return min(1.0, self.refused.total() / max(1, self.sent.total()))

    @property
    def likely_share(self) -> float:
        """The share without the part that chance may have added: windows with many refusals start a trial."""
        refused = self.refused.total()
        return min(1.0, max(0.5, refused - math.sqrt(refused)) / max(1, self.sent.total()))

    def add(self, later: "_Window") -> "_Window":
        """Return both windows as one."""
        return _Window(self.start, self.slowed, self.binding, self.sent + later.sent, self.refused + later.refused)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trial:
    """A slow-down that may or may not help."""

    share: float
    """Share of refused attempts before the trial."""

    likely_share: float
    """The same, without the part that chance may have added if no limit was known: the first trial decides whether
    there is a limit at all, and must last long enough to see refusals that do not depend on the rate."""

    accepted: float
    """Accepted attempts per second before the trial."""

    rate: float
    """The rate before the trial; `growth` is its growth at that time."""

    growth: float


class Pace:
    """No limit until refusals turn out to depend on the rate; from then on a rate that probes for more.

    - Attempts are counted in windows. A window with clearly more refusals than usual starts a trial at 85 % of the
      accepted rate. If the share of refusals stays, they do not depend on the rate: the rate is restored, and this
      share is usual for a while. If it falls, 95 % of the accepted rate is kept. If most attempts are refused, this
      happens without a trial.
    - After every window without a problem the rate grows, by 2 % and then faster and faster. It is forgotten after a
      minute without refusals, and after an outage.
    - If all refused attempts had more others in flight than almost all accepted ones, the endpoint limits concurrency;
      `refused` returns this limit.
    - If nearly all attempts are refused after a slow-down, the endpoint is shut: the rate stays, and all callers wait,
      as long as the endpoint asks for (Retry-After, up to a maximum) or twice as long each time. If refusals are
      scattered, only the refused call waits.

    Below about twenty attempts per second it takes long to distinguish the two kinds of refusals: a limit on requests
    per minute works better.
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
        self._let_in, self._turned_away = _RecentEvents(), _RecentEvents()
        self._last_sent: deque[float] = deque(maxlen=_LAST_ATTEMPTS)
        self._last_refused: deque[float] = deque(maxlen=_LAST_ATTEMPTS)
        self._window, self._previous = _Window(clock()), _Window(clock())

    @property
    def held(self) -> float:
        """Seconds for which all calls are still held back; 0 if they are not."""
        return max(0.0, self._held_until - self._clock())

    def wait(self) -> float:
        """Return the seconds until the next attempt may start."""
        now = self._clock()
        wait = max(self._held_until, self._next_at) - now
        if wait <= _HAIR:
            return 0.0
        self._window.binding |= self._next_at > now
        return wait

    def take(self, in_flight: int) -> None:
        """Record the start of an attempt; `in_flight` includes it.

        After a late start, the next attempt may start earlier, because timers are never exact.
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
        """Hold back all calls for this many seconds."""
        self._held_until = max(self._held_until, self._clock() + min(self._longest_hold, seconds))

    def succeeded(self) -> None:
        self._answered, self._holds = True, 0

    def refused(self, started_at: float, *, in_flight: int, retry_after: float | None = None) -> int | None:
        """Record a refused attempt; return the endpoint's limit on concurrency if the refusals show one."""
        now, window = self._clock(), self._window
        self._turned_away.add(now)
        self._refused_at = now
        if started_at < self._slowed_at:
            # It was already in flight at the slow-down, so it says nothing about it.
            return None
        window.refused[in_flight] += 1
        self._last_refused.append(started_at)
        recent, refused, sent = self._previous.add(window), window.refused.total(), window.sent.total()
        shut = refused >= (1 if self._holds else _SHUT) and refused >= _MOST * sent
        if (shut and window.slowed) or (retry_after and not self._answered):
            self._hold_all(retry_after)
        elif not self._learns:
            if shut:
                self._hold_all(retry_after)
        elif (most := _most_at_once(recent)) is not None:
            self._trial = None
            self._restart(now)
            return most
        elif _is_overloaded(refused, recent.share) or self._are_most_refused():
            self._slow_down(now)
        elif self._trial is None and refused > self._tolerated_refusals(sent) + 2 and self._knows_enough(sent):
            self._try_slower(now)
        return None

    def forget(self) -> None:
        """Forget the rate after an outage: its refusals say nothing about a rate."""
        self.rate, self._trial, self._usual_share = math.inf, None, 0.0
        self._restart(self._clock())

    def _hold_all(self, retry_after: float | None) -> None:
        # Half of it is random, so that waits are spread and never 0.
        wait = min(self._longest, self._first * 2.0 ** min(self._holds, 64)) * (1 + self._random()) / 2
        self.hold(retry_after or wait)
        self._holds += 1
        self._slowed_at = self._clock()
        self._restart(max(self._slowed_at, self._held_until), slowed=True)

    def _knows_enough(self, sent: int) -> bool:
        """Return whether a rate is known, or there were enough attempts to estimate one."""
        return sent >= _WINDOW_ATTEMPTS or not math.isinf(self.rate)

    def _are_most_refused(self) -> bool:
        """Return whether most of the last attempts were refused."""
        if len(self._last_sent) < _LAST_ATTEMPTS:
            return False
        return sum(moment >= self._last_sent[0] for moment in self._last_refused) >= _MOST * _LAST_ATTEMPTS

    def _review(self, now: float) -> None:
        """Adapt the rate to a window that has ended."""
        if now - self._refused_at > _FORGET_SECONDS:
            self.rate, self._trial = math.inf, None
        sent, refused, seconds = self._window.sent.total(), self._window.refused.total(), now - self._window.start
        due: float = _WINDOW_ATTEMPTS
        longest = _LONGEST_WINDOW_SECONDS
        if self._trial is not None:
            due = max(due, _TRIAL_REFUSALS / self._trial.likely_share)
            longest = _LONGEST_TRIAL_SECONDS
        if not sent or seconds < _WINDOW_SECONDS or (sent < due and seconds < longest):
            return
        if self._trial is not None:
            slowed = self._decide(self._trial, self._window.share, now)
        elif refused > self._tolerated_refusals(sent) + 1 and self._learns:
            slowed = self._try_slower(now)
        else:
            slowed = self._grow(self._window.share, sent, seconds)
        if not slowed:
            self._previous, self._window = self._window, _Window(now)

    def _tolerated_refusals(self, sent: int) -> float:
        """Return the usual number of refusals among this many attempts, with a margin for chance."""
        if math.isinf(self.rate):
            usual = max(self._usual_share, _HARMLESS_SHARE) * sent
            return usual + 2 * math.sqrt(usual) + 1
        usual = self._usual_share * sent
        return usual + min(2 * math.sqrt(usual), max(math.sqrt(usual), 0.05 * sent))

    def _grow(self, share: float, sent: int, seconds: float) -> bool:
        usual = self._usual_share
        # The more attempts a window has, the more it says about the usual share.
        weight = min(_MOST_WEIGHT, sent / _ATTEMPTS_OF_WEIGHT)
        self._usual_share = min(_FORGETTING * usual, usual + weight * (share - usual))
        used = _USED_IF_BINDING if self._window.binding else _USED
        if sent >= used * self.rate * seconds:
            # A rate that was learnt from few attempts is less exact.
            self._growth = min(_MOST_GROWTH, max(_FASTER * self._growth, _FIRST_GROWTH, 0.5 / sent))
            self.rate *= 1 + self._growth
        return False

    def _decide(self, trial: _Trial, share: float, now: float) -> bool:
        """End a trial: keep a lower rate if it helped, slow down further if refusals rose, else restore the rate."""
        self._trial = None
        if share > _ROSE * trial.share:
            return self._try_slower(now)
        # If the rate could not be lowered enough, a limit still refuses the attempts above it.
        if_limited = max(0.0, 1 - trial.accepted / self.rate)
        part = _STAYED if math.isinf(trial.rate) else _STAYED_AT_A_RATE
        stayed = share >= if_limited + part * (trial.likely_share - if_limited)
        if stayed and self._window.refused.total() >= _LEAST_TRIAL_REFUSALS:
            self.rate, self._growth, self._usual_share = trial.rate, min(trial.growth, _RESUMED_GROWTH), share
        else:
            self.rate = max(self.rate, min(trial.rate, _KEPT * trial.accepted))
            self._usual_share = min(self._usual_share, share)
        return False

    def _try_slower(self, now: float) -> bool:
        window = self._window
        trial = _Trial(
            share=window.share,
            likely_share=window.likely_share if math.isinf(self.rate) else window.share,
            accepted=self._accepted_rate(now),
            rate=self.rate,
            growth=self._growth,
        )
        self._slow_down(now, _TRIED)
        self._trial = trial
        return True

    def _slow_down(self, now: float, part: float = _KEPT) -> None:
        searching = math.isinf(self.rate) and part == _KEPT
        least = _FIRST_RATE if math.isinf(self.rate) else max(_LEAST_RATE, _LEAST_LEFT * self.rate)
        self.rate = max(least, min(self.rate, part * self._accepted_rate(now)))
        self._growth = _SEARCHING_GROWTH if searching else 0.0
        self._trial = None
        self._slowed_at = now
        self._restart(now, slowed=True)

    def _restart(self, now: float, *, slowed: bool = False) -> None:
        self._window, self._previous = _Window(now, slowed), _Window(now)
        self._last_sent.clear()
        self._last_refused.clear()

    def _accepted_rate(self, now: float) -> float:
        """Return the recent rate of attempts that were let in and not refused, per second."""
        start = self._let_in.start(now)
        # Some of the recently refused attempts may have been let in earlier.
        accepted = max(0, self._let_in.count_since(start) - self._turned_away.count_since(start))
        return accepted / max(_SHORTEST_SPAN, now - start)


def _most_at_once(recent: _Window) -> int | None:
    """Return the number in flight up to which attempts are accepted and above which they are refused, if any."""
    sent, refused = recent.sent, recent.refused
    accepted = sent.total() - refused.total()
    if refused.total() < _CAPPED or accepted < _WINDOW_ATTEMPTS:
        return None
    lowest = min(refused)
    above = sum(number for level, number in sent.items() if level >= lowest) - refused.total()
    return lowest - 1 if lowest > 1 and above <= _ABOVE_THE_CAP * accepted else None


def _is_overloaded(refused: int, share: float) -> bool:
    """Return whether so many attempts are refused that the rate is lowered without a trial.

    The share is that of this window and the previous one: the refusals of a window that has just begun belong to
    attempts of the one before.
    """
    return (refused >= _SHUT and share >= _MOST) or (refused >= _MANY and share >= _HALF)


class _RecentEvents:
    """Counts recent events."""

    def __init__(self) -> None:
        self._moments: deque[float] = deque()
        self._busy_since = -math.inf
        """Time of the first event after a quiet time."""

    def add(self, now: float) -> None:
        if not self._moments or self._moments[-1] <= now - _LATELY_SECONDS:
            self._busy_since = now
        self._moments.append(now)
        while self._moments[0] <= now - _LONGEST_LATELY_SECONDS:
            self._moments.popleft()

    def start(self, now: float) -> float:
        """Return the start of the recent period, which is long enough to contain sufficient events."""
        if len(self._moments) < _LATELY_ATTEMPTS:
            return max(self._busy_since, now - _LONGEST_LATELY_SECONDS)
        return max(self._busy_since, min(now - _LATELY_SECONDS, self._moments[-_LATELY_ATTEMPTS]))

    def count_since(self, start: float) -> int:
        return len(self._moments) - bisect_left(self._moments, start)
