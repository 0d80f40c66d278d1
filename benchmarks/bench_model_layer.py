"""What the model layer costs: judge calls per second and core, beside a bare httpx loop with the same requests.

    DirectJudge ── EndpointModel ── httpx ── an endpoint in a process of its own that answers at once

The layer is measured as it is, with redaction, and with redaction and a worker's budget from which every call is paid.
All run in one process by turns; the time is the processor time of that process, so that neither the endpoint nor other
work on the machine counts. The ratio is what matters, the rates depend on the machine.

    make bench
"""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from statistics import median

import httpx
from rich.console import Console
from rich.table import Table

from judges import Case, DirectJudge, Interaction, OpenAIModel, case_of, load_catalogue
from judges.evaluation import Status
from judges.interaction import Context
from judges.models.prices import ModelPrice
from judges.models.redaction import Redactor
from judges.models.spending import Purse, paying_from
from stream.offsets import Partition
from stream.spending import Treasury
from stream.spending.limits import Budget, Budgets

CALLS = 1_000
ROUNDS = 5
IN_FLIGHT = 16
WANTED_RATE = 400
WANTED_RATIO = 0.6

PLAIN = "DirectJudge through the model layer"
REDACTED = "… with redaction"
PAID = "… with redaction and a budget"
BARE = "bare httpx, one client"
BEST = "bare httpx, a client for each of those in flight"

CRITERION = load_catalogue()["clarity"]
PRICE = ModelPrice(prompt=0.15, completion=0.6)
BUDGETS = Budgets(everyone=Budget(per_hour_usd=1e6, per_day_usd=1e7), apps={}, safety_share=0.2)
PARTITION = Partition("sampled", 0)
COMMIT_SECONDS = 0.1

Call = Callable[[int, int], Awaitable[None]]
"""Makes the call of a number, for one of those who call at the same time."""


# The endpoint


def answer() -> bytes:
    verdict = {"explanation": "It says at once what was asked.", "verdict": CRITERION.scale.choices[-1].label.en}
    message = {"role": "assistant", "content": json.dumps(verdict)}
    usage = {"prompt_tokens": 400, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 0}}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
    body = json.dumps({"object": "chat.completion", "choices": [choice], "usage": usage}).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


class Endpoint(asyncio.Protocol):
    """Answers whatever is posted; knows just enough of HTTP to tell where a request ends."""

    reply = answer()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._read = bytearray()

    def data_received(self, data: bytes) -> None:
        self._read += data
        while (end := self._read.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._read[:end]).lower()
            size = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
            if len(self._read) < end + 4 + size:
                return
            del self._read[: end + 4 + size]
            self._transport.write(self.reply)


async def serve() -> None:
    server = await asyncio.get_running_loop().create_server(Endpoint, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)


