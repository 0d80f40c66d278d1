"""A monitor that cannot continue ends promptly with the reason; one that joined too early gets its partitions soon."""

import gc
import threading
import time
import weakref
from collections.abc import Mapping
from typing import Any
from unittest.mock import Mock

import pytest
from confluent_kafka import ConsumerGroupState
from confluent_kafka.admin import AdminClient
from prometheus_client import CollectorRegistry

from sinks.metrics import DetectionMetrics, PipelineMetrics
from sinks.topics.results import EvaluationTopic
from stream.config.model import Config
from stream.errors import StageError
from stream.kafka.embedded import EmbeddedBroker
from stream.monitor.alerts.agent import AlertAgent
from stream.monitor.alerts.store import AlertStore, Changes
from stream.monitor.stage import MonitorStage
from stream.monitor.state import Monitor
from stream.service.service import score_metrics
from tests.integration.pipeline import produce_all, topic_names, wait_until
from tests.parts.kafka import KafkaBroker
from tests.parts.patience import patience
from tests.stream.cli.terminal.test_run_summary import evaluation


def make_stage(config: Config) -> MonitorStage:
    registry = CollectorRegistry()
    monitor = Monitor(config.monitor, PipelineMetrics(registry), score_metrics(config, registry))
    return MonitorStage(config, monitor, DetectionMetrics(registry))


def run_until_error(bootstrap: str) -> BaseException | None:
    """Return the error that ends a monitor after it received an evaluation; this must not take a minute."""
    config = Config.model_validate({"kafka": {"bootstrap": bootstrap}})
    stage, stop, errors = make_stage(config), threading.Event(), []

    def run() -> None:
        try:
            stage.run(stop)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    for message in EvaluationTopic(config.topics.evaluations).messages(evaluation(0.5, "shop")):
        produce_all(bootstrap, message.topic, [{"key": message.key, "value": message.value}])
    deadline = time.monotonic() + 60 * patience()
    while thread.is_alive() and time.monotonic() < deadline:
        thread.join(0.2)
    assert not thread.is_alive(), "it hangs"
    return errors[0] if errors else None


def run_until_assigned(config: Config) -> None:
    stage, stop = make_stage(config), threading.Event()
    thread = threading.Thread(target=stage.run, args=[stop])
    thread.start()
    try:
        wait_until(lambda: stage.assigned, seconds=30, what="it has partitions")
    finally:
        stop.set()
        thread.join()


def test_nothing_of_an_ended_one_remains(embedded_broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Faust kept the handlers of every app, with its agent and the threads of its clients."""
    agents = []

    def make_agent(*arguments: Any, **options: Any) -> AlertAgent:
        agent = AlertAgent(*arguments, **options)
        agents.append(weakref.ref(agent))
        return agent

    monkeypatch.setattr("stream.monitor.stage.AlertAgent", make_agent)
    run_until_assigned(Config.model_validate({"kafka": {"bootstrap": embedded_broker.bootstrap}}))
    gc.collect()
    assert [agent() for agent in agents] == [None]


@pytest.mark.slow
def test_an_agent_that_fails_ends_it(embedded_broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(_self: AlertAgent, _event: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(AlertAgent, "observe", fail)
    error = run_until_error(embedded_broker.bootstrap)
    assert isinstance(error, StageError)
    assert "a defect" in str(error)


@pytest.mark.slow
def test_states_that_are_refused_end_it(embedded_broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_self: AlertStore, changes: Mapping[int, Changes]) -> dict[int, str]:
        if any(change.states for change in changes.values()):
            raise StageError("cannot publish alerts: too large")
        return {}

    monkeypatch.setattr(AlertStore, "publish", refuse)
    error = run_until_error(embedded_broker.bootstrap)
    assert isinstance(error, StageError)
    assert "too large" in str(error)


@pytest.mark.slow
def test_one_that_joined_before_the_broker_knew_its_topic_gets_the_partitions(real_kafka: KafkaBroker) -> None:
    """A broker that has just restarted may list no topics. By default, clients ask again after five minutes."""
    names = topic_names("late")
    real_kafka.create_topics(names["deadletter"])
    config = Config.model_validate(
        {
            "kafka": {"bootstrap": real_kafka.bootstrap},
            "topics": names,
            "monitor": {"group": "late"},
            "detection": {"enabled": False},
        }
    )
    stage, stop = make_stage(config), threading.Event()
    thread = threading.Thread(target=stage.run, args=[stop], daemon=True)
    thread.start()
    try:
        wait_until(lambda: has_joined(real_kafka.bootstrap, "late"), seconds=30, what="the monitor joins its group")
        assert not stage.assigned
        real_kafka.create_topics(names["evaluations"])
        wait_until(lambda: stage.assigned, seconds=60, what="the monitor has partitions")
    finally:
        stop.set()
        thread.join(60 * patience())
    assert not thread.is_alive()


def test_asking_for_its_partitions_does_not_touch_the_app() -> None:
    """The app makes its consumer when it is first asked for: two threads at once would make two, and lose one."""
    stage = make_stage(Config())
    stage._app = Mock(started=True)
    assert not stage.assigned
    assert stage._app.mock_calls == []


def has_joined(bootstrap: str, group: str) -> bool:
    """Return whether the group has got an assignment, which may be empty."""
    client = AdminClient({"bootstrap.servers": bootstrap})
    described = client.describe_consumer_groups([group])[group].result(30 * patience())
    return bool(described.state == ConsumerGroupState.STABLE)
