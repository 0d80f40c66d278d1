"""Records whose judges fail, records that come twice, and apps that flood the queue."""

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Producer
from prometheus_client import CollectorRegistry

from judges.composite import Item, MultiCriteria
from judges.criteria.catalogue import load_catalogue
from judges.criteria.criterion import SAFETY_DIMENSION, Criterion
from judges.evaluator import Evaluator
from judges.panel import Panel
from judges.scripted import Answer, ScriptedJudge
from judges.values.evaluation import Reason
from judges.values.interaction import Case
from sinks.metrics import Outcome, PipelineMetrics, Stage
from stream.config.model import Config
from stream.errors import StageError
from stream.jobs.audit.audit import audit
from stream.kafka.embedded import EmbeddedBroker
from stream.service.service import Service
from stream.worker.stage import Worker
from tests.integration.pipeline import (
    headers_of,
    produce_all,
    read_all,
    read_json,
    to_create,
    topic_names,
    wait_until,
)
from tests.parts.kafka import KafkaBroker
from tests.parts.patience import patience

SAFETY = load_catalogue("rag")[SAFETY_DIMENSION]


class Script:
    """A judge that fails a number of times for each interaction id, then answers safe."""

    def __init__(self, failures: dict[str, int] | None = None, seconds: float = 0.0) -> None:
        self._failures = failures or {}
        self._seconds = seconds
        self.asked: Counter[str] = Counter()
        self.order: list[str] = []

    async def __call__(self, case: Case, criterion: Criterion) -> Answer:
        self.asked[case.id] += 1
        self.order.append(case.id)
        await asyncio.sleep(self._seconds)
        if self.asked[case.id] <= self._failures.get(case.id, 0):
            return Reason.UNAVAILABLE
        return int(SAFETY.worst_first[-1].value or 0)


class Running:
    """A worker in a thread, and its counters."""

    def __init__(self, config: Config, script: Script) -> None:
        self.registry = CollectorRegistry()
        self.metrics = PipelineMetrics(self.registry)
        multi = MultiCriteria([Item(criterion=SAFETY, weight=1.0)], safety=SAFETY_DIMENSION)
        judge = ScriptedJudge(script)
        self._worker = Worker(config, Evaluator(multi, Panel(judges=[judge]), version="test"), self.metrics)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._worker.run, args=(self._stop,))

    def read_count(self, outcome: Outcome) -> int:
        return self.metrics.read_count(Stage.WORKER, outcome)

    def wait(self, **outcomes: int) -> None:
        def has_reached() -> bool:
            assert self._thread.is_alive()
            return all(self.read_count(Outcome(name)) >= number for name, number in outcomes.items())

        wait_until(has_reached, seconds=40, what=str(outcomes))

    def __enter__(self) -> "Running":
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join(30 * patience())
        assert not self._thread.is_alive()


@contextmanager
def working(broker: EmbeddedBroker, script: Script, **worker: Any) -> Iterator[Running]:
    config = Config.model_validate({"kafka": {"bootstrap": broker.bootstrap}, "worker": worker})
    with Running(config, script) as running:
        yield running


def send(
    broker: EmbeddedBroker | KafkaBroker,
    *ids: str,
    app: Callable[[str], str] = lambda _: "shop",
    answer: str = "a",
    topic: str = "rag.sampled",
) -> None:
    records = ({"id": id_, "app": app(id_), "question": "q", "answer": answer} for id_ in ids)
    produce_all(broker.bootstrap, topic, ({"key": r["id"], "value": json.dumps(r)} for r in records))


def evaluated_ids(broker: EmbeddedBroker) -> list[str]:
    return sorted(evaluation["interaction_id"] for evaluation in read_json(broker.bootstrap, "rag.evaluations"))


def test_a_record_whose_judges_fail_is_judged_again_later(embedded_broker: EmbeddedBroker) -> None:
    send(embedded_broker, "good", "once", "twice")
    script = Script({"once": 1, "twice": 2})
    with working(embedded_broker, script, retry_seconds=[0.5, 1.0]) as running:
        running.wait(scored=3, consumed=6)
        assert (running.read_count(Outcome.PARKED), running.read_count(Outcome.CONSUMED)) == (3, 6)
    assert evaluated_ids(embedded_broker) == ["good", "once", "twice"]
    assert script.asked == {"good": 1, "once": 2, "twice": 3}
    assert not read_all(embedded_broker.bootstrap, "rag.deadletter")


