"""The sampler while the broker fails, and how records are counted then."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from prometheus_client import CollectorRegistry

from benchmarks import bench_sampler
from sinks.base import Headers, Message
from sinks.metrics import Outcome, PipelineMetrics, SamplingMetrics, Stage
from stream.config.model import Config
from stream.errors import PublishAborted
from stream.kafka.offsets import Partition
from stream.sampler import stage
from stream.sampler.policy import SamplingPolicy
from stream.sampler.stage import Sampler

PARTITION = Partition("rag.interactions", 0)


class Record:
    """A record with the client's methods that the sampler uses."""

    def __init__(self, offset: int = 0, value: bytes | None = None, headers: Headers = ()) -> None:
        self._offset, self._value, self._headers = offset, value, headers

    def key(self) -> bytes:
        return b"id-%d" % self._offset

    def value(self) -> bytes | None:
        return self._value

    def headers(self) -> Headers:
        return self._headers

    def timestamp(self) -> tuple[int, int]:
        return 1, 1_790_000_000_000

    def offset(self) -> int:
        return self._offset

    def topic(self) -> str:
        return PARTITION.topic

    def partition(self) -> int:
        return PARTITION.number


class BrokenExchange:
    """An exchange that fails while it is away; like the client, it stays paused when a partition is lost."""

    def __init__(self) -> None:
        self.assignment = frozenset({PARTITION})
        self.paused: set[Partition] = set()
        self.away = True
        self.published: list[Mapping[Partition, int]] = []
        self.meanwhile: Callable[[], None] = lambda: None
        self.waiting: list[Record] = []
        self.partitions: list[int | KafkaException] = []
        self.largest = 10**6
        self._position = 0

    def fetch(self, _limit: int, _seconds: float) -> Sequence[Record]:
        self.meanwhile()
        if not self.assignment - self.paused:
            return []
        self._position += 1
        waiting, self.waiting = self.waiting, []
        return waiting or [Record()]

    def partition_count(self) -> int:
        answer = self.partitions.pop(0)
        if isinstance(answer, KafkaException):
            raise answer
        return answer

    def positions(self) -> dict[Partition, int]:
        return dict.fromkeys(self.assignment, self._position)

    def publish(self, messages: Sequence[Message], offsets: Mapping[Partition, int]) -> None:
        for message in messages:
            if message.instead is not None and len(message.value or b"") > self.largest:
                message.instead()
        if self.away:
            raise PublishAborted("the broker is away")
        self.published.append(offsets)

    def pause(self, partitions: Iterable[Partition]) -> None:
        self.paused |= set(partitions)

    def resume(self, partitions: Iterable[Partition]) -> None:
        self.paused -= set(partitions)

    def lag(self) -> int:
        return 0


@pytest.fixture
def exchange(monkeypatch: pytest.MonkeyPatch) -> BrokenExchange:
    broken = BrokenExchange()
    monkeypatch.setattr(stage, "TransactionalConsumer", lambda *_args, **_options: broken)
    monkeypatch.setattr(stage, "_RETRY_SECONDS", 0.0)
    return broken


@pytest.fixture
def subject(exchange: BrokenExchange) -> Sampler:
    registry = CollectorRegistry()
    # No record is chosen, so records are only committed.
    config: dict[str, Any] = {"sampling": {"rate": 0.0}}
    return Sampler(Config.model_validate(config), PipelineMetrics(registry), SamplingMetrics(registry))


def at_the_next_fetch(
    exchange: BrokenExchange, change: Callable[[Collection[Partition]], None], is_assigned: bool
) -> None:
    def happen() -> None:
        exchange.meanwhile = lambda: None
        exchange.assignment = frozenset({PARTITION}) if is_assigned else frozenset()
        change({PARTITION})

    exchange.meanwhile = happen


def test_reading_pauses_while_a_batch_cannot_be_published_and_resumes_after(
    subject: Sampler, exchange: BrokenExchange
) -> None:
    subject.step()
    subject.step()
    assert exchange.paused == {PARTITION}
    exchange.away = False
    subject.step()
    subject.step()
    assert (exchange.paused, [offsets[PARTITION] for offsets in exchange.published]) == (set(), [1, 2])


