"""The sampler while the Schema Registry is away: records wait in order, and none is decided twice or lost."""

import json
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from sinks.base import Headers
from sinks.metrics import Outcome, PipelineMetrics, SamplingMetrics, Stage
from stream.config.model import Config
from stream.errors import RecordError, RegistryError
from stream.kafka.offsets import Partition
from stream.sampler import stage
from stream.sampler.stage import Sampler
from tests.stream.sampler.test_stage import PARTITION, BrokenExchange, Record, exchange

__all__ = ["exchange"]

ENCODED = {"encoding": "confluent-avro", "registry": {"url": "http://registry.example.com"}}


class FaultyDecoder:
    """Decodes values that are JSON after one byte; it is away for those that begin with `away`."""

    def __init__(self) -> None:
        self.away: set[bytes] = set()

    def decode(self, value: bytes | None, _headers: Headers) -> bytes:
        if not value:
            raise RecordError("empty", "the record has no value")
        if value[:1] in self.away:
            raise RegistryError("cannot use the Schema Registry")
        if value[:1] == b"?":
            raise RecordError("unknown_schema", "no such schema")
        return value[1:]

    def check(self) -> None:
        if self.away:
            raise RegistryError("cannot use the Schema Registry")


@pytest.fixture
def decoder(monkeypatch: pytest.MonkeyPatch) -> FaultyDecoder:
    faulty = FaultyDecoder()
    monkeypatch.setattr(stage, "make_decoder", lambda _config: faulty)
    return faulty


class Subject:
    def __init__(self, exchange: BrokenExchange, **sampling: Any) -> None:
        exchange.away = False
        registry = CollectorRegistry()
        self.metrics = PipelineMetrics(registry)
        config = Config.model_validate({"input": ENCODED, "sampling": sampling})
        self.sampler = Sampler(config, self.metrics, SamplingMetrics(registry))
        self.exchange = exchange

    def count(self, outcome: Outcome) -> float:
        return self.metrics.read_count(Stage.SAMPLER, outcome)

    def read(self, *schemas: bytes) -> None:
        """Let the sampler read a record of each of these schemas in one batch."""
        body = json.dumps({"id": "x", "question": "q", "answer": "a"}).encode()
        self.exchange.waiting = [Record(offset, schema + body) for offset, schema in enumerate(schemas)]
        self.exchange._position = len(schemas) - 1
        self.sampler.step()


def test_records_wait_in_order_and_only_those_before_them_are_committed(
    exchange: BrokenExchange, decoder: FaultyDecoder
) -> None:
    subject = Subject(exchange, rate=1.0)
    decoder.away = {b"b"}
    subject.read(b"a", b"?", b"b", b"a", b"a")
    assert [offsets[PARTITION] for offsets in exchange.published] == [2]
    assert (subject.count(Outcome.SAMPLED), subject.count(Outcome.DEADLETTER)) == (1, 1)
    assert subject.sampler.registry_problem == "cannot use the Schema Registry"
    subject.sampler.step()
    assert exchange.paused == {PARTITION}
    assert len(exchange.published) == 1, "nothing is committed while nothing was decided"
    decoder.away = set()
    subject.sampler.step()
    assert [offsets[PARTITION] for offsets in exchange.published] == [2, 5]
    assert (subject.count(Outcome.SAMPLED), subject.count(Outcome.DEADLETTER)) == (4, 1)
    assert subject.sampler.registry_problem is None
    subject.sampler.step()
    assert exchange.paused == set()


def test_records_of_a_lost_partition_no_longer_wait(exchange: BrokenExchange, decoder: FaultyDecoder) -> None:
    subject = Subject(exchange, rate=1.0)
    decoder.away = {b"b"}
    subject.read(b"b", b"b")
    exchange.assignment = frozenset[Partition]()
    subject.sampler.on_lost({PARTITION})
    decoder.away = set()
    subject.sampler.step()
    assert (subject.count(Outcome.SAMPLED), exchange.published) == (0, [])


def test_waiting_record_counts_once_for_a_cap(exchange: BrokenExchange, decoder: FaultyDecoder) -> None:
    """The key decides, before the schema is needed; asking again must not use up the cap."""
    exchange.partitions = [1]
    subject = Subject(exchange, rate=1.0, max_per_minute=2)
    decoder.away = {b"b"}
    subject.read(b"b", b"b")
    for _ in range(5):
        subject.sampler.step()
    decoder.away = set()
    subject.sampler.step()
    assert subject.count(Outcome.SAMPLED) == 2


def test_key_decides_without_a_schema(exchange: BrokenExchange, decoder: FaultyDecoder) -> None:
    subject = Subject(exchange, rate=0.0)
    decoder.away = {b"b"}
    subject.read(b"b", b"b")
    assert [offsets[PARTITION] for offsets in exchange.published] == [2]
    assert subject.sampler.registry_problem is None


def test_registry_is_checked_at_start(
    exchange: BrokenExchange, decoder: FaultyDecoder, caplog: pytest.LogCaptureFixture
) -> None:
    subject = Subject(exchange, rate=1.0)
    subject.sampler.check_registry()
    assert subject.sampler.registry_problem is None
    decoder.away = {b"b"}
    subject.sampler.check_registry()
    assert subject.sampler.registry_problem is not None
    assert "records wait until it answers" in caplog.text
