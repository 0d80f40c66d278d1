"""The number of concurrent attempts that an endpoint can take, adapted by trial."""

from collections.abc import Callable
from statistics import median

from judges.models.flow.latency import Latency

# A model on a small machine handles few calls at a time.
_FIRST = 2
_AFTER_AN_OUTAGE = 8
_ON_OVERLOAD = 0.75
_ON_LATENCY = 0.9
# Answers to attempts from before an outage still arrive while it begins.
_SAME_TROUBLE_SECONDS = 10.0
_REST_SECONDS = 2.0
_PROBE_SECONDS = 0.5
# Probing beyond a cap, or beyond what is answered in time, costs a few calls: this keeps them a small share.
_ANSWERS_AT_A_CAP = 80
# Answers that take longer may come from a machine that computes one after the other: more concurrency only makes each
# slower.
_SLOW_SECONDS = 4.0
# After growth by this factor, latency is compared with before; growth pays if latency rose by at most this part of it.
_COMPARED = 1.5
_PAYS = 0.6


class AdaptiveLimit:
    """A limit between 1 and `most` that grows as long as the endpoint keeps up.

    - It starts at 2 and grows by one with every answer (doubles per round) until it first meets resistance. Then it
      rests for two seconds, and grows by one, two, four and so on, every half a second.
    - If answers take more than four seconds, it grows only after a round. It goes back if latency rose almost as much
      as the number in flight: then calls wait for each other at the endpoint.
    - It shrinks to 3/4 when an attempt hangs and to 9/10 when latency rises (see `latency`), by one such step per round
      (as many answers as may be in flight): attempts in flight at a decrease are not evidence against the new limit.
    - `cap` sets it to the number above which the endpoint refuses attempts (see `pace`).
    - A limit that is not reached says nothing, so it neither grows nor shrinks.
    - After an outage it restarts at 8 at most, and doubles up to its previous value.
    """

    def __init__(self, most: int, *, clock: Callable[[], float]) -> None:
        self._most = float(most)
        self._clock = clock
        self._value = float(min(_FIRST, most))
        self._doubles_up_to = self._most
        self._before = self._value
        self._decreased_at: float | None = None
        self._answered = False
        self._grown_at, self._round = clock(), list[float]()
        self._paid: tuple[float, float] | None = None
        self._step, self._rests_until, self._answers_to_rest = 1.0, clock(), 0.0
        self.latency = Latency()

    @property
    def value(self) -> int:
        return int(self._value)

    def succeeded(self, started_at: float, *, in_flight: int) -> None:
        """Record an answer; `in_flight` counts the attempts in flight, including this one."""
        self._answered = True
        seconds = self._clock() - started_at
        rises = self.latency.rises_with(seconds, in_flight)
        if in_flight < self.value:
            return
        if rises:
            self._decrease(_ON_LATENCY, started_at)
        elif seconds <= _SLOW_SECONDS:
            self._grow()
        elif started_at >= self._grown_at:
            self._grow_if_it_pays(seconds)

    def overloaded(self, started_at: float, *, in_flight: int) -> None:
        """Record an attempt that hung."""
        if in_flight >= self.value:
            self._decrease(_ON_OVERLOAD, started_at)
            if self._clock() - started_at > _SLOW_SECONDS:
                self._rest(_ANSWERS_AT_A_CAP)

    def cap(self, most: int) -> None:
        """Lower the limit to the number above which the endpoint refuses attempts; probe for more after a while."""
        if most < self.value:
            self._value = self._doubles_up_to = float(most)
            self._rest(_ANSWERS_AT_A_CAP)

    def restart(self) -> None:
        """Restart after an outage; the limit before it says how far to double."""
        self._doubles_up_to = max(self._before, self._value)
        self._value = min(self._value, _AFTER_AN_OUTAGE)

    def _decrease(self, factor: float, started_at: float) -> None:
        now, last = self._clock(), self._decreased_at
        if last is not None and started_at < last:
            return
        if last is None or now - last > _SAME_TROUBLE_SECONDS:
            self._before = self._value
        if self._answered:
            # Without an answer in between, it is still the same problem, which says nothing new about the endpoint.
            self._doubles_up_to = self._value * factor
        self._answered, self._decreased_at = False, now
        self._rest(self._value)
        self._value = max(1.0, self._value * factor)

    def _grow(self) -> None:
        if self._value < self._doubles_up_to:
            self._value = min(self._most, self._value + 1)
            return
        self._answers_to_rest -= 1
        if self._answers_to_rest <= 0 and self._clock() >= self._rests_until:
            self._value = min(self._most, self._value + self._step)
            self._step *= 2
            self._rests_until, self._answers_to_rest = self._clock() + _PROBE_SECONDS, self._value

    def _grow_if_it_pays(self, seconds: float) -> None:
        self._round.append(seconds)
        if 2 * len(self._round) < self._value:
            return
        value, latency = self._value, median(self._round)
        self._round.clear()
        before, usual = self._paid or (value, latency)
        if value >= _COMPARED * before and latency / usual > 1 + _PAYS * (value / before - 1):
            self._value = self._doubles_up_to = before
            self._rest(_ANSWERS_AT_A_CAP)
            return
        if value >= _COMPARED * before or value <= before:
            self._paid = (value, latency)
        if value < self._doubles_up_to:
            self._value = min(self._most, 2.0 * self.value)
        else:
            self._grow()
        self._grown_at = self._clock()

    def _rest(self, answers: float) -> None:
        self._step = 1.0
        self._rests_until, self._answers_to_rest = self._clock() + _REST_SECONDS, answers
