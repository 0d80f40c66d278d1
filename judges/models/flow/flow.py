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

# Calls that may wait for their turn before no more records are started: this share of those that may be in flight, so
# that every slot is always in use, and at a known rate no more than can be sent in this time.
_LINE_SHARE = 0.25
_LINE_SECONDS = 10.0

# No key, no money: every further call would fail in the same way until the operator fixes it.
_CERTAINLY_PERMANENT = frozenset({401, 402})
# No permission, no such model; or moderation rejected only this one prompt.
_PERHAPS_PERMANENT = frozenset({403, 404})

# Failures that count against the endpoint only in a probe: in other attempts, a malformed answer or a short timeout
# says little about the endpoint.
_NO_ANSWER = frozenset({FailureKind.TIMEOUT, FailureKind.PROTOCOL, FailureKind.OTHER})

# A probe may take this many times the usual latency.
_PROBE_BASELINES = 4

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered(Generic[T]):
    result: T
    retries: int
    """Attempts that failed before the one that gave the result."""

    hedged: bool
    """Whether a second attempt was started because the first was slow."""


@dataclass(slots=True, kw_only=True)
class _FlowCall(Generic[T]):
    number: int
    attempt: Callable[[], Awaitable[T]]
    tokens: int
    used: Callable[[T], int | None]
    deadline: float
    seconds: float
    ends_at: float
    """The deadline; once the call is sent, the end of its seconds if that is earlier."""

    retries: int = 0
    hedged: bool = False
    begun: list[GatePass] = field(default_factory=list)


class FlowWatcher(Protocol):
    """Is notified of calls, in the event loop."""

    def call_came(self) -> None: ...

    def attempt_ended(self) -> None: ...


