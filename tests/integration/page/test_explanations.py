"""The page explains an alert as the command does, without making a request wait."""

import json
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from sqlalchemy import insert

from sinks.archive.database import Database
from sinks.archive.tables import alerts
from sinks.page.backend import AlertExplanation
from sinks.topics.results import EvaluationTopic
from stream.cli.main import main
from stream.config.model import Config
from stream.jobs import alert_explanation
from stream.kafka.embedded import EmbeddedBroker
from stream.monitor.alerts.alert import Alert, Series
from stream.monitor.detection import EventKind
from stream.page import explanations
from stream.page.explanations import AlertExplanations
from tests.integration.pipeline import produce_all, wait_until
from tests.parts.patience import patience
from tests.stream.monitor.explain.invented import alert, traffic

BOT = alert(series=Series(app="support-bot", dimension="groundedness"))


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


@pytest.fixture
def config(broker: EmbeddedBroker, tmp_path: Path) -> Config:
    prefix = uuid.uuid4().hex[:8]
    return Config.model_validate(
        {
            "kafka": {"bootstrap": broker.bootstrap},
            "topics": {name: f"{prefix}.{name}" for name in ("alerts", "evaluations")},
            "archive": {"url": f"sqlite:///{tmp_path}/archive.db"},
        }
    )


@pytest.fixture
def database(config: Config) -> Iterator[Database]:
    with Database(config.archive.url) as opened:
        yield opened


@pytest.fixture
def explainer(config: Config, database: Database) -> Iterator[AlertExplanations]:
    with closing(AlertExplanations(config, database)) as opened:
        yield opened


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """An open gate; while it is closed, no explanation is finished."""
    gate, read = threading.Event(), alert_explanation.read_evaluation
    gate.set()

    def wait_and_read(*arguments: object, **options: object) -> object:
        assert gate.wait(30 * patience())
        return read(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(alert_explanation, "read_evaluation", wait_and_read)
    return gate


def announce(config: Config, *announced: Alert) -> None:
    records = [{"key": one.key.encode(), "value": one.model_dump_json().encode()} for one in announced]
    produce_all(config.kafka.bootstrap, config.topics.alerts, records)


def publish(config: Config) -> None:
    topic = EvaluationTopic(config.topics.evaluations)
    messages = [message for evaluation in traffic() for message in topic.messages(evaluation)]
    records: Iterable[dict[str, object]] = [{"key": message.key, "value": message.value} for message in messages]
    produce_all(config.kafka.bootstrap, config.topics.evaluations, records)


def wait_for_explanation(explainer: AlertExplanations, alert_id: str = BOT.alert_id) -> AlertExplanation:
    wait_until(lambda: not isinstance(explainer.explain(alert_id), str), seconds=30, what="it is explained")
    explanation = explainer.explain(alert_id)
    assert isinstance(explanation, AlertExplanation)
    return explanation


def test_the_page_says_what_the_command_says(config: Config, explainer: AlertExplanations) -> None:
    announce(config, BOT)
    publish(config)
    environment = {
        "STREAMJURY__KAFKA__BOOTSTRAP": config.kafka.bootstrap,
        "STREAMJURY__TOPICS__ALERTS": config.topics.alerts,
        "STREAMJURY__TOPICS__EVALUATIONS": config.topics.evaluations,
    }
    result = CliRunner(env=environment).invoke(main, ["alerts", "explain", "--json"])
    printed = json.loads(result.stdout)
    explanation = wait_for_explanation(explainer)
    assert list(explanation.sentences) == [*printed["announcement"], *printed["findings"], *printed["next_steps"]]
    assert any(BOT.series.dimension in sheet.title or sheet.rows for sheet in explanation.sheets)


def test_a_request_does_not_wait_for_a_long_reading(
    config: Config, explainer: AlertExplanations, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    announce(config, BOT)
    publish(config)
    gate.clear()
    monkeypatch.setattr(explanations, "_WAIT_SECONDS", 0.1)
    started = time.monotonic()
    first = explainer.explain(BOT.alert_id)
    assert time.monotonic() - started < 5.0 * patience()
    assert isinstance(first, str)
    assert first.startswith("Reading the evaluations around the onset")
    gate.set()
    assert wait_for_explanation(explainer).sentences


def test_it_is_read_once_for_all_who_ask_and_again_while_the_alert_is_open(
    config: Config, explainer: AlertExplanations, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    announce(config, BOT)
    publish(config)
    first = wait_for_explanation(explainer)
    assert explainer.explain(BOT.alert_id) is first
    monkeypatch.setattr(explanations, "_OPEN_SECONDS", 0.0)
    with closing(AlertExplanations(config, explainer._database)) as hurried:
        monkeypatch.setattr(explanations, "_WAIT_SECONDS", 30 * patience())
        old = wait_for_explanation(hurried)
        announce(config, BOT.model_copy(update={"kind": EventKind.UPDATED, "at": BOT.at + timedelta(hours=1)}))
        monkeypatch.setattr(explanations, "_WAIT_SECONDS", 0.0)
        gate.clear()
        assert hurried.explain(BOT.alert_id) is old, "until the new one is there, the old one is shown"
        gate.set()
        wait_until(lambda: hurried.explain(BOT.alert_id) is not old, seconds=30, what="the new one is there")
        assert not isinstance(hurried.explain(BOT.alert_id), str)


def test_an_alert_that_left_the_topic_is_found_in_the_archive(
    config: Config, database: Database, explainer: AlertExplanations
) -> None:
    publish(config)
    with database.write() as connection:
        row = {
            "alert_id": BOT.alert_id,
            "series_key": BOT.series.key,
            "app": BOT.series.app,
            "dimension": BOT.series.dimension,
            "subject": BOT.subject.value,
            "kind": BOT.kind.value,
            "raised_at": 0,
            "onset_at": 0,
            "at": 0,
            "record": BOT.model_dump_json(),
        }
        connection.execute(insert(alerts), [row])
    assert any("groundedness" in sentence for sentence in wait_for_explanation(explainer).sentences)


def test_what_cannot_be_explained_is_a_sentence(config: Config, database: Database) -> None:
    with closing(AlertExplanations(config, database)) as explainer:
        wait_until(lambda: "no alert" in str(explainer.explain("none")), seconds=30, what="it is looked for")
    away = config.model_copy(update={"kafka": config.kafka.model_copy(update={"bootstrap": "127.0.0.1:1"})})
    with closing(AlertExplanations(away, database)) as explainer:
        wait_until(lambda: "no Kafka broker" in str(explainer.explain("none")), seconds=60, what="it gives up")
