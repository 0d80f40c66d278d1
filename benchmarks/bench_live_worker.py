"""Measures a live worker against an endpoint: processor time per call, and the share of the endpoint's places in use.

    broker ── a worker process, six criteria ── HTTP ── an endpoint process

The endpoint answers immediately (what does a call cost?) or after 200 ms (are its 64 places used?). A bare httpx loop
makes the same calls in the same run, with a client for each place. Only the steady part counts, from a tenth of the
records to nine tenths. The broker is a real Kafka if there is one, and otherwise the embedded one.

    PYTHONPATH=. python benchmarks/bench_live_worker.py
"""

import argparse
import asyncio
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain

import httpx
from rich.console import Console
from rich.table import Table

from benchmarks.common import argument_parser, create_topics, write_records
from benchmarks.fast_endpoint import labels_in, make_response, run_endpoint
from judges import DirectJudge, Interaction, OpenAIModel, case_of
from judges.values.interaction import Context
from sinks.metrics import Outcome, Stage
from stream.cli.demo import load_corpus
from stream.config.model import Config
from stream.config.sections.criteria import CriteriaConfig
from stream.kafka.embedded import EmbeddedBroker
from stream.service.service import Service, relax_collector
from stream.service.setup.criteria_files import load_chosen_criteria
from tests.parts import local_http
from tests.parts.kafka import KafkaBroker, why_unavailable