class Flow:
    """Controls the calls to one endpoint, for all its callers; it runs in one event loop at a time.

    `call` makes attempts until one succeeds. Apart from cancellation it raises only `ModelError`s, with `retries` set.
    A deadline is a moment of `clock`, and includes the wait for a turn. `seconds` count from when a call is first sent,
    and start again after the endpoint refused it as busy (429, Retry-After). An attempt must raise `ModelError`s, with
    a `status` if there was one. `paused` is the reason why calls are paused; `state` is a snapshot of the rest.
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
        """Whether the queue of waiting calls is so long that calls of another record would wait for long."""
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
        """Return the first result; `tokens` estimates the tokens of an attempt, `used` reads them from its result."""
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
            # Callers that waited or were let in inside a loop that has ended are gone.
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
                return await self._attempt_with_hedge(call, gate, entry)
            except (ModelUnavailable, ModelTimeout) as error:
                error.retries = call.retries
                wait = max(self._backoff.seconds(call.retries), self._requested_wait(error))
                if _is_throttled(error):
                    # The refusal cost little time, so the seconds start again; a wait beyond them is too long.
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

    def _requested_wait(self, error: ModelError) -> float:
        """Return the seconds that the endpoint asks this call to wait."""
        return min(getattr(error, "retry_after", None) or 0.0, self.limits.longest_hold_seconds)

    async def _enter(self, call: _FlowCall[T], gate: Gate, failed: ModelError | None) -> GatePass:
        try:
            return await gate.enter(call.number, call.tokens, call.ends_at, call.seconds)
        except ModelError as error:
            self._failures[FailureKind.PAUSED] += isinstance(error, Paused)
            if failed is None:
                raise
            # The endpoint's error says more than the lack of time for a retry.
            raise failed from error

    async def _attempt_with_hedge(self, call: _FlowCall[T], gate: Gate, entry: GatePass) -> T:
        """Return the first success of one attempt, or of two if the first is slow."""
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
            self._turn_back([unused for unused in entries if unused not in call.begun], gate)
            await asyncio.gather(*pair, return_exceptions=True)

    def _turn_back(self, entries: list[GatePass], gate: Gate) -> None:
        """Return the passes of tasks that were cancelled before their first step, and so ran no `finally`."""
        for entry in entries:
            gate.turn_back(entry)

    async def _attempt(self, call: _FlowCall[T], gate: Gate, entry: GatePass) -> T:
        """Make one attempt, and learn from its outcome."""
        call.begun.append(entry)
        try:
            result = await self._in_time(call, self._time_for(call, entry))
            used = call.used(result)
        except ModelError as error:
            self._record_failure(call, gate, entry, error)
            raise
        except Exception as error:
            # The text of an unexpected error is not meant for people, and might contain a key.
            unknown = ModelProtocolError(f"the attempt failed with {type(error).__name__}")
            self._record_failure(call, gate, entry, unknown)
            raise unknown from error
        except BaseException:
            self._controls.breaker.abandoned(entry.admission)
            raise
        else:
            self._record_success(gate, entry, used)
            return result
        finally:
            gate.leave()
            for watcher in self.watchers:
                watcher.attempt_ended()

    def _time_for(self, call: _FlowCall[T], entry: GatePass) -> float:
        """Return the remaining time; less for a probe, so that a silent endpoint cannot delay the next one for long."""
        remaining, baseline = call.ends_at - entry.at, self._controls.limit.latency.baseline
        if not entry.admission.probe or baseline is None:
            return remaining
        return min(remaining, max(self.limits.longest_probe_seconds, _PROBE_BASELINES * baseline))

    async def _in_time(self, call: _FlowCall[T], seconds: float) -> T:
        try:
            async with asyncio.timeout(None if math.isinf(seconds) else seconds) as time_left:
                return await call.attempt()
        except TimeoutError as error:
            if not time_left.expired():
                raise ModelTimeout("the attempt timed out") from error
            raise ModelTimeout(f"{self._name} gave no answer within {round(seconds, 1):g} s") from error

    def _record_success(self, gate: Gate, entry: GatePass, used: int | None) -> None:
        controls = self._controls
        controls.pace.succeeded()
        controls.limit.succeeded(entry.at, in_flight=gate.in_flight)
        if controls.tokens is not None and used is not None:
            controls.tokens.settle(entry.tokens, used)
        if controls.breaker.succeeded(entry.admission):
            self._resume()

    def _record_failure(self, call: _FlowCall[Any], gate: Gate, entry: GatePass, error: ModelError) -> None:
        kind = failure_kind(error)
        self._failures[kind] += 1
        if kind in (FailureKind.THROTTLED, FailureKind.REFUSED) and self._controls.tokens is not None:
            self._controls.tokens.settle(entry.tokens, 0)
        self._update_limits(gate, entry, error, kind)
        if self._update_breaker(call, entry, error, kind):
            gate.serve_again()

    def _update_limits(self, gate: Gate, entry: GatePass, error: ModelError, kind: FailureKind) -> None:
        controls, retry_after = self._controls, getattr(error, "retry_after", None)
        if kind is FailureKind.TIMEOUT and self._took_long(entry):
            controls.limit.overloaded(entry.at, in_flight=gate.in_flight)
        if _is_throttled(error) or status_of(error) == 503:
            most = controls.pace.refused(entry.at, in_flight=entry.in_flight, retry_after=retry_after)
            if most is not None:
                controls.limit.cap(most)
            gate.serve_again()

    def _update_breaker(self, call: _FlowCall[Any], entry: GatePass, error: ModelError, kind: FailureKind) -> bool:
        """Return whether the breaker opened."""
        breaker, admission, status = self._controls.breaker, entry.admission, status_of(error)
        hung = kind is FailureKind.TIMEOUT and self._took_long(entry)
        opened = False
        if kind is FailureKind.UNAVAILABLE or hung or (admission.probe and kind in _NO_ANSWER):
            opened = breaker.failed(admission, str(error))
        elif isinstance(error, ModelRefused) and status in _CERTAINLY_PERMANENT | _PERHAPS_PERMANENT:
            surely = status in _CERTAINLY_PERMANENT
            opened = breaker.refused(admission, str(error), call=call.number, surely=surely)
        elif breaker.alive(admission):
            self._resume()
        if opened:
            logger.warning("circuit breaker open for %s until a probe succeeds: %s", self._name, error)
        return opened

    def _resume(self) -> None:
        self._controls.limit.restart()
        self._controls.pace.forget()
        logger.info("circuit breaker closed: %s responds again", self._name)

    def _took_long(self, entry: GatePass) -> bool:
        """Return whether the attempt took long for this endpoint: a short timeout is no sign of a slow endpoint."""
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
    """Return whether the endpoint refused the call only for now: it has not begun to answer."""
    return failure_kind(error) is FailureKind.THROTTLED or bool(getattr(error, "retry_after", None))


async def _first_success(attempts: list[asyncio.Task[T]]) -> T:
    running = set(attempts)
    while running:
        finished, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        for attempt in finished:
            if attempt.exception() is None:
                return attempt.result()
    return attempts[0].result()
