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
    """What an endpoint is known to take; it outlives the event loops in which callers wait."""

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
    """Of one event loop. Nobody overtakes: a call that needs many tokens is not starved by those that need few."""

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
        """Waits for its turn; a call that tries again keeps its ticket and thus its place.

        It waits for no endpoint that asks to be left alone for longer than `longest_hold` seconds.

        Raises `ModelUnavailable` as soon as it is known that there will be no turn in time, `ModelTimeout` when the
        time is up.
        """
        turn = self._loop.create_future()
        waiter = _Waiter(ticket=ticket, tokens=tokens, deadline=deadline, longest_hold=longest_hold, turn=turn)
        insort(self._waiters, waiter, key=_by_ticket)
        self._serve()
        try:
            found = waiter.turn.result() if waiter.turn.done() else await self._turn_of(waiter)
        except BaseException:
            self._withdraw(waiter)
            raise
        if isinstance(found, ModelError):
            raise found
        return found

    def enter_now(self, tokens: int) -> GatePass | None:
        """Lets one more in that will not wait and goes before nobody, nor to probe an endpoint that is paused."""
        controls = self._controls
        no_room = self._waiters or self.in_flight >= controls.limit.value or self._wait(tokens)[0]
        return None if no_room or not controls.breaker.closed else self._let_in(tokens)

    def leave(self) -> None:
        self.in_flight -= 1
        self._serve()

    def serve_again(self) -> None:
        """After what is known of the endpoint has changed for everybody."""
        for waiter in [each for each in self._waiters if not each.turn.done()]:
            if refusal := self._held_too_long(waiter):
                self._waiters.remove(waiter)
                waiter.turn.set_result(refusal)
        self._serve()

    async def _turn_of(self, waiter: _Waiter) -> GatePass | ModelError:
        try:
            left = None if math.isinf(waiter.deadline) else waiter.deadline - self._clock()
            async with asyncio.timeout(left):
                return await waiter.turn
        except TimeoutError:
            self._withdraw(waiter)
            return ModelTimeout("its turn did not come within the time it was given")

    def _withdraw(self, waiter: _Waiter) -> None:
        """Leaves nothing behind of a caller that goes."""
        if waiter in self._waiters:
            self._waiters.remove(waiter)
            self._serve()
        elif waiter.turn.done() and not waiter.turn.cancelled():
            # It was let in between its cancellation and now.
            entry = waiter.turn.result()
            if isinstance(entry, GatePass):
                self.turn_back(entry)

    def turn_back(self, entry: GatePass) -> None:
        """One that was let in leaves without an attempt."""
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
        """Gives the first in line its turn, or what keeps it from ever having one; false while it has to wait."""
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
            waiter.turn.set_result(ModelUnavailable(f"{why} leaves no room within the time it was given"))
            return True
        self._timer = self._loop.call_later(wait, self._serve)
        return False

    def _refusal(self, waiter: _Waiter) -> ModelError | None:
        breaker = self._controls.breaker
        if breaker.refuses:
            return Paused(f"paused, because {breaker.reason}")
        if self._clock() >= waiter.deadline:
            return ModelTimeout("there was no time left to ask")
        return self._held_too_long(waiter)

    def _held_too_long(self, waiter: _Waiter) -> ModelError | None:
        held = self._controls.pace.held
        if not held or (held <= waiter.longest_hold and self._clock() + held < waiter.deadline):
            return None
        return ModelUnavailable(f"the endpoint is to be left alone for another {held:.3g} s", retry_after=held)

    def _wait(self, tokens: int) -> tuple[float, str]:
        """The longest of the waits, and for what; nothing when there is room everywhere."""
        waits = [(self._controls.pace.wait(), "the rate at which the endpoint takes calls")]
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
    """Nothing was asked, because the breaker is not closed."""
