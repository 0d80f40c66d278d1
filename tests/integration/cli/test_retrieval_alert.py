"""From bad retrieval to its explanation: the demo's regime raises an alert, and `alerts explain` names retrieval.

The records are those of the demo, judged by the local judge, watched as the monitor watches them, and published on a
broker for the command.
"""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner

from judges.evaluator import Submission
from judges.values.evaluation import Evaluation, Sampling
from judges.values.interaction import Interaction
from sinks.topics.results import EvaluationTopic
from stream.cli.demo import Regime, load_corpus, make_record
from stream.cli.main import main
from stream.config.model import Config
from stream.kafka.embedded import EmbeddedBroker
from stream.monitor.alerts.alert import Alert
from stream.monitor.alerts.plan import WatchPlan
from stream.monitor.alerts.score_record import ScoreRecord, Source
from stream.monitor.alerts.watch.partition import PartitionWatch
from stream.monitor.detection import EventKind
from stream.service.setup.evaluator import build_evaluator
from tests.integration.pipeline import produce_all

pytestmark = pytest.mark.slow

APP = "support-bot"
HEALTHY, BAD = 120, 80
EVERY = timedelta(seconds=30)
BEGIN = datetime(2026, 11, 15, tzinfo=UTC)
CONFIG = Config.model_validate(
    {"judges": {"panel": [{"kind": "local"}]}, "detection": {"targets": {"groundedness": 0.85}}}
)


def interactions(bad: Regime) -> Iterator[Interaction]:
    """Yield healthy records of one app, and then records of the regime."""
    corpus, rng = load_corpus(), Random(4)
    groups = [group for group in corpus.groups if group.app == APP]
    for number in range(HEALTHY + BAD):
        regime = Regime.HEALTHY if number < HEALTHY else bad
        record = make_record(corpus, rng.choice(groups), regime, rng, BEGIN + number * EVERY)
        yield Interaction.model_validate_json(record.value)


async def judge_all(records: Iterator[Interaction]) -> list[Evaluation]:
    evaluator, evaluations = build_evaluator(CONFIG), list[Evaluation]()
    for number, interaction in enumerate(records):
        submission = Submission(interaction=interaction, sampling=Sampling())
        judged = await evaluator.evaluate(submission, deadline=None, on_unsafe=lambda _: None)
        evaluations.append(judged.model_copy(update={"evaluated_at": BEGIN + number * EVERY}))
    await evaluator.aclose()
    return evaluations


def watch_all(evaluations: list[Evaluation]) -> list[Alert]:
    watch, alerts = PartitionWatch(WatchPlan(CONFIG), 0), list[Alert]()
    now = (BEGIN + len(evaluations) * EVERY).timestamp()
    for offset, evaluation in enumerate(evaluations):
        record = ScoreRecord.of(evaluation, Source(partition=0, offset=offset), now=now)
        assert record is not None
        alerts += watch.observe(record)
    return alerts


def explain(bootstrap: str, prefix: str, evaluations: list[Evaluation], alerts: list[Alert]) -> str:
    topic = EvaluationTopic(f"{prefix}-evaluations")
    messages = [message for evaluation in evaluations for message in topic.messages(evaluation)]
    produce_all(
        bootstrap, f"{prefix}-evaluations", [{"key": message.key, "value": message.value} for message in messages]
    )
    published = [
        {"key": alert.key.encode(), "value": alert.model_dump_json(exclude_none=True).encode()} for alert in alerts
    ]
    produce_all(bootstrap, f"{prefix}-alerts", published)
    environment = {
        "STREAMJURY__KAFKA__BOOTSTRAP": bootstrap,
        "STREAMJURY__TOPICS__ALERTS": f"{prefix}-alerts",
        "STREAMJURY__TOPICS__EVALUATIONS": f"{prefix}-evaluations",
        "COLUMNS": "250",
    }
    result = CliRunner(env=environment).invoke(main, ["alerts", "explain", alerts[0].alert_id])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


@pytest.mark.parametrize(
    ("regime", "fault", "other"),
    [(Regime.BAD_RETRIEVAL, "retrieval", "generation"), (Regime.HALLUCINATING, "generation", "retrieval")],
)
def test_the_alert_is_explained_by_the_fault_of_the_regime(
    broker: EmbeddedBroker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    regime: Regime,
    fault: str,
    other: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STREAMJURY_CONFIG", raising=False)
    evaluations = asyncio.run(judge_all(interactions(regime)))
    alerts = [alert for alert in watch_all(evaluations) if alert.series.dimension == "groundedness"]
    assert [alert.kind for alert in alerts][:1] == [EventKind.RAISED]
    assert alerts[0].series.app == APP
    assert alerts[0].at >= (BEGIN + HEALTHY * EVERY)
    output = explain(broker.bootstrap, fault, evaluations, alerts)
    assert f"The fall is in {fault}" in output, output
    assert f"The fall is in {other}" not in output
    assert "retrieval and in generation" not in output