CRITERIA = ("rag",)
PLACES = 64
SLOW_SECONDS = 0.2
RECORDS, SHORT_RECORDS = {0.0: 1_500, SLOW_SECONDS: 1_500}, {0.0: 20, SLOW_SECONDS: 30}
PASSAGES, PASSAGE_WORDS, ANSWER_WORDS = 5, 200, 80
WANTED_MS, WANTED_SHARE = 1.2, 0.95
_LOOK_SECONDS = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The steady part of a run."""

    calls: int
    processor_seconds: float
    seconds: float

    @property
    def milliseconds_per_call(self) -> float:
        return 1000 * self.processor_seconds / self.calls

    @property
    def rate(self) -> float:
        return self.calls / self.seconds


def make_config(bootstrap: str, base_url: str) -> Config:
    judge = {"kind": "openai", "name": "fast", "model": "fast", "base_url": base_url, "limits": {"concurrency": PLACES}}
    return Config.model_validate(
        {
            "kafka": {"bootstrap": bootstrap},
            "criteria": {"use": CRITERIA},
            "judges": {"panel": [judge]},
            "worker": {"instance": "bench", "concurrency": PLACES},
            "http": {"port": 0},
        }
    )


def make_interactions(count: int) -> Iterator[Interaction]:
    """Generate different interactions with about a thousand words of passages each."""
    english = (group for group in load_corpus().groups if group.language == "en")
    words = " ".join(passage.text for group in english for passage in group.contexts).split()
    choose = random.Random(1)
    for number in range(count):
        passages = [" ".join(choose.choices(words, k=PASSAGE_WORDS)) for _ in range(PASSAGES)]
        yield Interaction(
            id=f"live-{number}",
            question=f"{' '.join(choose.choices(words, k=15))}?",
            answer=" ".join(choose.choices(words, k=ANSWER_WORDS)),
            contexts=tuple(Context(text=text) for text in passages),
            app="bench",
        )


# The worker's process


def run_worker(bootstrap: str, base_url: str, records: int) -> None:
    """Judge the records in this process, and print the measurements as one line of JSON."""
    relax_collector()  # as `streamjury worker` does
    calls = len(load_chosen_criteria(make_config(bootstrap, base_url).criteria))
    begun = 0.0, time.process_time(), time.perf_counter()
    with Service(make_config(bootstrap, base_url), [Stage.WORKER]) as service:
        started = wait_for(service, records // 10)
        ended = wait_for(service, records * 9 // 10)
        wait_for(service, records)
        if service.metrics.read_count(Stage.WORKER, Outcome.SCORED) != records:
            sys.exit("some records have no score")
    if ended[0] == started[0]:  # the few records of the short form were all finished between two looks
        started = begun
    finished, processor, clock = (after - before for before, after in zip(started, ended, strict=True))
    print(json.dumps({"calls": calls * finished, "processor_seconds": processor, "seconds": clock}), flush=True)


def wait_for(service: Service, records: int) -> tuple[float, float, float]:
    """Wait until this many records are finished; return how many are, the processor time and the clock."""
    while (finished := service.metrics.read_count(Stage.WORKER, Outcome.CONSUMED)) < records:
        service.check()
        time.sleep(_LOOK_SECONDS)
    return finished, time.process_time(), time.perf_counter()


def measure_worker(broker: EmbeddedBroker | KafkaBroker, base_url: str, interactions: list[Interaction]) -> Measured:
    """Write the records to the broker, and return the measurements of a worker process that judges them."""
    config = make_config(broker.bootstrap, base_url)
    create_topics(broker, config)
    records = ((interaction.id, interaction.model_dump_json().encode()) for interaction in interactions)
    write_records(broker.bootstrap, config.topics.sampled, records)
    command = [sys.executable, __file__, "--child", broker.bootstrap, base_url, str(len(interactions))]
    worker = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return Measured(**json.loads(worker.stdout.splitlines()[-1]))


# Bare httpx


async def record_bodies(interactions: list[Interaction]) -> list[bytes]:
    """Return the request bodies that the worker sends."""
    bodies: list[bytes] = []

    def keep_body(request: httpx.Request) -> httpx.Response:
        bodies.append(request.content)
        return httpx.Response(200, content=make_response(labels_in(request.content)).partition(b"\r\n\r\n")[2])

    judge = DirectJudge(OpenAIModel("fast", base_url="http://test/v1", transport=httpx.MockTransport(keep_body)))
    for interaction in interactions:
        for criterion in load_chosen_criteria(CriteriaConfig(use=CRITERIA)).values():
            await judge.judge(case_of(interaction), criterion)
    await judge.aclose()
    return bodies


async def post_bodies(base_url: str, bodies: list[bytes]) -> Measured:
    """Make the same calls with httpx alone, with a client for each place."""
    remaining, finished = iter(bodies), 0
    marks: dict[int, tuple[float, float]] = dict.fromkeys((len(bodies) // 10, len(bodies) * 9 // 10), (0.0, 0.0))

    async def keep_posting(client: httpx.AsyncClient) -> None:
        nonlocal finished
        for body in remaining:
            response = await client.post(
                f"{base_url}/chat/completions", content=body, headers={"Content-Type": "application/json"}
            )
            assert response.json()["choices"]
            finished += 1
            if finished in marks:
                marks[finished] = time.process_time(), time.perf_counter()

    # httpx gives up after 5 s by default, too soon on a busy machine.
    clients = [local_http.async_client(timeout=None) for _ in range(PLACES)]
    await asyncio.gather(*map(keep_posting, clients))
    for client in clients:
        await client.aclose()
    (first, started), (last, ended) = marks.items()
    return Measured(calls=last - first, processor_seconds=ended[0] - started[0], seconds=ended[1] - started[1])


# The report


def measure(records_by_seconds: Mapping[float, int], *, embedded: bool) -> dict[float, dict[str, Measured]]:
    """Measure the worker and bare httpx against the fast and the slow endpoint."""
    measured: dict[float, dict[str, Measured]] = {}
    for seconds, records in records_by_seconds.items():
        interactions = list(make_interactions(records))
        bodies = asyncio.run(record_bodies(interactions))
        with ExitStack() as stack:
            base_url = stack.enter_context(run_endpoint(seconds)).base_url
            real = not embedded and why_unavailable() is None
            broker: EmbeddedBroker | KafkaBroker = KafkaBroker(for_speed=True) if real else EmbeddedBroker()
            stack.enter_context(broker)
            kind = "real Kafka" if real else "embedded broker"
            measured[seconds] = {
                f"a worker, {kind}": measure_worker(broker, base_url, interactions),
                "bare httpx, a client for each place": asyncio.run(post_bodies(base_url, bodies)),
            }
    return measured


def report(measured: dict[float, dict[str, Measured]]) -> None:
    columns = ("endpoint answers", "asked by", "ms of CPU a call", "calls/s", "evaluations/s", "share of ideal")
    caption = f"wanted of the worker on idle cores: {WANTED_MS:g} ms a call, and {WANTED_SHARE:.0%} of {PLACES} places"
    table = Table(*columns, title=f"six criteria, about a thousand words each, {PLACES} places", caption=caption)
    calls = len(load_chosen_criteria(CriteriaConfig(use=CRITERIA)))
    for seconds, way, run in chain.from_iterable(
        ((seconds, way, run) for way, run in runs.items()) for seconds, runs in measured.items()
    ):
        when = f"after {1000 * seconds:g} ms" if seconds else "at once"
        share = f"{run.rate * seconds / PLACES:.1%}" if seconds else ""
        cost = f"{run.milliseconds_per_call:.2f}"
        table.add_row(when, way, cost, f"{run.rate:,.0f}", f"{run.rate / calls:,.1f}", share)
    Console(width=120).print(table)


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--records", type=int, help="records for each endpoint (default: 1,500, or 20 to 30)")
    parser.add_argument(
        "--embedded", action="store_true", help="use the embedded broker, even if there is a real Kafka"
    )
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        bootstrap, base_url, records = options.child
        run_worker(bootstrap, base_url, int(records))
        return
    records_by_seconds = SHORT_RECORDS if options.short else RECORDS
    if options.records:
        records_by_seconds = dict.fromkeys(records_by_seconds, options.records)
    report(measure(records_by_seconds, embedded=options.embedded or options.short))


if __name__ == "__main__":
    main()
