"""The sampler when its partitions go while a batch is held up: what the client keeps paused is opened again."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from sinks.base import Message
from sinks.metrics import PipelineMetrics, SamplingMetrics
from stream import sampler
from stream.config import Config
from stream.errors import PublishAborted
from stream.offsets import Partition
from stream.sampler import Sampler

PARTITION = Partition("rag.interactions", 0)


class Record:
    """A record in the client's form, as far as the sampler looks at it."""

    def key(self) -> bytes:
        return b"id"

    def topic(self) -> str:
        return PARTITION.topic

    def partition(self) -> int:
        return PARTITION.number


class BrokenExchange:
    """Takes nothing while it is away, and like the client keeps a pause over a loss of the partition."""

    def __init__(self) -> None:
        self.assignment = frozenset({PARTITION})
        self.paused: set[Partition] = set()
        self.away = True
        self.published: list[Mapping[Partition, int]] = []
        self.meanwhile: Callable[[], None] = lambda: None
        self._at = 0

    def fetch(self, _limit: int, _seconds: float) -> Sequence[Record]:
        self.meanwhile()
        if not self.assignment - self.paused:
            return []
        self._at += 1
        return [Record()]

    def positions(self) -> dict[Partition, int]:
        return dict.fromkeys(self.assignment, self._at)

    def publish(self, _messages: Sequence[Message], offsets: Mapping[Partition, int]) -> None:
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
    monkeypatch.setattr(sampler, "Exchange", lambda *_args, **_options: broken)
    monkeypatch.setattr(sampler, "_RETRY_SECONDS", 0.0)
    return broken


@pytest.fixture
def subject(exchange: BrokenExchange) -> Sampler:
    registry = CollectorRegistry()
    # Nothing is chosen: what is read is only committed.
    config: dict[str, Any] = {"sampling": {"rate": 0.0}}
    return Sampler(Config.model_validate(config), PipelineMetrics(registry), SamplingMetrics(registry))


def at_the_next_fetch(exchange: BrokenExchange, change: Callable[[Collection[Partition]], None], held: bool) -> None:
    def happen() -> None:
        exchange.meanwhile = lambda: None
        exchange.assignment = frozenset({PARTITION}) if held else frozenset()
        change({PARTITION})

    exchange.meanwhile = happen


def test_nothing_is_read_while_a_batch_is_held_up_and_all_goes_on_after(
    subject: Sampler, exchange: BrokenExchange
) -> None:
    subject.step()
    subject.step()
    assert exchange.paused == {PARTITION}
    exchange.away = False
    subject.step()
    subject.step()
    assert (exchange.paused, [offsets[PARTITION] for offsets in exchange.published]) == (set(), [1, 2])


def test_a_partition_that_was_lost_while_it_was_paused_is_read_again_when_it_comes_back(
    subject: Sampler, exchange: BrokenExchange
) -> None:
    subject.step()
    subject.step()
    at_the_next_fetch(exchange, subject.on_lost, held=False)
    subject.step()
    exchange.away = False
    at_the_next_fetch(exchange, subject.on_assigned, held=True)
    subject.step()
    subject.step()
    assert exchange.paused == set()
    assert exchange.published, "it reads and commits again"
