"""Measures the cost of the model layer: judge calls per second and core, against a bare httpx loop.

    DirectJudge ── EndpointModel ── httpx ── an endpoint in a separate process that answers immediately

Both send the same requests. The layer is measured plain, with redaction, and with redaction and a worker's budget that
pays every call. All take turns in one process, and only the processor time of that process counts, not that of the
endpoint or of other work on the machine. The ratio matters; the rates depend on the machine.

    PYTHONPATH=. python benchmarks/bench_model_layer.py
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from statistics import median

import httpx
from rich.console import Console
from rich.table import Table

from benchmarks.common import argument_parser
from benchmarks.worker_budget import open_purse
from judges import Case, DirectJudge, Interaction, OpenAIModel, case_of, load_catalogue
from judges.models.prices import ModelPrice
from judges.models.redaction import Redactor
from judges.models.spending import Purse, paying_from
from judges.values.evaluation import Status
from judges.values.interaction import Context
from tests.parts import local_http

CALLS, SHORT_CALLS = 1_000, 50
ROUNDS, SHORT_ROUNDS = 5, 1
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
COMMIT_SECONDS = 0.1

Call = Callable[[int, int], Awaitable[None]]
"""Makes the call with the first number, for the concurrent caller with the second."""
Rates = dict[str, list[tuple[float, float]]]
"""Calls per second of processor time and per second on the clock, one pair per round, by the way of calling."""


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
    """Answers any POST; parses just enough HTTP to find where a request ends."""

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
    command = [sys.executable, __file__, "--serve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        finally:
            process.kill()


# The calls


def make_cases(count: int, first: int = 0) -> list[Case]:
    """Return cases without common texts, so that no cached result of one helps another."""
    return [
        case_of(
            Interaction(
                id=f"case-{number}",
                question=f"How long is the warranty of model {number}?",
                answer=f"The warranty of model {number} lasts two years from the day of purchase. "
                f"Write to help{number}@shop.example for more.",
                contexts=(Context(text=f"Product {number} comes with a two-year warranty. " * 8),),
            )
        )
        for number in range(first, first + count)
    ]


async def make_calls(call: Call, count: int) -> None:
    numbers = iter(range(count))

    async def keep_calling(caller: int) -> None:
        for number in numbers:
            await call(number, caller)

    await asyncio.gather(*map(keep_calling, range(IN_FLIGHT)))


async def time_calls(call: Call, count: int) -> tuple[float, float]:
    """Return calls per second of processor time, and per second on the clock."""
    processor, clock = time.process_time(), time.perf_counter()
    await make_calls(call, count)
    return count / (time.process_time() - processor), count / (time.perf_counter() - clock)


async def record_bodies(questions: list[Case]) -> list[bytes]:
    """Return the request bodies that the judge sends."""
    bodies: list[bytes] = []

    def answer_request(request: httpx.Request) -> httpx.Response:
        bodies.append(request.content)
        return httpx.Response(200, content=Endpoint.reply.partition(b"\r\n\r\n")[2])

    judge = DirectJudge(OpenAIModel("tiny", base_url="http://test/v1", transport=httpx.MockTransport(answer_request)))
    for case in questions:
        await judge.judge(case, CRITERION)
    return bodies


def through_layer(judge: DirectJudge, questions: list[Case], purse: Purse | None = None) -> Call:
    unasked = iter(questions)

    async def ask(_number: int, _caller: int) -> None:
        with paying_from(purse):
            verdict = await judge.judge(next(unasked), CRITERION)
        assert verdict.status is Status.SCORED, verdict.detail

    return ask


def through_httpx(clients: list[httpx.AsyncClient], base_url: str, bodies: list[bytes]) -> Call:
    url, headers = f"{base_url}/chat/completions", {"Content-Type": "application/json"}

    async def post(number: int, caller: int) -> None:
        response = await clients[caller % len(clients)].post(url, content=bodies[number], headers=headers)
        assert response.json()["choices"]

    return post


async def measure(base_url: str, calls: int, rounds: int) -> Rates:
    bodies = await record_bodies(make_cases(calls))
    asked = calls * (rounds + 1)
    questions = [make_cases(asked, first=calls + number * asked) for number in range(3)]
    plain = DirectJudge(OpenAIModel("tiny", base_url=base_url))
    redacted = DirectJudge(OpenAIModel("tiny", base_url=base_url, redactor=Redactor()))
    paid = DirectJudge(OpenAIModel("tiny", base_url=base_url, redactor=Redactor(), price=PRICE))
    clients = [local_http.async_client() for _ in range(1 + IN_FLIGHT)]
    async with open_purse(COMMIT_SECONDS) as purse:
        ways: dict[str, Call] = {
            PLAIN: through_layer(plain, questions[0]),
            REDACTED: through_layer(redacted, questions[1]),
            PAID: through_layer(paid, questions[2], purse),
            BARE: through_httpx(clients[:1], base_url, bodies),
            BEST: through_httpx(clients[1:], base_url, bodies),
        }
        rates = await take_turns(ways, calls, rounds)
    for judge in (plain, redacted, paid):
        await judge.aclose()
    for client in clients:
        await client.aclose()
    return rates


async def take_turns(ways: dict[str, Call], calls: int, rounds: int) -> Rates:
    rates: Rates = {way: [] for way in ways}
    for call in ways.values():
        await make_calls(call, calls)  # warm up
    for _ in range(rounds):
        for way, call in ways.items():
            rates[way].append(await time_calls(call, calls))
    return rates


# The report


def report(rates: Rates, title: str) -> None:
    caption = f"wanted of the model layer: {WANTED_RATE} calls/s and a ratio of {WANTED_RATIO}"
    columns = ("way", "calls/s of one core", "calls/s on the clock", "ratio to one client", "to a client for each")
    table = Table(*columns, title=title, caption=caption)
    for way, rounds in rates.items():
        core, clock = (median(pair[place] for pair in rounds) for place in (0, 1))
        ratios = [] if way in (BARE, BEST) else [compare(rounds, rates[bare]) for bare in (BARE, BEST)]
        table.add_row(way, f"{core:,.0f}", f"{clock:,.0f}", *(f"{ratio:.2f}" for ratio in ratios))
    Console(width=130).print(table)


def compare(rounds: list[tuple[float, float]], bare: list[tuple[float, float]]) -> float:
    """Return the median ratio of processor times per round, so that other work on the machine affects both alike."""
    return median(own[0] / other[0] for own, other in zip(rounds, bare, strict=True))


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve())
        return
    calls, rounds = (SHORT_CALLS, SHORT_ROUNDS) if options.short else (CALLS, ROUNDS)
    with endpoint() as base_url:
        rates = asyncio.run(measure(base_url, calls, rounds))
    report(rates, f"{rounds} rounds of {calls:,} calls, {IN_FLIGHT} in flight, medians")


if __name__ == "__main__":
    main()
