"""Scenarios of flow control in virtual time: the rate that an endpoint allows, and the share that callers get."""

import asyncio
import random
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from statistics import fmean

from judges.models import ModelError
from judges.models.flow import Flow, FlowLimits
from tests.parts.endpoints.simulated_endpoint import (
    Changing,
    ConcurrencyCap,
    FixedWindow,
    Scattered,
    SimulatedEndpoint,
    Throttle,
    TokenBucket,
    Unlimited,
    busy_machine,
    never_stall,
    run_virtually,
)

PLACES = 64
# Twice as many as places, so that no place is empty while a caller waits to retry.
CALLERS = 128
TIMEOUT_SECONDS = 30.0
LATENCY_SECONDS = 0.2
# Answers per second of an endpoint without a limit.
UNLIMITED = PLACES / LATENCY_SECONDS
WARM_UP_SECONDS = 10.0
# A flow has recovered at this share of the rate without a limit, over a second.
RECOVERED = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One endpoint; `ideal` is the rate of answers it allows on average after the warm-up."""

    throttle: Callable[[random.Random], Throttle]
    ideal: float
    least_use: float | None = 0.9
    """Promised share of the ideal rate, or None."""

    most_refused: float | None = 0.05
    """Maximum share of refused attempts, or None."""

    latency: float = LATENCY_SECONDS
    status: int = 429
    retry_after: float | None = None
    workers: int = 1
    seconds: float = 60.0
    busy: bool = False
    """Whether the machine of the callers stalls."""


@dataclass(slots=True, kw_only=True)
class Outcomes:
    """The moments of all answers, refused attempts and failed calls."""

    answered: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)
    failed: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Means over all seeds, after the warm-up."""

    use: float
    """Share of the ideal rate."""

    refused: float
    """Share of refused attempts."""

    failed: float
    """Share of failed calls."""


def random_refusals(share: float, **options: object) -> Scenario:
    """Return a scenario with random refusals, which may cost at most 15 % of throughput."""
    scenario = Scenario(
        throttle=lambda dice: Scattered(share, dice), ideal=UNLIMITED, least_use=0.85, most_refused=None
    )
    return replace(scenario, **options)  # type: ignore[arg-type]


def bucket(per_second: float, burst: float, **options: object) -> Scenario:
    scenario = Scenario(throttle=lambda _: TokenBucket(per_second, burst), ideal=per_second)
    return replace(scenario, **options)  # type: ignore[arg-type]


def moving_limit() -> Scenario:
    def throttle(_: random.Random) -> Throttle:
        return Changing({0: TokenBucket(100, 5), 60: TokenBucket(25, 5), 120: TokenBucket(200, 5)})

    ideal = (50 * 100 + 60 * 25 + 60 * 200) / 170
    return Scenario(throttle=throttle, ideal=ideal, least_use=0.85, seconds=180.0)


SCENARIOS: dict[str, Scenario] = {
    "no limit": Scenario(throttle=lambda _: Unlimited(), ideal=UNLIMITED, most_refused=0.0),
    "random 1 %": random_refusals(0.01),
    "random 1 %, Retry-After 1": random_refusals(0.01, retry_after=1.0),
    "random 2.5 %": random_refusals(0.025),
    "random 2.5 %, Retry-After 1": random_refusals(0.025, retry_after=1.0),
    "random 5 %": random_refusals(0.05),
    "random 5 %, Retry-After 1": random_refusals(0.05, retry_after=1.0),
    "random 10 %": random_refusals(0.1, least_use=0.8),
    "random 10 %, Retry-After 1": random_refusals(0.1, least_use=0.8, retry_after=1.0),
    "random 5 %, answers in 1.6 s": random_refusals(0.05, latency=1.6, ideal=40.0, seconds=120.0),
    "random 5 %, answers in 3.2 s": random_refusals(0.05, latency=3.2, ideal=20.0, seconds=120.0),
    "random 5 % of 503": random_refusals(0.05, status=503),
    "bucket of 50/s": bucket(50, 5),
    "bucket of 50/s, Retry-After 1": bucket(50, 5, retry_after=1.0),
    "bucket of 300/s": bucket(300, 10),
    "bucket of 25/s, burst 25, fast": bucket(25, 25, latency=0.05),
    "bucket of 20/s, burst 20, slow": bucket(20, 20, latency=1.5),
    "bucket of 5/s": bucket(5, 5, most_refused=None),
    "50 in every second": Scenario(throttle=lambda _: FixedWindow(50, 1), ideal=50),
    "50 in every second, Retry-After 1": Scenario(throttle=lambda _: FixedWindow(50, 1), ideal=50, retry_after=1.0),
    "500 in every 10 s": Scenario(throttle=lambda _: FixedWindow(500, 10), ideal=50, most_refused=None),
    "16 at once": Scenario(throttle=lambda _: ConcurrencyCap(16), ideal=80),
    "48 at once": Scenario(throttle=lambda _: ConcurrencyCap(48), ideal=240),
    "two workers on 50/s": bucket(50, 5, workers=2),
    "two workers on 50/s, Retry-After 1": bucket(50, 5, workers=2, retry_after=1.0),
    "100/s, then 25/s, then 200/s": moving_limit(),
}


