"""Measures flow control: the share of a limit that it uses, the cost of random refusals, and the time to recover.

Callers ask again as soon as they have an answer, and a tenth of a second after an error. First in virtual time
(`flow_simulation`), where the full form fails if a promise is not kept: random refusals of 5 % cost at most 15 % of
throughput, limits are used to 90 % with at most 5 % of the attempts refused, and a limit that was lifted is forgotten
within ten seconds. Then on real sockets: the rate of answers is compared with the limit of an endpoint that throttles,
and with the rate before an outage.

    PYTHONPATH=. python benchmarks/bench_flow.py --outage 6 --storm 8
"""

import asyncio
import contextlib
import random
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace

from rich.console import Console
from rich.table import Table

from benchmarks.common import argument_parser
from benchmarks.flow_simulation import SCENARIOS, TROUBLES, Result, Scenario, measure, measure_recovery
from judges.models import ModelError
from judges.models.flow import Flow, FlowLimits
from tests.parts.endpoints.faulty_endpoint import Fault, FaultyEndpoint, Limit, PlainClient, Script, Step, WindowLimit

CALLERS = 64
TIMEOUT_SECONDS = 30.0
# A flow has recovered at this share of the rate before the outage.
RECOVERED = 0.95
RECOVERY_SECONDS = 10.0
SEEDS = range(5)
# The short form plays few scenarios, because each takes seconds of computing.
SHORT_SCENARIOS = ("random 5 %, answers in 3.2 s", "bucket of 50/s", "16 at once")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Durations of the parts of a scenario in seconds, and the number of concurrent scenarios."""

    storm: float
    storms_at_once: int
    warm_up: float
    outage: float
    afterwards: float
    window: float
    outages_at_once: int


# Storms run one by one, so that the limit is the endpoint's and not this machine's.
FULL = Timing(storm=30.0, storms_at_once=1, warm_up=8.0, outage=60.0, afterwards=25.0, window=3.0, outages_at_once=2)
SHORT = Timing(storm=2.5, storms_at_once=6, warm_up=2.5, outage=0.5, afterwards=2.0, window=1.0, outages_at_once=5)


@dataclass(slots=True, kw_only=True)
class CallTally:
    answered_at: list[float] = field(default_factory=list)
    failed: int = 0

    def rate(self, start: float, end: float) -> float:
        return sum(start <= moment < end for moment in self.answered_at) / (end - start)


async def keep_asking(flow: Flow, client: PlainClient, tally: CallTally) -> None:
    while True:
        try:
            await flow.call(client.ask, tokens=110, used=lambda _: 110, seconds=TIMEOUT_SECONDS)
        except ModelError:
            tally.failed += 1
            await asyncio.sleep(0.1)
        else:
            tally.answered_at.append(time.monotonic())


@contextlib.asynccontextmanager
async def run_callers(script: Script) -> AsyncIterator[tuple[Flow, CallTally]]:
    """Keep all callers busy for the duration of the `with` block."""
    flow, client, tally = Flow(FlowLimits()), PlainClient(script), CallTally()
    tasks = [asyncio.create_task(keep_asking(flow, client, tally)) for _ in range(CALLERS)]
    try:
        yield flow, tally
    finally:
        for task in tasks:
            task.cancel()
        endings = await asyncio.gather(*tasks, return_exceptions=True)
        await client.aclose()
    # A caller that ended with an error met a bug, while the others kept asking in its place.
    for ending in endings:
        if isinstance(ending, Exception):
            raise ending


def latency(seconds: float, spread: float) -> Callable[[int], Step]:
    """Return answers that take about this time, like answers of different length."""
    return lambda _: Step(seconds=seconds * random.uniform(1 - spread, 1 + spread))


class RandomLimit(Limit):
    """Refuses a share of all attempts, whatever the rate."""

    def __init__(self, share: float) -> None:
        super().__init__(1.0)
        self._share = share

    def takes(self) -> bool:
        return random.random() >= self._share


STORMS: dict[str, tuple[float, float, Callable[[], Limit]]] = {
    "even, no Retry-After": (25, 0.05, lambda: Limit(25, burst=5)),
    "even, Retry-After 1": (25, 0.05, lambda: Limit(25, burst=25, retry_after=1)),
    "per second, no Retry-After": (25, 0.05, lambda: WindowLimit(25)),
    "per second, Retry-After 1": (25, 0.05, lambda: WindowLimit(25, retry_after=1)),
    "slow answers, no Retry-After": (20, 1.5, lambda: Limit(20, burst=5)),
    "slow answers, Retry-After 1": (20, 1.5, lambda: Limit(20, burst=20, retry_after=1)),
    "random 5 %, no Retry-After": (64 / 0.4, 0.4, lambda: RandomLimit(0.05)),
}


async def measure_storm(endpoint: FaultyEndpoint, name: str, timing: Timing) -> tuple[str, ...]:
    """Ask a throttling endpoint, and return a row of the table."""
    limit, answer_seconds, make_limit = STORMS[name]
    script = endpoint.script(latency(answer_seconds, 0.5), limit=make_limit())
    async with run_callers(script) as (_flow, tally):
        await asyncio.sleep(timing.storm)
        goodput, calls = len(tally.answered_at) / timing.storm, len(tally.answered_at) + tally.failed
        turned_away = script.seen[Fault.THROTTLED] / script.requests
    failed = f"{tally.failed / max(1, calls):.1%}"
    return name, f"{limit:g}/s", f"{goodput:.1f}/s", f"{goodput / limit:.0%}", f"{turned_away:.0%}", failed


OUTAGES = {
    "connections reset": Step(fault=Fault.RESET),
    "500": Step(fault=Fault.ERROR),
    "503": Step(fault=Fault.OVERLOADED),
    "429 to everything": Step(fault=Fault.THROTTLED),
    "silence": Step(fault=Fault.SILENCE),
}


async def measure_outage(endpoint: FaultyEndpoint, name: str, timing: Timing) -> tuple[str, ...]:
    """Ask an endpoint before, during and after an outage, and return a row of the table."""
    healthy = latency(1.0, 0.2)
    script = endpoint.script(healthy)
    async with run_callers(script) as (flow, tally):
        await asyncio.sleep(timing.warm_up)
        start = time.monotonic()
        full_rate = tally.rate(start - timing.warm_up / 2, start)
        requests = script.requests
        script.respond = lambda _: OUTAGES[name]
        await asyncio.sleep(timing.outage)
        script.respond, end = healthy, time.monotonic()
        requests, paused = script.requests - requests, flow.paused
        await asyncio.sleep(timing.afterwards)
    delays = (step / 10 for step in range(int((timing.afterwards - timing.window) * 10)))
    recovered = RECOVERED * full_rate
    back = next((delay for delay in delays if tally.rate(end + delay, end + delay + timing.window) >= recovered), None)
    recovery = "never" if back is None else f"{back:.1f} s"
    return name, f"{full_rate:.0f}/s", recovery, f"{requests / timing.outage:.1f}/s", paused or "no"


Measure = Callable[[FaultyEndpoint, str, Timing], Awaitable[tuple[str, ...]]]


async def add_rows(table: Table, measure: Measure, names: Iterable[str], timing: Timing, *, at_once: int) -> None:
    """Measure scenarios, `at_once` of them concurrently, and add a row for each."""
    waiting = list(names)
    with FaultyEndpoint() as endpoint:
        while waiting:
            group, waiting = waiting[:at_once], waiting[at_once:]
            for row in await asyncio.gather(*(measure(endpoint, name, timing) for name in group)):
                table.add_row(*row)


def simulate(scenario_names: Iterable[str], troubles: Iterable[str], seeds: Iterable[int]) -> list[str]:
    """Print the tables of the scenarios in virtual time, and return the broken promises."""
    broken, title = [], f"Virtual time, mean of {len(list(seeds))} runs"
    table = Table("endpoint", "allows", "used", "refused", "calls failed", title=title)
    for name in scenario_names:
        scenario = SCENARIOS[name]
        result = measure(scenario, seeds)
        row = f"{scenario.ideal:.0f}/s", f"{result.use:.0%}", f"{result.refused:.1%}", f"{result.failed:.2%}"
        table.add_row(name, *row)
        broken += [f"{name}: {row}"] if breaks_promise(scenario, result) else []
    Console(width=100).print(table)
    recoveries = Table("trouble for 20 s", "forgotten after", title="Virtual time, each run")
    for name in troubles:
        seconds = [measure_recovery(name, seed) for seed in seeds]
        recoveries.add_row(name, ", ".join("never" if back is None else f"{back:.1f} s" for back in seconds))
        late = sum(back is None or back > RECOVERY_SECONDS for back in seconds)
        broken += [f"{name}: {late} of {len(seconds)} not forgotten in time"] if 2 * late > len(seconds) else []
    Console(width=100).print(recoveries)
    return broken


def breaks_promise(scenario: Scenario, result: Result) -> bool:
    too_little = scenario.least_use is not None and result.use < scenario.least_use
    too_many = scenario.most_refused is not None and result.refused > scenario.most_refused
    return too_little or too_many


async def measure_all(timing: Timing) -> None:
    title = f"Throttled, {CALLERS} callers"
    storms = Table("limit", "allows", "answered", "share", "turned away", "calls failed", title=title)
    await add_rows(storms, measure_storm, STORMS, timing, at_once=timing.storms_at_once)
    Console(width=100).print(storms)
    title = f"{timing.outage:g} s out, {CALLERS} callers"
    outages = Table("outage", "full rate", "back after", "asked meanwhile", "paused", title=title)
    await add_rows(outages, measure_outage, OUTAGES, timing, at_once=timing.outages_at_once)
    Console(width=100).print(outages)


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--storm", type=float, metavar="SECONDS", help=f"default: {FULL.storm:g}")
    parser.add_argument("--outage", type=float, metavar="SECONDS", help=f"default: {FULL.outage:g}")
    options = parser.parse_args()
    timing = SHORT if options.short else FULL
    timing = replace(timing, storm=options.storm or timing.storm, outage=options.outage or timing.outage)
    if options.short:
        simulate(SHORT_SCENARIOS, ["25 in every second"], range(1))
        asyncio.run(measure_all(timing))
        return
    broken = simulate(SCENARIOS, TROUBLES, SEEDS)
    asyncio.run(measure_all(timing))
    if broken:
        sys.exit("\n".join(["broken promises:", *broken]))


if __name__ == "__main__":
    main()
