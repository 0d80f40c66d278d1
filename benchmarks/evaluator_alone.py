"""The evaluator alone, in one process and in memory: the baseline for everything built around it."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from judges import Submission
from judges.values.evaluation import Sampling
from stream.cli.demo import generate, load_corpus, plan
from stream.config.model import Config
from stream.records.reading import InteractionReader
from stream.service.setup.evaluator import build_evaluator

DEADLINE_SECONDS = 45.0
WARM_UP_RECORDS = 100


def generate_values(count: int) -> Iterator[bytes]:
    """Generate interactions of a healthy service, as JSON."""
    traffic = generate(load_corpus(), plan("healthy", seconds=60), seed=1)
    now = datetime.now(UTC)
    for number in range(count):
        yield traffic.record(number / 1_000, now).value


def measure_evaluator(values: Sequence[bytes]) -> float:
    """Return the records per second of the evaluator alone in one process, from JSON to JSON in memory."""
    config = Config.model_validate({"judges": {"panel": [{"kind": "local"}]}})
    evaluator, reader = build_evaluator(config), InteractionReader(config.input)

    async def judge(records: Sequence[bytes]) -> None:
        for value in records:
            submission = Submission(interaction=reader.read(value).interaction, sampling=Sampling())
            evaluation = await evaluator.evaluate(submission, deadline=DEADLINE_SECONDS, on_unsafe=lambda _notice: None)
            evaluation.model_dump_json()

    async def measure() -> float:
        await judge(values[:WARM_UP_RECORDS])
        started = time.perf_counter()
        await judge(values)
        return len(values) / (time.perf_counter() - started)

    return asyncio.run(measure())