async def play(scenario: Scenario, seed: int) -> Outcomes:
    """Keep all callers busy for the duration of the scenario."""
    loop, dice, outcomes = asyncio.get_running_loop(), random.Random(seed), Outcomes()
    endpoint = SimulatedEndpoint(
        throttle=scenario.throttle(dice),
        latency=scenario.latency,
        dice=dice,
        status=scenario.status,
        retry_after=scenario.retry_after,
    )

    async def ask() -> None:
        try:
            await endpoint.ask()
        except ModelError:
            outcomes.refused.append(loop.time())
            raise

    async def keep_asking(flow: Flow) -> None:
        while True:
            try:
                await flow.call(ask, tokens=1, used=lambda _: 1, seconds=TIMEOUT_SECONDS)
            except ModelError:
                outcomes.failed.append(loop.time())
                await asyncio.sleep(0.1)
            else:
                outcomes.answered.append(loop.time())

    limits = FlowLimits(concurrency=PLACES)
    flows = [Flow(limits, clock=loop.time, random=dice.random) for _ in range(scenario.workers)]
    callers = [asyncio.create_task(keep_asking(flow)) for flow in flows for _ in range(CALLERS)]
    await asyncio.sleep(scenario.seconds)
    for caller in callers:
        caller.cancel()
    endings = await asyncio.gather(*callers, return_exceptions=True)
    for ending in endings:
        if isinstance(ending, Exception):
            raise ending
    return outcomes


def measure(scenario: Scenario, seeds: Iterable[int]) -> Result:
    """Play a scenario once per seed."""
    uses, refusals, failures = [], [], []
    for seed in seeds:
        outcomes = run_virtually(play(scenario, seed), busy_machine(seed) if scenario.busy else never_stall)
        answered, refused, failed = (
            count_between(moments, WARM_UP_SECONDS, scenario.seconds)
            for moments in (outcomes.answered, outcomes.refused, outcomes.failed)
        )
        uses.append(answered / (scenario.seconds - WARM_UP_SECONDS) / scenario.ideal)
        refusals.append(refused / max(1, answered + refused))
        failures.append(failed / max(1, answered + failed))
    return Result(use=fmean(uses), refused=fmean(refusals), failed=fmean(failures))


TROUBLES: dict[str, tuple[int, Callable[[random.Random], Throttle]]] = {
    "limit of 25/s": (429, lambda _: TokenBucket(25, 5)),
    "25 in every second": (429, lambda _: FixedWindow(25, 1)),
    "8 at once": (429, lambda _: ConcurrencyCap(8)),
    "429 to everything": (429, lambda dice: Scattered(1.0, dice)),
    "503 to a third": (503, lambda dice: Scattered(1 / 3, dice)),
    "503 to everything": (503, lambda dice: Scattered(1.0, dice)),
}
_TROUBLE_FROM, _TROUBLE_UNTIL, _RECOVERY_UNTIL = 10.0, 30.0, 50.0


def measure_recovery(trouble: str, seed: int) -> float | None:
    """Return the seconds from the end of a limit until the rate has recovered, or None."""
    status, make = TROUBLES[trouble]

    def throttle(dice: random.Random) -> Throttle:
        return Changing({0.0: Unlimited(), _TROUBLE_FROM: make(dice), _TROUBLE_UNTIL: Unlimited()})

    scenario = Scenario(throttle=throttle, ideal=UNLIMITED, status=status, seconds=_RECOVERY_UNTIL)
    answered = run_virtually(play(scenario, seed)).answered
    delays = (step / 10 for step in range(int(_RECOVERY_UNTIL - _TROUBLE_UNTIL - 1) * 10))
    starts = ((delay, _TROUBLE_UNTIL + delay) for delay in delays)
    full_rate = RECOVERED * UNLIMITED
    return next((delay for delay, start in starts if count_between(answered, start, start + 1) >= full_rate), None)


def count_between(moments: list[float], start: float, end: float) -> int:
    return bisect_left(moments, end) - bisect_left(moments, start)
