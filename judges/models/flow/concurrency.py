"""The number of attempts that an endpoint takes at once, adapted by trial."""

from collections.abc import Callable

from judges.models.flow.latency import Latency

_FIRST = 8
_ON_OVERLOAD = 0.75
_ON_LATENCY = 0.9
# Answers to what was asked before an outage still come in while it begins.
_SAME_TROUBLE_SECONDS = 10.0


class AdaptiveLimit:
    """Additive increase, multiplicative decrease, between 1 and `most`.

    - It starts at 8 and grows by one with every answer (doubles per round) until it first meets resistance, and by one
      per round (as many answers as it lets in flight) from there on.
    - It shrinks to 3/4 with an attempt that was turned away as too much (429, 503) or that hung, to 9/10 when latency
      rises (see `latency`), and by one such step per round: what was under way at a decrease cannot answer for it.
    - A limit that is not reached says nothing, so it neither grows nor shrinks. Hence with a rate that binds first
      (see `pace`) a 429 slows the rate and leaves the limit alone; and as the rate holds from then on, the limit may
      grow back as fast as it could before.
    - After an outage it starts again at 8 at most and doubles up to where it was before.
    """

    def __init__(self, most: int, *, clock: Callable[[], float]) -> None:
        self._most = float(most)
        self._clock = clock
        self._value = self._first = float(min(_FIRST, most))
        self._doubles_up_to = self._most
        self._before = self._value
        self._decreased_at: float | None = None
        self._answered = False
        self.latency = Latency()

    @property
    def value(self) -> int:
        return int(self._value)

    def succeeded(self, started_at: float, *, in_flight: int) -> None:
        """One answer, given while so many attempts, itself included, were under way."""
        self._answered = True
        rises = self.latency.rises_with(self._clock() - started_at, in_flight)
        if in_flight < self.value:
            return
        if rises:
            self._decrease(_ON_LATENCY, started_at)
        else:
            step = 1.0 if self._value < self._doubles_up_to else 1.0 / self._value
            self._value = min(self._most, self._value + step)

    def overloaded(self, started_at: float, *, in_flight: int, throttled: bool) -> None:
        """One attempt that was turned away or hung; throttled, when that was for the rate."""
        if in_flight >= self.value:
            fast_up_to = self._doubles_up_to
            self._decrease(_ON_OVERLOAD, started_at)
            self._doubles_up_to = fast_up_to if throttled else self._doubles_up_to

    def restart(self) -> None:
        """After an outage: what was in flight before says how far it may grow at once."""
        self._doubles_up_to = max(self._before, self._value)
        self._value = min(self._value, self._first)

    def _decrease(self, factor: float, started_at: float) -> None:
        now, last = self._clock(), self._decreased_at
        if last is not None and started_at < last:
            return
        if last is None or now - last > _SAME_TROUBLE_SECONDS:
            self._before = self._value
        if self._answered:
            # Without an answer in between, it is the same trouble still and no news of what the endpoint can take.
            self._doubles_up_to = self._value * factor
        self._answered, self._decreased_at = False, now
        self._value = max(1.0, self._value * factor)
