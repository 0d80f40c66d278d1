"""The gate in front of an endpoint: callers wait in order of arrival until every limit has room for them."""

import asyncio
import math
from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass

from judges.models.errors import ModelError, ModelTimeout, ModelUnavailable
from judges.models.flow.breaker import Admission, Breaker
from judges.models.flow.bucket import Bucket
from judges.models.flow.concurrency import AdaptiveLimit
from judges.models.flow.pace import Pace


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GatePass:
    """One attempt that was let in."""

    at: float
    tokens: int
    in_flight: int
    """Attempts under way when it started, itself included."""

    admission: Admission


@dataclass(frozen=True, slots=True, kw_only=True)
class Controls:
    """The limits of an endpoint; they outlive the event loops in which callers wait."""

    limit: AdaptiveLimit
    pace: Pace
    breaker: Breaker
    requests: Bucket | None
    tokens: Bucket | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Waiter:
    ticket: int
    tokens: int
    deadline: float
    longest_hold: float
    turn: "asyncio.Future[GatePass | ModelError]"


def _by_ticket(waiter: _Waiter) -> int:
    return waiter.ticket


class Gate:
    """Belongs to one event loop. Calls keep their order, so that those with few tokens do not starve one with many."""

    def __init__(self, controls: Controls, *, clock: Callable[[], float]) -> None:
        self._controls = controls
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._waiters: list[_Waiter] = []
        self._timer: asyncio.TimerHandle | None = None
        self.in_flight = 0

    @property
    def waiting(self) -> int:
        return len(self._waiters)

    async def enter(self, ticket: int, tokens: int, deadline: float, longest_hold: float = math.inf) -> GatePass:
        """Wait for a turn; a retry keeps the ticket of its call, and thus its place.

        If the endpoint asks for a pause of more than `longest_hold` seconds, the call does not wait.

        Raise `ModelUnavailable` as soon as there cannot be a turn in time, and `ModelTimeout` when the time is up.
        """
        turn = self._loop.create_future()
        waiter = _Waiter(ticket=ticket, tokens=tokens, deadline=deadline, longest_hold=longest_hold, turn=turn)
        insort(self._waiters, waiter, key=_by_ticket)
        self._serve()
        try:
            turn_result = waiter.turn.result() if waiter.turn.done() else await self._turn_of(waiter)
        except BaseException:
            self._withdraw(waiter)
            raise
        if isinstance(turn_result, ModelError):
            raise turn_result
        return turn_result

    def enter_now(self, tokens: int) -> GatePass | None:
        """Let in another attempt that does not wait, unless others wait or the endpoint is paused."""
        controls = self._controls
        no_room = self._waiters or self.in_flight >= controls.limit.value or self._wait(tokens)[0]
        return None if no_room or not controls.breaker.closed else self._let_in(tokens)

    def leave(self) -> None:
        self.in_flight -= 1
        self._serve()

    def serve_again(self) -> None:
        """Look at all callers again, after the limits of the endpoint have changed."""
        for waiter in [waiter for waiter in self._waiters if not waiter.turn.done()]:
            if refusal := self._hold_refusal(waiter):
                self._waiters.remove(waiter)
                waiter.turn.set_result(refusal)
        self._serve()

    async def _turn_of(self, waiter: _Waiter) -> GatePass | ModelError:
        try:
            remaining = None if math.isinf(waiter.deadline) else waiter.deadline - self._clock()
            async with asyncio.timeout(remaining):
                return await waiter.turn
        except TimeoutError:
            self._withdraw(waiter)
            return ModelTimeout("timed out in our queue for the endpoint, before the call was sent")

    def _withdraw(self, waiter: _Waiter) -> None:
        """Remove a caller that gives up, or the pass that it has received."""
        if waiter in self._waiters:
            self._waiters.remove(waiter)
            self._serve()
        elif waiter.turn.done() and not waiter.turn.cancelled():
            # It was let in between its cancellation and now.
            entry = waiter.turn.result()
            if isinstance(entry, GatePass):
                self.turn_back(entry)

    def turn_back(self, entry: GatePass) -> None:
        """Return a pass that was not used for an attempt."""
        self._controls.breaker.abandoned(entry.admission)
        if self._controls.tokens is not None:
            self._controls.tokens.settle(entry.tokens, 0)
        self.leave()

    def _serve(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiters and self._serves(self._waiters[0]):
            self._waiters.pop(0)

    def _serves(self, waiter: _Waiter) -> bool:
        """Give the first waiter its turn, or the error that rules one out; return false while it has to wait."""
        if waiter.turn.done():
            return True
        if refusal := self._refusal(waiter):
            waiter.turn.set_result(refusal)
            return True
        if self.in_flight >= self._controls.limit.value:
            return False
        wait, why = self._wait(waiter.tokens)
        if not wait:
            waiter.turn.set_result(self._let_in(waiter.tokens))
            return True
        if self._clock() + wait >= waiter.deadline:
            waiter.turn.set_result(ModelUnavailable(f"{why} allows no call before the timeout"))
            return True
        self._timer = self._loop.call_later(wait, self._serve)
        return False

    def _refusal(self, waiter: _Waiter) -> ModelError | None:
        breaker = self._controls.breaker
        if breaker.refuses:
            return Paused(f"calls are paused, because {breaker.reason}")
        if self._clock() >= waiter.deadline:
            return ModelTimeout("timed out before the call was sent")
        return self._hold_refusal(waiter)

    def _hold_refusal(self, waiter: _Waiter) -> ModelError | None:
        seconds = self._controls.pace.held
        if not seconds or (seconds <= waiter.longest_hold and self._clock() + seconds < waiter.deadline):
            return None
        return ModelUnavailable(f"calls to the endpoint are on hold for another {seconds:.3g} s", retry_after=seconds)

    def _wait(self, tokens: int) -> tuple[float, str]:
        """Return the longest of the waits and its reason; 0 seconds if all limits have room."""
        waits = [(self._controls.pace.wait(), "the rate that the endpoint accepts")]
        if bucket := self._controls.requests:
            waits.append((bucket.wait(1), f"the limit of {bucket.per_minute:g} requests per minute"))
        if bucket := self._controls.tokens:
            waits.append((bucket.wait(tokens), f"the limit of {bucket.per_minute:g} tokens per minute"))
        return max(waits)

    def _let_in(self, tokens: int) -> GatePass:
        admission = self._controls.breaker.admit()
        assert admission is not None, "asked before"
        self._controls.pace.take(self.in_flight + 1)
        if self._controls.requests is not None:
            self._controls.requests.take(1)
        if self._controls.tokens is not None:
            self._controls.tokens.take(tokens)
        self.in_flight += 1
        return GatePass(at=self._clock(), tokens=tokens, in_flight=self.in_flight, admission=admission)


class Paused(ModelUnavailable):
    """No attempt was made, because the breaker is not closed."""
