"""The same recorded input gives the same evaluations, metrics and rules, byte for byte.

A change that is meant to change results rewrites the files: `python tests/golden/test_golden.py`.
"""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest

from judges.evaluator import Evaluator, Submission
from judges.values.evaluation import Evaluation, Sampling
from sinks.metrics import Outcome, PipelineMetrics, Stage
from sinks.topics.results import EvaluationTopic
from stream.config.model import Config
from stream.records.reading import InteractionReader
from stream.service.service import score_metrics
from stream.service.setup.evaluator import build_evaluator
from tests.parts.rules import rules_of

HERE = Path(__file__).parent
INPUT = HERE / "interactions.jsonl"
EVALUATIONS = HERE / "evaluations.jsonl"
METRICS = HERE / "metrics.txt"
RULES = HERE / "rules.yml"

CONFIG = {
    # The local judge alone: the last digits of a model's probabilities differ from processor to processor.
    "judges": {"panel": [{"kind": "local"}]},
    "metrics": {"labels": ["model", "tenant"]},
    "objectives": {"apps": {"support-bot": {"good_score": 0.7, "target": 0.9}}},
}
# Times and durations differ from run to run, and the version from release to release.
_UNREPEATABLE = {
    "evaluated_at": "2026-01-01T00:00:00Z",
    "asked_at": "2026-01-01T00:00:00Z",
    "latency_ms": 1.0,
    "version": "0",
}


def evaluations() -> Iterator[Evaluation]:
    """Judges the recorded interactions with the local judge."""
    config = Config.model_validate(CONFIG)
    evaluator, reader = build_evaluator(config), InteractionReader(config.input)
    for number, line in enumerate(INPUT.read_bytes().splitlines()):
        reading = reader.read(line)
        sampling = Sampling(probability=1.0 if number % 3 else 0.25, rule="default", lane="main")
        submission = Submission(interaction=reading.interaction, sampling=sampling, truncated=reading.truncated)
        yield asyncio.run(_evaluate(evaluator, submission))


async def _evaluate(evaluator: Evaluator, submission: Submission) -> Evaluation:
    evaluation = await evaluator.evaluate(submission, deadline=30.0, on_unsafe=lambda _notice: None)
    return Evaluation.model_validate(_repeatable(json.loads(evaluation.model_dump_json())))


def _repeatable(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _UNREPEATABLE.get(name) or _repeatable(inner) for name, inner in value.items()}
    return [_repeatable(inner) for inner in value] if isinstance(value, list) else value


def evaluations_text() -> str:
    topic = EvaluationTopic("rag.evaluations")
    values = [message.value or b"" for evaluation in evaluations() for message in topic.messages(evaluation)]
    return "".join(f"{value.decode()}\n" for value in values)


def metrics_text() -> str:
    """Return the exposition after a worker and a monitor have counted the evaluations."""
    registry = CollectorRegistry()
    pipeline, scores = PipelineMetrics(registry), score_metrics(Config.model_validate(CONFIG), registry)
    for evaluation in evaluations():
        pipeline.count(Stage.WORKER, Outcome.SCORED)
        pipeline.count_evaluation(evaluation, published=True)
        scores.write([evaluation])
    lines = generate_latest(registry).decode().splitlines(keepends=True)
    return "".join(line for line in lines if not re.match(r"(# (HELP|TYPE) )?\S+_created\b", line))


def rules_text() -> str:
    return rules_of(Config.model_validate(CONFIG)).text()


def test_recorded_interactions_get_the_same_evaluations() -> None:
    assert evaluations_text() == EVALUATIONS.read_text(encoding="utf-8")


def test_the_same_evaluations_give_the_same_metrics() -> None:
    assert metrics_text() == METRICS.read_text(encoding="utf-8")


def test_the_same_configuration_gives_the_same_rules() -> None:
    assert rules_text() == RULES.read_text(encoding="utf-8")


if __name__ == "__main__":
    EVALUATIONS.write_text(evaluations_text(), encoding="utf-8")
    METRICS.write_text(metrics_text(), encoding="utf-8")
    RULES.write_text(rules_text(), encoding="utf-8")
