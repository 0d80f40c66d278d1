"""What flow control makes of an endpoint that throttles, and how soon it is back after an outage, on real sockets.

    python -m benchmarks.bench_flow [--quick] [--outage SECONDS]

Callers ask again as soon as they have an answer, and a tenth of a second after an error, as long as a scenario lasts.
"""

import argparse
import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

from judges.models import ModelError
from judges.models.flow import Flow, FlowLimits
from tests.parts.faulty_endpoint import Fault, FaultyEndpoint, Limit, PlainClient, Script, Step, WindowLimit

DEADLINE = 30.0
FULL = 0.95
WINDOW = 3.0
WARM_UP = 8.0
AFTERWARDS = 25.0


@dataclass(slots=True, kw_only=True)
class Tally:
    answered_at: list[float] = field(default_factory=list)
    failed: int = 0

    def rate(self, start: float, end: float) -> float:
        return sum(start <= at < end for at in self.answered_at) / (end - start)


async def keep_asking(flow: Flow, client: PlainClient, tally: Tally) -> None:
    while True:
        try:
            await flow.call(client.ask, tokens=110, used=lambda _: 110, deadline=time.monotonic() + DEADLINE)
        except ModelError:
            tally.failed += 1
            await asyncio.sleep(0.1)
        else:
            tally.answered_at.append(time.monotonic())


@contextlib.asynccontextmanager
async def asking(script: Script, callers: int) -> AsyncIterator[tuple[Flow, Tally]]:
    flow, client, tally = Flow(FlowLimits()), PlainClient(script), Tally()
    tasks = [asyncio.create_task(keep_asking(flow, client, tally)) for _ in range(callers)]
    try:
        yield flow, tally
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await client.aclose()


def latency(seconds: float, spread: float) -> Callable[[int], Step]:
    """Answers that take that time, more or less, as answers of different length do."""
    return lambda _: Step(seconds=seconds * random.uniform(1 - spread, 1 + spread))


STORMS: dict[str, tuple[float, float, Callable[[], Limit]]] = {
    "even, no Retry-After": (25, 0.05, lambda: Limit(25, burst=5)),
    "even, Retry-After 1": (25, 0.05, lambda: Limit(25, burst=25, retry_after=1)),
    "per second, no Retry-After": (25, 0.05, lambda: WindowLimit(25)),
    "per second, Retry-After 1": (25, 0.05, lambda: WindowLimit(25, retry_after=1)),
    "slow answers, no Retry-After": (20, 1.5, lambda: Limit(20, burst=5)),
    "slow answers, Retry-After 1": (20, 1.5, lambda: Limit(20, burst=20, retry_after=1)),
}


async def storm(endpoint: FaultyEndpoint, name: str, seconds: float) -> tuple[str, ...]:
    limit, each, make = STORMS[name]
    script = endpoint.script(latency(each, 0.5), limit=make())
    async with asking(script, 64) as (_flow, tally):
        await asyncio.sleep(seconds)
        goodput, calls = len(tally.answered_at) / seconds, len(tally.answered_at) + tally.failed
        turned_away = script.seen[Fault.THROTTLED] / script.requests
    failed = f"{tally.failed / calls:.1%}"
    return name, f"{limit:g}/s", f"{goodput:.1f}/s", f"{goodput / limit:.0%}", f"{turned_away:.0%}", failed


OUTAGES = {
    "connections reset": Step(fault=Fault.RESET),
    "500": Step(fault=Fault.ERROR),
    "503": Step(fault=Fault.OVERLOADED),
    "429 to everything": Step(fault=Fault.THROTTLED),
    "silence": Step(fault=Fault.SILENCE),
}


async def outage(endpoint: FaultyEndpoint, name: str, seconds: float) -> tuple[str, ...]:
    healthy = latency(1.0, 0.2)
    script = endpoint.script(healthy)
    async with asking(script, 64) as (flow, tally):
        await asyncio.sleep(WARM_UP)
        began = time.monotonic()
        full = tally.rate(began - WARM_UP / 2, began)
        seen = script.requests
        script.respond = lambda _: OUTAGES[name]
        await asyncio.sleep(seconds)
        script.respond, over = healthy, time.monotonic()
        asked, paused = script.requests - seen, flow.paused
        await asyncio.sleep(AFTERWARDS)
    starts = [over + step / 10 for step in range(int((AFTERWARDS - WINDOW) * 10))]
    back = next((start - over for start in starts if tally.rate(start, start + WINDOW) >= FULL * full), None)
    took = "never" if back is None else f"{back:.1f} s"
    return name, f"{full:.0f}/s", took, f"{asked / seconds:.1f}/s", paused or "no"


async def measure(outage_seconds: float, storm_seconds: float) -> None:
    storms = Table("limit", "allows", "answered", "share", "turned away", "calls failed", title="Throttled, 64 callers")
    outages = Table(
        "outage", "full rate", "back after", "asked meanwhile", "paused", title=f"{outage_seconds:g} s out, 64 callers"
    )
    with FaultyEndpoint() as endpoint:
        # One by one: what is measured is the endpoint's limit, not this machine's.
        for name in STORMS:
            storms.add_row(*await storm(endpoint, name, storm_seconds))
        Console().print(storms)
        for names in (("connections reset", "500"), ("503", "429 to everything"), ("silence",)):
            for row in await asyncio.gather(*(outage(endpoint, name, outage_seconds) for name in names)):
                outages.add_row(*row)
        Console().print(outages)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="an outage of 6 s and storms of 8 s")
    parser.add_argument("--outage", type=float, help="seconds that the outage lasts")
    arguments = parser.parse_args()
    outage_seconds = arguments.outage or (6.0 if arguments.quick else 60.0)
    asyncio.run(measure(outage_seconds, 8.0 if arguments.quick else 30.0))


if __name__ == "__main__":
    main()