def test_after_the_last_attempt_it_is_dead_lettered_with_its_origin(embedded_broker: EmbeddedBroker) -> None:
    send(embedded_broker, "never")
    with working(embedded_broker, Script({"never": 99}), retry_seconds=[0.3, 0.3]) as running:
        running.wait(deadletter=1)
    [letter] = read_all(embedded_broker.bootstrap, "rag.deadletter")
    [sampled] = read_all(embedded_broker.bootstrap, "rag.sampled")
    headers = headers_of(letter)
    assert (letter.key(), letter.value()) == (sampled.key(), sampled.value())
    assert (headers["sj-error-type"], headers["sj-attempts"]) == ("unscored_judges_unavailable", "3")
    assert (headers["sj-source-topic"], headers["sj-source-partition"], headers["sj-source-offset"]) == (
        "rag.sampled",
        str(sampled.partition()),
        str(sampled.offset()),
    )
    assert "sj-retry-at" not in headers
    assert not read_all(embedded_broker.bootstrap, "rag.evaluations")


def test_a_record_waits_for_its_retry_without_blocking_others(embedded_broker: EmbeddedBroker) -> None:
    send(embedded_broker, "later")
    with working(embedded_broker, Script({"later": 1}), retry_seconds=[3600]) as running:
        running.wait(parked=1)
        send(embedded_broker, *(f"i-{number}" for number in range(50)))
        running.wait(scored=50)
    assert "later" not in evaluated_ids(embedded_broker)


def test_a_recently_judged_interaction_is_not_judged_again(embedded_broker: EmbeddedBroker) -> None:
    """Neither the second of two concurrent records nor a later one."""
    script = Script(seconds=0.2)
    send(embedded_broker, "a", "a", "b")
    with working(embedded_broker, script) as running:
        running.wait(scored=2, repeated=1)
        send(embedded_broker, "b")
        running.wait(repeated=2)
    assert evaluated_ids(embedded_broker) == ["a", "b"]
    assert script.asked == {"a": 1, "b": 1}


