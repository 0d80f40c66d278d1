"""What the worker's bookkeeping costs: records judged per second with it, and by the bare evaluator without it.

Both judge the same records with the local judge in one run; the ratio is what counts, the rates depend on the machine.

    make bench
"""

import asyncio
import json
import time
from datetime import UTC, datetime

from confluent_kafka import Producer
from rich.console import Console
from rich.table import Table

from judges import Evaluator, Submission
from judges.evaluation import Sampling
from sinks.metrics import Outcome, Stage
from stream.assembly import build_evaluator
from stream.config import Config
from stream.embedded import EmbeddedBroker
from stream.reading import InteractionReader
from stream.service import Service
from stream.traffic import generate, load_corpus, plan

RECORDS = 2_000
DEADLINE = 45.0


def records() -> list[bytes]:
    traffic = generate(load_corpus(), plan("healthy", seconds=60), seed=1)
    return [traffic.record(number / 100, datetime.now(UTC)).value for number in range(RECORDS)]


async def judge_bare(evaluator: Evaluator, reader: InteractionReader, values: list[bytes]) -> None:
    for value in values:
        submission = Submission(interaction=reader.read(value).interaction, sampling=Sampling())
        evaluation = await evaluator.evaluate(submission, deadline=DEADLINE, on_unsafe=lambda _notice: None)
        evaluation.model_dump_json()


def bare(values: list[bytes]) -> float:
    config = Config()
    evaluator, reader = build_evaluator(config), InteractionReader(config.input)
    started = time.perf_counter()
    asyncio.run(judge_bare(evaluator, reader, values))
    return len(values) / (time.perf_counter() - started)


def streamed(values: list[bytes]) -> float:
    with EmbeddedBroker() as broker:
        broker.make_topics(["rag.sampled", "rag.evaluations", "rag.critical", "rag.deadletter"])
        producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        for value in values:
            producer.produce("rag.sampled", key=json.loads(value)["id"], value=value)
        producer.flush()
        config = Config.model_validate({"kafka": {"bootstrap": broker.bootstrap}, "http": {"port": 0}})
        with Service(config, [Stage.WORKER]) as service:
            while not service.metrics.counted(Stage.WORKER, Outcome.CONSUMED):
                service.check()
                time.sleep(0.005)
            first = service.metrics.counted(Stage.WORKER, Outcome.CONSUMED)
            started = time.perf_counter()
            while service.metrics.counted(Stage.WORKER, Outcome.CONSUMED) < len(values):
                service.check()
                time.sleep(0.02)
            return (len(values) - first) / (time.perf_counter() - started)


def main() -> None:
    values = records()
    bare(values[:100])
    without, with_worker = bare(values), streamed(values)
    table = Table("what", "records/s", title=f"{RECORDS} records, six dimensions each, local judge")
    table.add_row("the evaluator alone", f"{without:,.0f}")
    table.add_row("the worker on the embedded broker", f"{with_worker:,.0f}")
    table.add_row("ratio", f"{with_worker / without:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
