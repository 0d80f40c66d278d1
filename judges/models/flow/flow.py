"""Gets one answer from one endpoint by a deadline: waits, tries, retries, hedges, and learns from the outcome."""

import asyncio
import itertools
import logging
import math
import random as randomness
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from judges.models.errors import ModelError, ModelProtocolError, ModelRefused, ModelTimeout, ModelUnavailable
from judges.models.flow.backoff import Backoff
from judges.models.flow.breaker import Breaker
from judges.models.flow.bucket import Bucket
from judges.models.flow.concurrency import AdaptiveLimit
from judges.models.flow.failures import FailureKind, failure_kind, status_of
from judges.models.flow.gate import Controls, Gate, GatePass, Paused
from judges.models.flow.limits import FlowLimits
from judges.models.flow.pace import Pace
from judges.models.flow.state import FlowState
from judges.runtime.stopwatch import waiting_for_a_turn

T = TypeVar("T")

# Calls that may wait for their turn before more records are started: this part of those that may be in flight, so that
# none of their places is ever empty, and at a known rate no more than can be sent in this time.
_LINE_SHARE = 0.25
_LINE_SECONDS = 10.0

# No key, no money: every further call would fail alike until somebody mends it.
_SURELY_FOR_GOOD = frozenset({401, 402})
# No rights, no such model; or only this one prompt was found indecent.
_PERHAPS_FOR_GOOD = frozenset({403, 404})

# What a probe may not end with; beside probes, an odd answer or a caller in a hurry says little about the endpoint.
_NO_ANSWER = frozenset({FailureKind.TIMEOUT, FailureKind.PROTOCOL, FailureKind.OTHER})

# How much longer than usual a probe may take.
_PROBE_BASELINES = 4

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered(Generic[T]):
    result: T
    retries: int
    """Attempts that failed before the one that gave the result."""

    hedged: bool
    """Whether a second attempt was made beside the one that had not answered for long."""


@dataclass(slots=True, kw_only=True)
class _FlowCall(Generic[T]):
    number: int
    attempt: Callable[[], Awaitable[T]]
    tokens: int
    used: Callable[[T], int | None]
    deadline: float
    seconds: float
    ends_at: float
    """The deadline, or the end of its seconds once it was sent."""

    retries: int = 0
    hedged: bool = False
    begun: list[GatePass] = field(default_factory=list)


class FlowWatcher(Protocol):
    """Is notified of calls, in the event loop."""

    def call_came(self) -> None: ...

    def attempt_ended(self) -> None: ...


