"""The circuit breaker: stops calls to an endpoint that fails or refuses us permanently, except for rare probes."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

_WINDOW = 20
_SHARE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Permission for one attempt; its outcome counts only while the breaker is in the same era."""

    era: int
    probe: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Open:
    reason: str
    seconds: float
    """Seconds from opening, or from the last failed probe, to the next probe."""

    until: float
    for_good: bool


class Breaker:
    """Closed, open or half open.

    - It opens after several consecutive failures, or if half of the last twenty attempts failed. It becomes half open
      after a while, which doubles with every failed probe up to a maximum.
    - It opens immediately if the endpoint refuses us permanently (no key, no money), and after several consecutive
      calls without permission or without such a model. It then becomes half open every `pause_seconds`.
    - Half open, it lets one attempt through: a success closes it, anything else opens it again. If a probe is aborted,
      the next attempt takes its place.
    - The outcome of an attempt that began before it opened or closed is ignored.
    """

    def __init__(
        self,
        *,
        failures: int,
        refusals: int,
        pause_seconds: float,
        probe_seconds: float,
        longest_probe_seconds: float,
        clock: Callable[[], float],
    ) -> None:
        self._failures_to_open, self._refusals_to_open = failures, refusals
        self._pause_seconds = pause_seconds
        self._probe_seconds, self._longest_probe_seconds = probe_seconds, longest_probe_seconds
        self._clock = clock
        self._era = 0
        self._open: _Open | None = None
        self._probing = False
        self._recent: deque[bool] = deque(maxlen=_WINDOW)
        self._failures_in_a_row = 0
        self._refused_calls: set[int] = set()

    @property
    def reason(self) -> str | None:
        """The reason why it is not closed, or None."""
        return None if self._open is None else self._open.reason

    @property
    def closed(self) -> bool:
        return self._open is None

    @property
    def refuses(self) -> bool:
        """Whether an attempt would be refused now."""
        return self._open is not None and (self._probing or self._clock() < self._open.until)

    def admit(self) -> Admission | None:
        """Return permission for one attempt, or None; one of the five methods below must report the outcome."""
        if self.refuses:
            return None
        self._probing = self._open is not None
        return Admission(era=self._era, probe=self._probing)

    def succeeded(self, admission: Admission) -> bool:
        """Record a success; return whether this closed the breaker."""
        if admission.era != self._era:
            return False
        self._recent.append(True)
        self._failures_in_a_row = 0
        self._refused_calls.clear()
        return self._close() if admission.probe else False

    def failed(self, admission: Admission, reason: str) -> bool:
        """Record a failure; return whether this opened the breaker."""
        if admission.era != self._era:
            return False
        if admission.probe:
            self._open_again()
            return False
        self._recent.append(False)
        self._failures_in_a_row += 1
        many = len(self._recent) == _WINDOW and self._recent.count(False) >= _SHARE * _WINDOW
        if many or self._failures_in_a_row >= self._failures_to_open:
            return self._open_for(reason, self._probe_seconds, for_good=False)
        return False

    def refused(self, admission: Admission, reason: str, *, call: int, surely: bool) -> bool:
        """Record a refusal that is permanent (`surely`) or may be; return whether this opened the breaker."""
        if admission.era != self._era:
            return False
        self._refused_calls.add(call)
        if admission.probe or surely or len(self._refused_calls) >= self._refusals_to_open:
            was_closed = self.closed
            self._open_for(reason, self._pause_seconds, for_good=True)
            return was_closed
        return False

    def alive(self, admission: Admission) -> bool:
        """Record an answer that is neither a success nor a failure; return whether this closed the breaker."""
        if admission.era != self._era or not admission.probe or self._open is None:
            return False
        if self._open.for_good:
            self._open_again()
            return False
        return self._close()

    def abandoned(self, admission: Admission) -> None:
        """Record an aborted attempt, which says nothing about the endpoint."""
        if admission.era == self._era and admission.probe:
            self._probing = False

    def forget_probe(self) -> None:
        """Allow another probe: the one in flight belonged to an event loop that has ended."""
        self._probing = False

    def _open_for(self, reason: str, seconds: float, *, for_good: bool) -> bool:
        self._open = _Open(reason=reason, seconds=seconds, until=self._clock() + seconds, for_good=for_good)
        self._start_era()
        return True

    def _open_again(self) -> None:
        assert self._open is not None
        seconds = self._open.seconds
        if not self._open.for_good:
            seconds = min(seconds * 2, max(seconds, self._longest_probe_seconds))
        self._open_for(self._open.reason, seconds, for_good=self._open.for_good)

    def _close(self) -> bool:
        self._open = None
        self._start_era()
        return True

    def _start_era(self) -> None:
        self._era += 1
        self._probing = False
        self._recent.clear()
        self._failures_in_a_row = 0
        self._refused_calls.clear()
