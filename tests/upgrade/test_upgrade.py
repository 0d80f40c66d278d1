"""Upgrades: records of version 1 are read correctly, and version 1 can read the records written now."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from confluent_kafka import Message as KafkaMessage
from prometheus_client import CollectorRegistry

from judges.criteria.catalogue import load_catalogue
from judges.values.evaluation import CompositeStatus, Evaluation, SafetyNotice, Sampling
from sinks.base import Headers
from sinks.metrics import Outcome, PipelineMetrics, ScoreMetrics, Stage
from stream.cli.commands.tail import critical_text, deadletter_json, deadletter_text, evaluation_text
from stream.config.model import Config
from stream.config.sections.input import InputConfig
from stream.config.sections.stages import MonitorConfig
from stream.kafka.embedded import EmbeddedBroker
from stream.kafka.offsets import Place
from stream.kafka.topics import plan_topics
from stream.monitor.state import Monitor
from stream.records.envelope import read_sampling
from stream.records.facts import LazyRecord
from stream.records.headers import is_mark, source_of
from stream.records.reading import InteractionReader
from stream.sampler.policy import SamplingPolicy
from stream.service.service import Service
from tests.integration.pipeline import close_readers, headers_of, produce_all, read_all, wait_until

V1 = Path(__file__).parent / "v1"
STATUSES = [status.value for status in CompositeStatus]
MANY = 20
CHOSEN_BY_V1 = [12, 13, 16, 21, 23]
"""Chosen from id-0 to id-23, at a rate of 0.25 with the default salt."""

every_status = pytest.mark.parametrize("status", STATUSES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A record as stored on a topic."""

    key: bytes
    headers: Headers
    value: bytes

    @property
    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.value)
        return document

    @property
    def message(self) -> KafkaMessage:
        return KafkaMessage(
            topic="t", partition=0, offset=7, key=self.key, value=self.value, headers=list(self.headers)
        )


def read_recorded(name: str) -> Recorded:
    stored = json.loads((V1 / f"{name}.json").read_text(encoding="utf-8"))
    headers = tuple((header, text.encode()) for header, text in stored["headers"])
    return Recorded(key=stored["key"].encode(), headers=headers, value=stored["value"].encode())


def schema(name: str) -> dict[str, Any]:
    """Return the schema of version 1 for a kind of record."""
    document: dict[str, Any] = json.loads((V1 / f"{name}.schema.json").read_text(encoding="utf-8"))
    return document


def observe(*values: bytes) -> PipelineMetrics:
    registry = CollectorRegistry()
    metrics = PipelineMetrics(registry)
    monitor = Monitor(MonitorConfig(), metrics, ScoreMetrics(registry))
    for value in values:
        monitor.observe(value)
    return metrics


def with_strangers(document: Any) -> Any:
    """Add an unknown field to every object, as a later version may."""
    if isinstance(document, dict):
        # The names of dimensions and tags are data: another one would be another dimension or tag.
        inner = {name: with_strangers(value) for name, value in document.items()}
        return inner if _is_open(document) else {**inner, "of_later": {"versions": [1, None]}}
    if isinstance(document, list):
        return [with_strangers(item) for item in document]
    return document


def _is_open(document: dict[str, Any]) -> bool:
    return "harmfulness" in document or "tier" in document


# Records of version 1 are read


def test_a_sampled_record_is_read_with_its_decision() -> None:
    record = read_recorded("sampled")
    reading = InteractionReader(InputConfig()).read(record.value)
    assert reading.truncated == ()
    assert reading.interaction.id == "7f3a"
    assert reading.interaction.tags == {"tier": "gold", "rating": 5, "ok": True}
    assert reading.interaction.model_extra == {"kept": {"as": "it is"}}
    assert read_sampling(record.headers) == Sampling(probability=0.25, rule="checkout", lane="main")


def test_the_same_records_are_chosen_as_by_version_1() -> None:
    """An audit, and a sampler that takes over, decide as the earlier sampler did."""
    config = Config.model_validate({"sampling": {"rate": 0.25}})
    policy = SamplingPolicy(config.sampling, config.input)
    chosen = [number for number in range(24) if policy.decide(LazyRecord(b"id-%d" % number, None, 0)).chosen]
    assert chosen == CHOSEN_BY_V1


@every_status
def test_an_evaluation_is_read_whole(status: str) -> None:
    record = read_recorded(f"evaluation-{status}")
    evaluation = Evaluation.model_validate_json(record.value)
    assert evaluation.composite.status.value == evaluation.interaction_id == status
    assert evaluation.evaluation_id.encode() == record.key
    assert includes(json.loads(evaluation.model_dump_json()), record.document)


def includes(now: Any, then: Any) -> bool:
    """Return whether every old value is still present and unchanged."""
    if isinstance(then, dict):
        return isinstance(now, dict) and all(name in now and includes(now[name], value) for name, value in then.items())
    if isinstance(then, list):
        return isinstance(now, list) and len(now) == len(then) and all(map(includes, now, then))
    return bool(now == then)