def test_a_partition_that_was_lost_while_paused_is_read_again_when_it_returns(
    subject: Sampler, exchange: BrokenExchange
) -> None:
    subject.step()
    subject.step()
    at_the_next_fetch(exchange, subject.on_lost, is_assigned=False)
    subject.step()
    exchange.away = False
    at_the_next_fetch(exchange, subject.on_assigned, is_assigned=True)
    subject.step()
    subject.step()
    assert exchange.paused == set()
    assert exchange.published, "the sampler reads and commits again"


# Counting


class CountingSampler:
    """A sampler and its counts."""

    def __init__(self, **sampling: Any) -> None:
        self.registry = CollectorRegistry()
        config = Config.model_validate({"sampling": sampling})
        self.metrics = PipelineMetrics(self.registry)
        self.sampler = Sampler(config, self.metrics, SamplingMetrics(self.registry))

    def by_rule(self, rule: str, app: str, outcome: str) -> float:
        labels = {"rule": rule, "app": app, "outcome": outcome}
        return self.registry.get_sample_value("streamjury_sampling_total", labels) or 0.0

    def records(self, outcome: str) -> float:
        return self.metrics.read_count(Stage.SAMPLER, Outcome(outcome))

    def dead_letters(self, reason: str) -> float:
        labels = {"stage": "sampler", "outcome": "deadletter", "reason": reason}
        return self.registry.get_sample_value("streamjury_records_total", labels) or 0.0


class BadHeaders(Record):
    """A record whose headers fail like the client's on a name that is not UTF-8."""

    def headers(self) -> Headers:
        raise SystemError


def value(app: str = "shop", size: int = 0) -> bytes:
    return json.dumps({"id": "x", "app": app, "question": "q", "answer": "a" * size}).encode()


SHOP: dict[str, Any] = {"rate": 0.0, "rules": [{"name": "shop", "match": {"app": "shop"}, "rate": 1.0}]}


@pytest.mark.parametrize("rule", [{"rate": 1.0, "max_per_minute": 5}, {"target_per_minute": 60}])
def test_the_clock_is_read_once_for_each_batch(
    exchange: BrokenExchange, monkeypatch: pytest.MonkeyPatch, rule: dict[str, Any]
) -> None:
    readings = list[float]()

    def clock() -> float:
        readings.append(1_790_000_000.0 + 60 * len(readings))
        return readings[-1]

    monkeypatch.setattr(stage, "SamplingPolicy", partial(SamplingPolicy, clock=clock))
    subject, exchange.away, exchange.partitions = CountingSampler(**rule), False, [1]
    for batches in (1, 2):
        exchange.waiting = [Record(offset, value()) for offset in range(20)]
        subject.sampler.step()
        assert len(readings) == batches


def test_a_record_that_is_too_large_for_its_topic_is_counted_as_a_dead_letter_once(
    exchange: BrokenExchange,
) -> None:
    subject = CountingSampler(**SHOP)
    exchange.waiting = [Record(offset, value(size=size)) for offset, size in enumerate((1, 5000, 1, 5000))]
    exchange.largest = 1000
    subject.sampler.step()
    subject.sampler.step()
    assert subject.records("consumed") == 0
    exchange.away = False
    subject.sampler.step()
    assert (subject.records("consumed"), subject.records("sampled"), subject.records("deadletter")) == (4, 2, 2)
    assert (subject.by_rule("shop", "shop", "sampled"), subject.by_rule("shop", "shop", "invalid")) == (2, 2)
    assert subject.dead_letters("too_large") == 2


def test_a_record_that_was_refused_at_first_and_then_published_is_no_dead_letter(exchange: BrokenExchange) -> None:
    subject = CountingSampler(**SHOP)
    exchange.waiting = [Record(0, value(size=5000))]
    exchange.largest = 1000
    subject.sampler.step()
    exchange.away, exchange.largest = False, 10_000
    subject.sampler.step()
    assert (subject.records("sampled"), subject.records("deadletter")) == (1, 0)


