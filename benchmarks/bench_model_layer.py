"""What the model layer costs: judge calls per second and core, beside a bare httpx loop with the same requests.

    DirectJudge ── EndpointModel ── httpx ── an endpoint in a process of its own that answers at once

Both run in one process by turns; the time is the processor time of that process, so that neither the endpoint nor other
work on the machine counts. The ratio is what matters, the rates depend on the machine.

    make bench
"""

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

from judges import Case, DirectJudge, Interaction, OpenAIModel, case_of, load_catalogue
from judges.evaluation import Status
from judges.interaction import Context

CALLS = 1_000
ROUNDS = 5
IN_FLIGHT = 16
WANTED_RATE = 400
WANTED_RATIO = 0.6

LAYER = "DirectJudge through the model layer"
BARE = "bare httpx, one client"
BEST = "bare httpx, a client for each of those in flight"

CRITERION = load_catalogue()["clarity"]

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
                answer=f"The warranty of model {number} lasts two years from the day of purchase.",
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


async def measure(base_url: str) -> dict[str, list[tuple[float, float]]]:
    questions = cases()
    bodies = await recorded(questions)
    judge = DirectJudge(OpenAIModel("tiny", base_url=base_url))
    url, headers = f"{base_url}/chat/completions", {"Content-Type": "application/json"}
    shared, own = httpx.AsyncClient(), [httpx.AsyncClient() for _ in range(IN_FLIGHT)]

    async def ask(number: int, _: int) -> None:
        verdict = await judge.judge(questions[number], CRITERION)
        assert verdict.status is Status.SCORED, verdict.detail

    async def post(client: httpx.AsyncClient, number: int) -> None:
        response = await client.post(url, content=bodies[number], headers=headers)
        assert response.json()["choices"]

    ways: dict[str, Call] = {
        LAYER: ask,
        BARE: lambda number, _: post(shared, number),
        BEST: lambda number, caller: post(own[caller], number),
    }
    found: dict[str, list[tuple[float, float]]] = {what: [] for what in ways}
    for call in ways.values():
        await at_once(call)
    for _ in range(ROUNDS):
        for what, call in ways.items():
            found[what].append(await timed(call))
    await judge.aclose()
    for client in (shared, *own):
        await client.aclose()
    return found


def main() -> None:
    with endpoint() as base_url:
        found = asyncio.run(measure(base_url))
    title = f"{ROUNDS} rounds of {CALLS} calls, {IN_FLIGHT} in flight, medians"
    caption = f"wanted of the model layer: {WANTED_RATE} calls/s and a ratio of {WANTED_RATIO}"
    table = Table("what", "calls/s of one core", "calls/s on the clock", "ratio", title=title, caption=caption)
    for what, rounds in found.items():
        rate, clock = (median(each[place] for each in rounds) for place in (0, 1))
        ratio = median(layer[0] / other[0] for layer, other in zip(found[LAYER], rounds, strict=True))
        table.add_row(what, f"{rate:,.0f}", f"{clock:,.0f}", "" if what == LAYER else f"{ratio:.2f}")
    Console().print(table)


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        asyncio.run(serve())
    else:
        main()