class Flow:
    """In front of one endpoint, shared by everybody who asks it; in one event loop at a time.

    `call` makes attempts until one succeeds and raises `ModelError`s and nothing else but cancellation, with `retries`
    set. Deadlines are moments of `clock`, and include the wait for its turn; `seconds` count from when a call is first
    sent, and again after the endpoint refused it for being busy (429, Retry-After). An attempt must raise
    `ModelError`s; with a `status` where there was one. `paused` says in words why nothing is asked of the endpoint for
    now; `state` is a snapshot of the rest.
    """

    def __init__(
        self,
        limits: FlowLimits | None = None,
        *,
        name: str = "the endpoint",
        clock: Callable[[], float] = time.monotonic,
        random: Callable[[], float] = randomness.random,
    ) -> None:
        self.limits = limits or FlowLimits()
        self._name = name
        self._clock = clock
        self._backoff = Backoff(self.limits.backoff_seconds, self.limits.longest_backoff_seconds, random=random)
        self._controls = _controls(self.limits, clock, random)
        self._failures: Counter[FailureKind] = Counter()
        self.watchers: list[FlowWatcher] = []
        self._tickets = itertools.count(1)
        self._gate: Gate | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def paused(self) -> str | None:
        return self._controls.breaker.reason

    @property
    def state(self) -> FlowState:
        controls, gate = self._controls, self._gate
        return FlowState(
            limit=controls.limit.value,
            rate=controls.pace.rate,
            in_flight=0 if gate is None else gate.in_flight,
            waiting=0 if gate is None else gate.waiting,
            failures={kind: self._failures[kind] for kind in FailureKind},
        )

    @property
    def has_line(self) -> bool:
        """Whether so many calls wait for their turn that those of another record would wait for long."""
        controls, gate = self._controls, self._gate
        if gate is None:
            return False
        rates = controls.pace.rate, math.inf if controls.requests is None else controls.requests.per_minute / 60
        return gate.waiting > min(_LINE_SHARE * controls.limit.value, _LINE_SECONDS * min(rates))

    async def call(
        self,
        attempt: Callable[[], Awaitable[T]],
        *,
        tokens: int,
        used: Callable[[T], int | None],
        deadline: float = math.inf,
        seconds: float = math.inf,
    ) -> Answered[T]:
        """`tokens` is an estimate of what the attempt will use, `used` tells from its result what it did use."""
        number = next(self._tickets)
        call = _FlowCall(
            number=number,
            attempt=attempt,
            tokens=tokens,
            used=used,
            deadline=deadline,
            seconds=seconds,
            ends_at=deadline,
        )
        gate = self._gate_here()
        for watcher in self.watchers:
            watcher.call_came()
        result = await self._with_retries(call, gate)
        return Answered(result=result, retries=call.retries, hedged=call.hedged)

    def _gate_here(self) -> Gate:
        loop = asyncio.get_running_loop()
        if self._gate is None or self._loop is not loop:
            # Whoever waited or was let in inside a loop that has ended is gone.
            self._controls.breaker.forget_probe()
            self._gate, self._loop = Gate(self._controls, clock=self._clock), loop
        return self._gate

    async def _with_retries(self, call: _FlowCall[T], gate: Gate) -> T:
        failed: ModelError | None = None
        while True:
            with waiting_for_a_turn():
                entry = await self._enter(call, gate, failed)
            if failed is None or _is_throttled(failed):
                call.ends_at = min(call.deadline, entry.at + call.seconds)
            if failed is not None:
                call.retries += 1
            try:
                return await self._hedged(call, gate, entry)
            except (ModelUnavailable, ModelTimeout) as error:
                error.retries = call.retries
                wait = max(self._backoff.seconds(call.retries), self._asked_wait(error))
                if _is_throttled(error):
                    # It was not asked in vain for long; but what asks for a longer wait than an answer is out of reach.
                    call.ends_at = min(call.deadline, self._clock() + call.seconds)
                in_time = self._clock() + wait < call.ends_at
                if call.retries >= self.limits.retries or not in_time or self._controls.breaker.refuses:
                    raise
                failed = error
            except ModelError as error:
                error.retries = call.retries
                raise
            await self._wait_to_retry(failed, wait)

    async def _wait_to_retry(self, failed: ModelError, seconds: float) -> None:
        if not _is_throttled(failed):
            await asyncio.sleep(seconds)
            return
        with waiting_for_a_turn():
            await asyncio.sleep(seconds)

    def _asked_wait(self, error: ModelError) -> float:
        """Seconds that the endpoint wants this call to wait."""
        return min(getattr(error, "retry_after", None) or 0.0, self.limits.longest_hold_seconds)

    async def _enter(self, call: _FlowCall[T], gate: Gate, failed: ModelError | None) -> GatePass:
        try:
            return await gate.enter(call.number, call.tokens, call.ends_at, call.seconds)
        except ModelError as error:
            self._failures[FailureKind.PAUSED] += isinstance(error, Paused)
            if failed is None:
                raise
            # What the endpoint said tells more than that there was no time to ask it again.
            raise failed from error

    async def _hedged(self, call: _FlowCall[T], gate: Gate, entry: GatePass) -> T:
        """The first success of one attempt, or of two when the first has not answered for long."""
        if self.limits.hedge_seconds is None:
            return await self._attempt(call, gate, entry)
        entries, pair = [entry], [asyncio.create_task(self._attempt(call, gate, entry))]
        try:
            await asyncio.wait(pair, timeout=self.limits.hedge_seconds)
            too_late = pair[0].done() or self._clock() >= call.ends_at
            second = None if too_late else gate.enter_now(call.tokens)
            if second is not None:
                call.hedged = True
                entries.append(second)
                pair.append(asyncio.create_task(self._attempt(call, gate, second)))
            return await _first_success(pair)
        finally:
            for attempt in pair:
                attempt.cancel()
            self._turn_back([each for each in entries if each not in call.begun], gate)
            await asyncio.gather(*pair, return_exceptions=True)

    def _turn_back(self, entries: list[GatePass], gate: Gate) -> None:
        """Of tasks that were cancelled before their first step, which run no `finally` of their own."""
        for entry in entries:
            gate.turn_back(entry)

    async def _attempt(self, call: _FlowCall[T], gate: Gate, entry: GatePass) -> T:
        """Makes one attempt, and learns from it."""
        call.begun.append(entry)
        try:
            result = await self._in_time(call, self._time_for(call, entry))
            used = call.used(result)
        except ModelError as error:
            self._failed(call, gate, entry, error)
            raise
        except Exception as error:
            # The text of an error that nobody made for people might hold a key.
            unknown = ModelProtocolError(f"the attempt failed with {type(error).__name__}")
            self._failed(call, gate, entry, unknown)
            raise unknown from error
        except BaseException:
            self._controls.breaker.abandoned(entry.admission)
            raise
        else:
            self._succeeded(gate, entry, used)
            return result
        finally:
            gate.leave()
            for watcher in self.watchers:
                watcher.attempt_ended()

    def _time_for(self, call: _FlowCall[T], entry: GatePass) -> float:
        """All that is left; but a probe of an endpoint that stays silent must not put off the next one for long."""
        left, baseline = call.ends_at - entry.at, self._controls.limit.latency.baseline
        if not entry.admission.probe or baseline is None:
            return left
        return min(left, max(self.limits.longest_probe_seconds, _PROBE_BASELINES * baseline))

    async def _in_time(self, call: _FlowCall[T], seconds: float) -> T:
        try:
            async with asyncio.timeout(None if math.isinf(seconds) else seconds) as time_left:
                return await call.attempt()
        except TimeoutError as error:
            if not time_left.expired():
                raise ModelTimeout("the attempt took longer than it was given") from error
            raise ModelTimeout(f"{self._name} gave no answer within {round(seconds, 1):g} s") from error

    def _succeeded(self, gate: Gate, entry: GatePass, used: int | None) -> None:
        controls = self._controls
        controls.pace.succeeded()
        controls.limit.succeeded(entry.at, in_flight=gate.in_flight)
        if controls.tokens is not None and used is not None:
            controls.tokens.settle(entry.tokens, used)
        if controls.breaker.succeeded(entry.admission):
            self._back()

    def _failed(self, call: _FlowCall[Any], gate: Gate, entry: GatePass, error: ModelError) -> None:
        kind = failure_kind(error)
        self._failures[kind] += 1
        if kind in (FailureKind.THROTTLED, FailureKind.REFUSED) and self._controls.tokens is not None:
            self._controls.tokens.settle(entry.tokens, 0)
        self._tell_limits(gate, entry, error, kind)
        if self._tell_breaker(call, entry, error, kind):
            gate.serve_again()

    def _tell_limits(self, gate: Gate, entry: GatePass, error: ModelError, kind: FailureKind) -> None:
        controls, retry_after = self._controls, getattr(error, "retry_after", None)
        if kind is FailureKind.TIMEOUT and self._took_long(entry):
            controls.limit.overloaded(entry.at, in_flight=gate.in_flight)
        if _is_throttled(error) or status_of(error) == 503:
            most = controls.pace.refused(entry.at, in_flight=entry.in_flight, retry_after=retry_after)
            if most is not None:
                controls.limit.cap(most)
            gate.serve_again()

    def _tell_breaker(self, call: _FlowCall[Any], entry: GatePass, error: ModelError, kind: FailureKind) -> bool:
        """Returns whether it opened."""
        breaker, admission, status = self._controls.breaker, entry.admission, status_of(error)
        hung = kind is FailureKind.TIMEOUT and self._took_long(entry)
        opened = False
        if kind is FailureKind.UNAVAILABLE or hung or (admission.probe and kind in _NO_ANSWER):
            opened = breaker.failed(admission, str(error))
        elif isinstance(error, ModelRefused) and status in _SURELY_FOR_GOOD | _PERHAPS_FOR_GOOD:
            surely = status in _SURELY_FOR_GOOD
            opened = breaker.refused(admission, str(error), call=call.number, surely=surely)
        elif breaker.alive(admission):
            self._back()
        if opened:
            logger.warning("circuit breaker open for %s until a probe succeeds: %s", self._name, error)
        return opened

    def _back(self) -> None:
        self._controls.limit.restart()
        self._controls.pace.forget()
        logger.info("circuit breaker closed: %s responds again", self._name)

    def _took_long(self, entry: GatePass) -> bool:
        """A caller in a hurry is no sign of a slow endpoint."""
        return self._controls.limit.latency.is_slow(self._clock() - entry.at)