def test_a_dead_letter_is_counted_under_its_rule_and_app(
    exchange: BrokenExchange,
) -> None:
    subject = CountingSampler(**SHOP)
    exchange.away = False
    exchange.waiting = [BadHeaders(0, value()), Record(1, b"no json")]
    subject.sampler.step()
    assert subject.by_rule("shop", "shop", "invalid") == 1
    assert subject.by_rule("none", "unknown", "invalid") == 1
    assert (subject.dead_letters("bad_headers"), subject.dead_letters("bad_json")) == (1, 1)
    assert subject.records("consumed") == subject.records("deadletter") == 2


def test_if_the_key_decides_a_dead_letter_counts_for_the_default_rule(exchange: BrokenExchange) -> None:
    subject = CountingSampler(rate=1.0)
    exchange.away = False
    exchange.waiting = [BadHeaders(0, value())]
    subject.sampler.step()
    assert subject.by_rule("default", "unknown", "invalid") == 1


# The share of targets and caps


def test_without_partition_metadata_the_share_stays_and_the_broker_is_asked_again(
    exchange: BrokenExchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "_SHARE_SECONDS", 0.0)
    subject = CountingSampler(rate=0.0, max_per_minute=10).sampler
    exchange.away = False
    slow = KafkaException(KafkaError(KafkaError._TIMED_OUT))
    exchange.partitions = [4, slow, 0, 16]
    shares = []
    for assigned in (1, 2, 2, 2, 2):
        exchange.assignment = frozenset(Partition(PARTITION.topic, number) for number in range(assigned))
        subject.step()
        shares.append(subject._policy.share)
    assert shares == [0.25, 0.25, 0.25, 0.125, 0.125]
    assert not exchange.partitions, "the broker is asked until it answers"


def test_a_broker_without_partition_metadata_is_not_asked_with_every_batch(exchange: BrokenExchange) -> None:
    subject = CountingSampler(rate=0.0, max_per_minute=10).sampler
    exchange.away = False
    exchange.partitions = [0, 4]
    subject.step()
    subject.step()
    assert exchange.partitions == [4]


# The benchmark's promises


def measurements(records: float, rss: float = 100.0) -> list[list[bench_sampler.Measurement]]:
    return [[{"records": records, "began": 0.0, "ended": 1.0, "cpu": 1.0, "rss": rss}]]


@pytest.mark.parametrize(
    ("changes", "broken"),
    [
        ({}, []),
        ({bench_sampler.KEY: measurements(690)}, ["sampler, key only: at least 0.7 times bare consume()"]),
        ({bench_sampler.BODY: measurements(290)}, ["sampler, body rules: at least 0.3 times bare consume()"]),
        ({bench_sampler.FAUST: measurements(36)}, ["sampler, key only: at least 20 times bare Faust agent"]),
        ({bench_sampler.BODY: measurements(310, rss=301)}, ["samplers: at most 300 MiB at their peak"]),
    ],
)
def test_the_benchmark_fails_for_every_broken_promise(
    changes: dict[str, Any], broken: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    met = {kind: measurements(1000) for kind in bench_sampler.KINDS}
    met |= {
        bench_sampler.KEY: measurements(700),
        bench_sampler.BODY: measurements(300),
        bench_sampler.FAUST: measurements(30),
    }
    rounds = {**met, bench_sampler.PAIR: [measurements(1000)[0] * 2], **changes}
    if broken:
        with pytest.raises(SystemExit, match="; ".join(broken).replace("(", r"\(").replace(")", r"\)")):
            bench_sampler.report(rounds, 2)
    else:
        bench_sampler.report(rounds, 2)
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("NOT MET")] == [
        line for line in lines for promise in broken if promise in line
    ]
    assert sum(line.startswith(("met", "NOT MET")) for line in lines) == 4
