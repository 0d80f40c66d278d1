"""An endpoint that accepts few concurrent calls: records wait for it without timing out, and are released at a stop."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from sinks.metrics import Stage
from stream.config.model import Config
from stream.kafka.embedded import EmbeddedBroker
from stream.service.service import Service
from tests.integration.pipeline import produce_all, read_all, read_json, wait_until
from tests.parts.endpoints.judge_endpoint import Body, JudgeEndpoint, Response, best_verdict
from tests.parts.patience import patience

CRITERIA = 6


def answer_after(seconds: float) -> Callable[[Body], Response]:
    return lambda body: replace(best_verdict(body), delay=seconds)


@pytest.fixture
def slow() -> Iterator[JudgeEndpoint]:
    with JudgeEndpoint(answer_after(0.4)) as endpoint:
        yield endpoint


def service_on(broker: EmbeddedBroker, endpoint: JudgeEndpoint, *, at_once: int, **worker: Any) -> Service:
    judge = {"kind": "openai", "name": "slow", "model": "m", "base_url": endpoint.base_url}
    config = {
        "kafka": {"bootstrap": broker.bootstrap},
        "sampling": {"rate": 1.0},
        "http": {"port": 0},
        "criteria": {"use": ["rag"]},
        "judges": {"panel": [{**judge, "limits": {"concurrency": at_once}}]},
        "worker": worker,
    }
    return Service(Config.model_validate(config), [Stage.SAMPLER, Stage.WORKER])


def send(broker: EmbeddedBroker, count: int) -> None:
    """Write distinct records, so that no verdict comes from the cache."""
    records = [
        {
            "id": f"i-{number}",
            "question": f"When is shop {number} open?",
            "answer": "Now.",
            "contexts": [{"text": "Now."}],
        }
        for number in range(count)
    ]
    produce_all(broker.bootstrap, "rag.interactions", ({"key": r["id"], "value": json.dumps(r)} for r in records))


def count_evaluated(broker: EmbeddedBroker) -> Counter[str]:
    return Counter(evaluation["interaction_id"] for evaluation in read_json(broker.bootstrap, "rag.evaluations"))


@pytest.mark.slow
def test_no_record_runs_out_of_time_while_its_calls_wait_for_their_turn(
    embedded_broker: EmbeddedBroker, slow: JudgeEndpoint
) -> None:
    """The calls of all records take more than twice the deadline of one record."""
    count = 16
    send(embedded_broker, count)
    with service_on(embedded_broker, slow, at_once=4, deadline_seconds=min(25.0, 4.0 * patience()), stall_seconds=30):
        wait_until(
            lambda: len(count_evaluated(embedded_broker)) == count, seconds=90, what="not all records are judged"
        )
    evaluations = read_json(embedded_broker.bootstrap, "rag.evaluations")
    assert {dimension["status"] for evaluation in evaluations for dimension in evaluation["dimensions"].values()} == {
        "scored"
    }
    assert not read_all(embedded_broker.bootstrap, "rag.retry.1")
    assert len(slow.calls) == count * CRITERIA, "nothing was asked twice"


@pytest.mark.slow
def test_a_stopping_worker_leaves_waiting_records_and_another_judges_them(
    embedded_broker: EmbeddedBroker, slow: JudgeEndpoint
) -> None:
    count = 24
    slow.respond = answer_after(0.5)
    send(embedded_broker, count)
    service = service_on(embedded_broker, slow, at_once=1, drain_seconds=45)
    with service:
        wait_until(lambda: len(count_evaluated(embedded_broker)) >= 1, seconds=60, what="no record is judged")
        before = len(slow.calls)
        started = time.monotonic()
    # All of them would take more than a minute, those in flight a few seconds.
    assert len(slow.calls) - before <= 4 * CRITERIA
    assert time.monotonic() - started < 40 * patience()
    remaining = count - len(count_evaluated(embedded_broker))
    assert remaining > count / 2
    slow.respond = best_verdict
    with service_on(embedded_broker, slow, at_once=64):
        wait_until(
            lambda: len(count_evaluated(embedded_broker)) == count, seconds=60, what="not all records are judged"
        )
    assert set(count_evaluated(embedded_broker).values()) == {1}