def _controls(limits: FlowLimits, clock: Callable[[], float], random: Callable[[], float]) -> Controls:
    requests, tokens = limits.requests_per_minute, limits.tokens_per_minute
    return Controls(
        limit=AdaptiveLimit(limits.concurrency, clock=clock),
        pace=Pace(
            learns=limits.rate == "learn",
            first=limits.backoff_seconds,
            longest=limits.longest_backoff_seconds,
            longest_hold=limits.longest_hold_seconds,
            clock=clock,
            random=random,
        ),
        breaker=Breaker(
            failures=limits.failures_to_open,
            refusals=limits.refusals_to_pause,
            pause_seconds=limits.pause_seconds,
            probe_seconds=limits.probe_seconds,
            longest_probe_seconds=limits.longest_probe_seconds,
            clock=clock,
        ),
        requests=None if requests is None else Bucket(requests, clock=clock),
        tokens=None if tokens is None else Bucket(tokens, clock=clock),
    )


def _is_throttled(error: ModelError) -> bool:
    """Whether the endpoint refused for now: it has not begun to answer."""
    return failure_kind(error) is FailureKind.THROTTLED or bool(getattr(error, "retry_after", None))


async def _first_success(attempts: list[asyncio.Task[T]]) -> T:
    left = set(attempts)
    while left:
        done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
        for attempt in done:
            if attempt.exception() is None:
                return attempt.result()
    return attempts[0].result()