def test_different_content_with_the_same_id_is_judged_counted_and_logged(
    embedded_broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with working(embedded_broker, Script()) as running:
        for answer in ("first turn", "second turn", "second turn", "first turn"):
            send(embedded_broker, "session", answer=answer)
        running.wait(scored=2, repeated=2)
        assert running.registry.get_sample_value("streamjury_id_conflicts_total") == 1
    first, second = evaluated_ids(embedded_broker)
    assert (first, second.partition("#")[0]) == ("session", "session")
    [line] = [log_record.getMessage() for log_record in caplog.records if "other content" in log_record.getMessage()]
    assert "app shop" in line


@pytest.mark.slow
def test_contents_are_distinguished_across_a_restart_and_the_audit_balances(real_kafka: KafkaBroker) -> None:
    """On a real broker: the embedded one cannot list records written since a time."""
    topics = topic_names("contents")
    real_kafka.create_topics(*to_create(topics), partitions=2)
    config = Config.model_validate(
        {"kafka": {"bootstrap": real_kafka.bootstrap}, "topics": topics, "worker": {"group": "contents"}}
    )
    for answers, expected in ((("one", "two"), {"scored": 2}), (("two", "one", "three"), {"repeated": 2, "scored": 1})):
        for answer in answers:
            send(real_kafka, "session", answer=answer, topic=topics["sampled"])
        with Running(config, Script()) as running:
            running.wait(consumed=len(answers))
            assert {name: running.read_count(Outcome(name)) for name in expected} == expected
    evaluations = read_json(real_kafka.bootstrap, topics["evaluations"])
    assert len({evaluation["interaction_id"] for evaluation in evaluations}) == len(evaluations) == 3
    balance = audit(config, dict.fromkeys(to_create(topics), 2))
    assert (balance.balanced, balance.outcomes["scored"], balance.duplicates) == (True, 1, ())


@pytest.mark.slow
def test_a_worker_knows_evaluations_from_before_its_start(real_kafka: KafkaBroker) -> None:
    """On a real broker: the embedded one cannot list records written since a time."""
    topics = topic_names("known")
    real_kafka.create_topics(*to_create(topics), partitions=2)
    config = Config.model_validate(
        {"kafka": {"bootstrap": real_kafka.bootstrap}, "topics": topics, "worker": {"group": "known"}}
    )
    script = Script()
    for ids in (("a", "b"), ("a", "c")):
        send(real_kafka, *ids, topic=topics["sampled"])
        with Running(config, script) as running:
            running.wait(consumed=2)
    judged_ids = [evaluation["interaction_id"] for evaluation in read_json(real_kafka.bootstrap, topics["evaluations"])]
    assert sorted(judged_ids) == ["a", "b", "c"]
    assert script.asked == {"a": 1, "b": 1, "c": 1}


def test_without_a_time_every_record_is_judged(embedded_broker: EmbeddedBroker) -> None:
    send(embedded_broker, "a", "a")
    with working(embedded_broker, Script(), repeat_seconds=0) as running:
        running.wait(scored=2)


@pytest.mark.parametrize("fair", [True, False])
@pytest.mark.slow
def test_a_noisy_app_does_not_hold_up_the_others(embedded_broker: EmbeddedBroker, fair: bool) -> None:
    """400 records of one app before 8 of another, with 4 slots: those 8 do not wait for the 400."""
    script = Script(seconds=0.05)
    noisy, quiet = [f"noisy-{number}" for number in range(400)], [f"quiet-{number}" for number in range(8)]
    send(embedded_broker, "quiet-first", *noisy, *quiet, app=lambda id_: id_.partition("-")[0])
    with working(embedded_broker, script, concurrency=4, run_ahead=64, commit_seconds=0.05, fair=fair) as running:
        running.wait(scored=409)
        assert bool(running.read_count(Outcome.DEFERRED)) is fair
    last = max(script.order.index(id_) for id_ in quiet)
    assert last < 200 if fair else last > 300
    assert len(evaluated_ids(embedded_broker)) == 409


def test_a_record_too_large_for_the_overflow_topic_becomes_a_dead_letter(real_kafka: KafkaBroker) -> None:
    """A record that moves there gets headers that it did not have on the queue; the worker must not end for it."""
    topics = topic_names("full")
    real_kafka.create_topics(*(name for name in to_create(topics) if name != topics["overflow"]))
    real_kafka.create_topics(topics["overflow"], config={"max.message.bytes": "1000"})
    ids = ["quiet-first", *(f"noisy-{number}" for number in range(100))]
    send(real_kafka, *ids, app=lambda id_: id_.partition("-")[0], answer="long " * 200, topic=topics["sampled"])
    config = Config.model_validate(
        {
            "kafka": {"bootstrap": real_kafka.bootstrap},
            "topics": topics,
            "worker": {"group": "full", "concurrency": 4, "run_ahead": 64},
        }
    )
    with Running(config, Script(seconds=0.05)) as running:
        running.wait(consumed=101, deadletter=1)
        assert running.read_count(Outcome.SCORED) + running.read_count(Outcome.DEADLETTER) == 101
    letters = [headers_of(letter) for letter in read_all(real_kafka.bootstrap, topics["deadletter"])]
    assert {letter["sj-error-type"] for letter in letters} == {"too_large"}
    assert not read_all(real_kafka.bootstrap, topics["overflow"])


def test_a_worker_whose_name_was_taken_over_ends_instead_of_waiting_forever(real_kafka: KafkaBroker) -> None:
    """The client reports it once, and is silent afterwards."""
    topics = topic_names("named")
    real_kafka.create_topics(*to_create(topics), partitions=2)
    config = Config.model_validate(
        {
            "kafka": {"bootstrap": real_kafka.bootstrap},
            "topics": topics,
            "worker": {"group": "named", "instance": "one"},
            "http": {"port": 0},
        }
    )

    def two_at_once() -> None:
        with Service(config, [Stage.WORKER]) as first:
            wait_until(lambda: first.health.ready().ok, seconds=30, what="the first is at work")
            with Service(config, [Stage.WORKER]) as second:

                def check_both() -> bool:
                    second.check()
                    first.check()
                    return False

                wait_until(check_both, seconds=40, what="the first ends")

    with pytest.raises(StageError, match=r"fenced|instance"):
        two_at_once()


@pytest.mark.slow
def test_the_monitor_counts_only_committed_evaluations(real_kafka: KafkaBroker) -> None:
    topics = topic_names("given-up")
    real_kafka.create_topics(*to_create(topics), partitions=1)
    send(real_kafka, "a", topic=topics["sampled"])
    config = Config.model_validate(
        {
            "kafka": {"bootstrap": real_kafka.bootstrap},
            "topics": topics,
            "worker": {"group": "given-up-worker"},
            "monitor": {"group": "given-up-monitor"},
            "http": {"port": 0},
        }
    )
    with Running(config, Script()) as running:
        running.wait(scored=1)
    [published] = read_all(real_kafka.bootstrap, topics["evaluations"])
    producer = Producer({"bootstrap.servers": real_kafka.bootstrap, "transactional.id": "given-up"})
    producer.init_transactions(20 * patience())
    for end in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        record = json.loads(published.value() or b"") | {"evaluation_id": end.__name__}
        producer.produce(topics["evaluations"], value=json.dumps(record))
        producer.flush(20 * patience())
        end(20 * patience())
    with Service(config, [Stage.MONITOR]) as service:
        count_seen = lambda: service.metrics.read_count(Stage.MONITOR, Outcome.SEEN)  # noqa: E731
        wait_until(lambda: count_seen() >= 2, seconds=40, what="what was committed is seen")
        time.sleep(1)
        assert count_seen() == 2