@contextmanager
def endpoint() -> Iterator[str]:
    command = [sys.executable, __file__, "serve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        finally:
            process.kill()


# The calls


def cases() -> list[Case]:
    return [
        case_of(
            Interaction(
                id=f"case-{number}",
                question=f"How long is the warranty of model {number}?",
                answer=f"The warranty of model {number} lasts two years from the day of purchase. "
                f"Write to help{number}@shop.example for more.",
                contexts=(Context(text="All products come with a two-year warranty. " * 8),),
            )
        )
        for number in range(CALLS)
    ]


async def at_once(call: Call) -> None:
    left = iter(range(CALLS))

    async def caller(own: int) -> None:
        for number in left:
            await call(number, own)

    await asyncio.gather(*map(caller, range(IN_FLIGHT)))


async def timed(call: Call) -> tuple[float, float]:
    """Calls per second of processor time, and per second on the clock."""
    processor, clock = time.process_time(), time.perf_counter()
    await at_once(call)
    return CALLS / (time.process_time() - processor), CALLS / (time.perf_counter() - clock)


async def recorded(questions: list[Case]) -> list[bytes]:
    """The bodies that the judge sends."""
    bodies: list[bytes] = []

    def answered(request: httpx.Request) -> httpx.Response:
        bodies.append(request.content)
        return httpx.Response(200, content=Endpoint.reply.partition(b"\r\n\r\n")[2])

    judge = DirectJudge(OpenAIModel("tiny", base_url="http://test/v1", transport=httpx.MockTransport(answered)))
    for case in questions:
        await judge.judge(case, CRITERION)
    return bodies


@asynccontextmanager
async def budget() -> AsyncIterator[Purse]:
    """A worker's, with its commits."""
    treasury = Treasury(BUDGETS, topic=PARTITION.topic)
    treasury.assigned([PARTITION])
    treasury.opened(PARTITION, 0, "", partitions=1)

    async def commit() -> None:
        while True:
            treasury.committed(treasury.prepare({PARTITION: 0}, lambda _: 0))
            await asyncio.sleep(COMMIT_SECONDS)

    committing = asyncio.create_task(commit())
    try:
        purse = treasury.purse(PARTITION, None, "main")
        assert purse is not None
        yield purse
    finally:
        committing.cancel()


def through_layer(judge: DirectJudge, questions: list[Case], purse: Purse | None = None) -> Call:
    async def ask(number: int, _: int) -> None:
        with paying_from(purse):
            verdict = await judge.judge(questions[number], CRITERION)
        assert verdict.status is Status.SCORED, verdict.detail

    return ask


def through_httpx(clients: list[httpx.AsyncClient], base_url: str, bodies: list[bytes]) -> Call:
    url, headers = f"{base_url}/chat/completions", {"Content-Type": "application/json"}

    async def post(number: int, caller: int) -> None:
        response = await clients[caller % len(clients)].post(url, content=bodies[number], headers=headers)
        assert response.json()["choices"]

    return post


async def measure(base_url: str) -> dict[str, list[tuple[float, float]]]:
    questions = cases()
    bodies = await recorded(questions)
    plain = DirectJudge(OpenAIModel("tiny", base_url=base_url))
    redacted = DirectJudge(OpenAIModel("tiny", base_url=base_url, redactor=Redactor()))
    paid = DirectJudge(OpenAIModel("tiny", base_url=base_url, redactor=Redactor(), price=PRICE))
    clients = [httpx.AsyncClient() for _ in range(1 + IN_FLIGHT)]
    async with budget() as purse:
        ways: dict[str, Call] = {
            PLAIN: through_layer(plain, questions),
            REDACTED: through_layer(redacted, questions),
            PAID: through_layer(paid, questions, purse),
            BARE: through_httpx(clients[:1], base_url, bodies),
            BEST: through_httpx(clients[1:], base_url, bodies),
        }
        found = await by_turns(ways)
    for judge in (plain, redacted, paid):
        await judge.aclose()
    for client in clients:
        await client.aclose()
    return found


async def by_turns(ways: dict[str, Call]) -> dict[str, list[tuple[float, float]]]:
    found: dict[str, list[tuple[float, float]]] = {what: [] for what in ways}
    for call in ways.values():
        await at_once(call)
    for _ in range(ROUNDS):
        for what, call in ways.items():
            found[what].append(await timed(call))
    return found


def main() -> None:
    with endpoint() as base_url:
        found = asyncio.run(measure(base_url))
    title = f"{ROUNDS} rounds of {CALLS} calls, {IN_FLIGHT} in flight, medians"
    caption = f"wanted of the model layer: {WANTED_RATE} calls/s and a ratio of {WANTED_RATIO}"
    columns = ("what", "calls/s of one core", "calls/s on the clock", "ratio to one client", "to a client for each")
    table = Table(*columns, title=title, caption=caption)
    for what, rounds in found.items():
        rate, clock = (median(each[place] for each in rounds) for place in (0, 1))
        ratios = [ratio(rounds, found[bare]) for bare in (BARE, BEST)] if what not in (BARE, BEST) else []
        table.add_row(what, f"{rate:,.0f}", f"{clock:,.0f}", *(f"{each:.2f}" for each in ratios))
    Console().print(table)


def ratio(rounds: list[tuple[float, float]], bare: list[tuple[float, float]]) -> float:
    """Of the processor time, round by round: what else the machine does then is much the same for both."""
    return median(one[0] / other[0] for one, other in zip(rounds, bare, strict=True))


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        asyncio.run(serve())
    else:
        main()
