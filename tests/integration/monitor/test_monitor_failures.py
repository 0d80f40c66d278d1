"""A monitor that cannot continue ends promptly with the reason, whatever it has not acknowledged."""

import threading
import time
from collections.abc import Mapping

import pytest
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
from tests.integration.pipeline import produce_all
from tests.parts.patience import patience
from tests.stream.cli.terminal.test_run_summary import evaluation


def run_until_error(bootstrap: str) -> BaseException | None:
    """Return the error that ends a monitor after it received an evaluation; this must not take a minute."""
    config = Config.model_validate({"kafka": {"bootstrap": bootstrap}})
    registry = CollectorRegistry()
    monitor = Monitor(config.monitor, PipelineMetrics(registry), score_metrics(config, registry))
    stage, stop, errors = MonitorStage(config, monitor, DetectionMetrics(registry)), threading.Event(), []

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
