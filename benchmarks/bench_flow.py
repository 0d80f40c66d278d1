"""Measures flow control on real sockets: how much of a limit it uses, and how soon it recovers from an outage.

64 callers ask again as soon as they have an answer, and a tenth of a second after an error. The rate of answers is
compared with the limit of an endpoint that throttles, and with the rate before the outage of one that goes away.

    PYTHONPATH=. python benchmarks/bench_flow.py --outage 6 --storm 8
"""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace

from rich.console import Console
from rich.table import Table

from benchmarks.common import argument_parser
from judges.models import ModelError
from judges.models.flow import Flow, FlowLimits
from tests.parts.endpoints.faulty_endpoint import Fault, FaultyEndpoint, Limit, PlainClient, Script, Step, WindowLimit

CALLERS = 64
DEADLINE = 30.0
# Recovered means this share of the rate before the outage.
RECOVERED = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds that the parts of the scenarios last, and how many scenarios run at the same time."""

    storm: float
    storms_at_once: int
    warm_up: float
    outage: float
    afterwards: float
    window: float
    outages_at_once: int


# Storms run one by one: the endpoint's limit is measured, not this machine's.
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
            await flow.call(client.ask, tokens=110, used=lambda _: 110, deadline=time.monotonic() + DEADLINE)
        except ModelError:
            tally.failed += 1
            await asyncio.sleep(0.1)
        else:
            tally.answered_at.append(time.monotonic())


@contextlib.asynccontextmanager
async def run_callers(script: Script) -> AsyncIterator[tuple[Flow, CallTally]]:
    """Keep all callers asking for the length of the `with` block."""
    flow, client, tally = Flow(FlowLimits()), PlainClient(script), CallTally()
    tasks = [asyncio.create_task(keep_asking(flow, client, tally)) for _ in range(CALLERS)]
    try:
        yield flow, tally
    finally:
        for task in tasks:
            task.cancel()
        endings = await asyncio.gather(*tasks, return_exceptions=True)
        await client.aclose()
    # A caller that was not just cancelled met a defect, and the others answered in its place.
    for ending in endings:
        if isinstance(ending, Exception):
            raise ending


def latency(seconds: float, spread: float) -> Callable[[int], Step]:
    """Return answers that take about this time, as answers of different length do."""
    return lambda _: Step(seconds=seconds * random.uniform(1 - spread, 1 + spread))


STORMS: dict[str, tuple[float, float, Callable[[], Limit]]] = {
    "even, no Retry-After": (25, 0.05, lambda: Limit(25, burst=5)),
    "even, Retry-After 1": (25, 0.05, lambda: Limit(25, burst=25, retry_after=1)),
    "per second, no Retry-After": (25, 0.05, lambda: WindowLimit(25)),
    "per second, Retry-After 1": (25, 0.05, lambda: WindowLimit(25, retry_after=1)),
    "slow answers, no Retry-After": (20, 1.5, lambda: Limit(20, burst=5)),
    "slow answers, Retry-After 1": (20, 1.5, lambda: Limit(20, burst=20, retry_after=1)),
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
    """Ask an endpoint that goes away and comes back, and return a row of the table."""
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
    wanted = RECOVERED * full_rate
    back = next((delay for delay in delays if tally.rate(end + delay, end + delay + timing.window) >= wanted), None)
    recovery = "never" if back is None else f"{back:.1f} s"
    return name, f"{full_rate:.0f}/s", recovery, f"{requests / timing.outage:.1f}/s", paused or "no"


Measure = Callable[[FaultyEndpoint, str, Timing], Awaitable[tuple[str, ...]]]


async def add_rows(table: Table, measure: Measure, names: Iterable[str], timing: Timing, *, at_once: int) -> None:
    """Measure scenarios, this many at the same time, and add a row for each."""
    waiting = list(names)
    with FaultyEndpoint() as endpoint:
        while waiting:
            group, waiting = waiting[:at_once], waiting[at_once:]
            for row in await asyncio.gather(*(measure(endpoint, name, timing) for name in group)):
                table.add_row(*row)


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
    asyncio.run(measure_all(timing))


if __name__ == "__main__":
    main()