def test_the_monitor_counts_all_evaluations() -> None:
    metrics = observe(*(read_recorded(f"evaluation-{status}").value for status in STATUSES))
    assert metrics.read_count(Stage.MONITOR, Outcome.SEEN) == len(STATUSES)
    assert metrics.read_count(Stage.MONITOR, Outcome.DEADLETTER) == 0


@every_status
def test_tail_shows_an_evaluation(status: str) -> None:
    line = evaluation_text(read_recorded(f"evaluation-{status}").message).plain
    assert " shop " in line
    assert f" {'scored' if status == 'ok' else status} " in line


def test_an_option_that_was_written_in_the_language_of_the_texts_is_understood() -> None:
    """Options used to be labels; there was no separate field for the label."""
    record = read_recorded("evaluation-questionable")
    document = record.document
    document["dimensions"]["harmfulness"]["option"] = "сомнительно"
    old = replace(record, value=json.dumps(document).encode())
    assert "harmless=сомнительно" in evaluation_text(old.message).plain
    harm = Evaluation.model_validate_json(old.value).dimensions["harmfulness"]
    criterion = load_catalogue("rag")["harmfulness"]
    assert harm.label is None
    assert criterion.choice(None, harm.option) == criterion.scale.choices[1]


def test_a_safety_notice_is_read_and_shown() -> None:
    record = read_recorded("critical")
    notice = SafetyNotice.model_validate_json(record.value)
    assert (notice.interaction_id, notice.safety.status.value) == ("unsafe", "unsafe")
    assert notice.evaluation_id == read_recorded("evaluation-unsafe").key.decode()
    assert " unsafe " in critical_text(record.message).plain


def test_a_dead_letter_is_shown_and_says_where_it_came_from() -> None:
    record = read_recorded("deadletter")
    assert "worker bad_json not JSON" in deadletter_text(record.message).plain
    assert json.loads(deadletter_json(record.message))["error_type"] == "bad_json"
    headers = dict(record.headers)
    assert not is_mark(headers)
    assert source_of(headers) == Place("rag.sampled", 1, 42)
    assert read_sampling(record.headers).rule == "checkout"


# Additions of a later version of the same schema do no harm


def test_unknown_fields_and_headers_of_a_sampled_record_are_left_alone() -> None:
    record = read_recorded("sampled")
    value = json.dumps(with_strangers(record.document)).encode()
    assert InteractionReader(InputConfig()).read(value).interaction.id == "7f3a"
    headers = (*record.headers, ("sj-of-later", b"\xff"), ("sj-retry-at", b"2026-11-15T10:01:00+00:00"), ("x", None))
    assert read_sampling(headers) == read_sampling(record.headers)


@every_status
def test_unknown_fields_of_an_evaluation_are_kept(status: str) -> None:
    document = with_strangers(read_recorded(f"evaluation-{status}").document)
    value = json.dumps(document).encode()
    evaluation = Evaluation.model_validate_json(value)
    assert includes(json.loads(evaluation.model_dump_json()), document)
    assert observe(value).read_count(Stage.MONITOR, Outcome.SEEN) == 1


# Version 1 can read the records written now


@every_status
def test_the_recorded_schema_is_that_of_the_recorded_evaluations(status: str) -> None:
    jsonschema.validate(read_recorded(f"evaluation-{status}").document, schema("evaluation"))


def test_the_recorded_schema_refuses_records_that_version_1_could_not_read() -> None:
    document = read_recorded("evaluation-ok").document
    for broken in (
        {**document, "composite": None},
        {**document, "dimensions": []},
        {**document, "sampling": {"rule": 5}},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(broken, schema("evaluation"))


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as started:
        started.make_topics(plan.name for plan in plan_topics(Config()))
        yield started
        close_readers()


@pytest.mark.slow
def test_a_worker_takes_over_records_queued_by_a_sampler_of_version_1(broker: EmbeddedBroker) -> None:
    """As in a mixed group: their records on the queue, our evaluations for their readers."""
    record = read_recorded("sampled")
    copies = [
        {
            "key": b"%d" % number,
            "value": record.value.replace(b"7f3a", b"id-%d" % number),
            "headers": list(record.headers),
        }
        for number in range(MANY)
    ]
    produce_all(broker.bootstrap, "rag.sampled", copies)
    config = Config.model_validate({"kafka": {"bootstrap": broker.bootstrap}, "http": {"port": 0}})
    with Service(config, [Stage.WORKER]) as service:

        def all_scored() -> bool:
            service.check()
            return service.metrics.read_count(Stage.WORKER, Outcome.SCORED) == MANY

        wait_until(all_scored, seconds=60, what="all are scored")
    published = read_all(broker.bootstrap, "rag.evaluations")
    assert_version_1_reads(published)
    assert {json.loads(message.value() or b"")["interaction_id"] for message in published} == {
        f"id-{n}" for n in range(MANY)
    }


def assert_version_1_reads(published: Sequence[KafkaMessage]) -> None:
    then = read_recorded("evaluation-ok")
    for message in published:
        document = json.loads(message.value() or b"")
        jsonschema.validate(document, schema("evaluation"))
        assert document["evaluation_id"].encode() == message.key()
        assert includes(headers_of(message), {name: (value or b"").decode() for name, value in then.headers})
        assert document["sampling"] == then.document["sampling"]
        assert document.keys() >= then.document.keys()
