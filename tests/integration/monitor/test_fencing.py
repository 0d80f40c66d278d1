"""A monitor that lost its partition publishes nothing for it: each alert is announced once, despite hangs, crashes."""

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from types import SimpleNamespace
from typing import Any, cast

import pytest
from faust.types import TP
from faust.types.events import EventT
from faust.types.tuples import ConsumerMessage
from prometheus_client import CollectorRegistry

from sinks.base import SCHEMA, Message
from sinks.metrics import DetectionMetrics
from stream.config.model import Config
from stream.monitor.alerts import agent as agent_module
from stream.monitor.alerts.agent import AlertAgent
from stream.monitor.alerts.alert import Alert
from stream.monitor.alerts.partition_writers import PartitionWriters
from stream.monitor.alerts.score_record import ScoreRecord
from stream.monitor.alerts.store import AlertStore, Changes
from stream.monitor.alerts.watch.partition import PartitionWatch
from tests.integration.pipeline import read_all
from tests.parts.kafka import KafkaBroker
from tests.parts.patience import patience
from tests.stream.monitor.alerts.traffic import WRONG, Traffic, collect_alerts, plan_of

NUMBERS = count()
STATE = b'{"included":{"count":1}}'


def seconds() -> float:
    """Return the longest wait for something that should happen soon."""
    return 60.0 * patience()


@pytest.fixture
def config(real_kafka: KafkaBroker) -> Config:
    """Separate topics, with three partitions of scores."""
    prefix = f"fencing{next(NUMBERS)}"
    names = {kind: f"{prefix}.{kind}" for kind in ("scores", "detection", "alerts", "deadletter")}
    real_kafka.create_topics(*names.values(), partitions=3)
    targets = {"composite": 0.85, "groundedness": 0.85, "clarity": 0.85}
    return Config.model_validate(
        {
            "kafka": {"bootstrap": real_kafka.bootstrap},
            "topics": names,
            "monitor": {"group": f"{prefix}-monitor"},
            "detection": {"targets": targets},
        }
    )


@pytest.fixture(scope="module")
def records() -> list[ScoreRecord]:
    """A drop that is announced, and some records after it."""
    traffic = Traffic()
    return [*traffic.many(200), *traffic.many(150, WRONG)]


@pytest.fixture(scope="module")
def expected(records: list[ScoreRecord]) -> list[Alert]:
    alerts = collect_alerts(PartitionWatch(plan_of(), 0), records)
    assert alerts
    return alerts


def count_published(config: Config) -> Counter[Alert]:
    """Count each announcement on the topic, as a reader of committed records sees it."""
    messages = read_all(config.kafka.bootstrap, config.topics.alerts)
    return Counter(Alert.read(message.value() or b"") for message in messages)


# The store


class PausedMessages:
    """Messages of a transaction that pauses after the first one until it is released."""

    def __init__(self, *messages: Message) -> None:
        self._messages = messages
        self.reached, self.go_on = threading.Event(), threading.Event()

    def __iter__(self) -> Iterator[Message]:
        yield self._messages[0]
        self.reached.set()
        assert self.go_on.wait(seconds())
        yield from self._messages[1:]


def state_of(config: Config, value: bytes) -> Message:
    return Message(topic=config.topics.detection, key=b"app:shop", value=value, partition=0)


def alert_of(config: Config, value: bytes) -> Message:
    return Message(topic=config.topics.alerts, key=b"series", value=value)


def test_a_writer_that_hangs_between_state_and_alert_is_refused(config: Config) -> None:
    store, zombie = AlertStore(config, transactions=True), PartitionWriters(config)
    zombie.open(0)
    paused = PausedMessages(state_of(config, b"of the zombie"), alert_of(config, b"of the zombie"))
    with ThreadPoolExecutor() as pool:
        outcome = pool.submit(zombie.commit, {0: paused})
        assert paused.reached.wait(seconds())
        assert store.take_up(0).states() == {}
        paused.go_on.set()
        assert outcome.result(seconds()) == {0: "another monitor has taken over"}
    assert store.publish({0: Changes([("app:shop", b"of the owner")], [])}) == {}
    states = read_all(config.kafka.bootstrap, config.topics.detection)
    assert [message.value() for message in states] == [b"of the owner"]
    assert not read_all(config.kafka.bootstrap, config.topics.alerts)


def test_state_and_alert_become_visible_together_and_a_crash_between_leaves_neither(config: Config) -> None:
    """The new writer does not wait for the timeout of the transaction that the crash left open."""
    store, writers = AlertStore(config, transactions=True), PartitionWriters(config)
    writers.open(0)
    assert writers.commit({0: [state_of(config, STATE), alert_of(config, b"first")]}) == {}
    paused = PausedMessages(state_of(config, b"second"), alert_of(config, b"second"))
    with ThreadPoolExecutor() as pool:
        outcome = pool.submit(writers.commit, {0: paused})
        assert paused.reached.wait(seconds())
        try:
            assert store.take_up(0).states() == {"app:shop": STATE}
            alerts = read_all(config.kafka.bootstrap, config.topics.alerts, wait=False)
            assert [message.value() for message in alerts] == [b"first"]
        finally:
            paused.go_on.set()
            outcome.result(seconds())


def test_partitions_are_fenced_one_by_one(config: Config) -> None:
    """A writer that loses one partition continues with the others."""
    first, second = AlertStore(config, transactions=True), AlertStore(config, transactions=True)
    for number in range(3):
        first.take_up(number)
    second.take_up(1)
    changes = {number: Changes([("app:shop", b"{}")], []) for number in range(3)}
    assert first.publish(changes).keys() == {1}
    stored = read_all(config.kafka.bootstrap, config.topics.detection)
    assert {message.partition() for message in stored} == {0, 2}
    first.release()
    assert first.publish({0: changes[0]}).keys() == {0}


# The agent


class Partition:
    """Plays Faust for one partition of the scores: hands out records and remembers acknowledgements."""

    def __init__(self, topic: str, records: list[ScoreRecord]) -> None:
        self.acknowledged: list[int] = []
        self.events = [self._event(topic, offset, record) for offset, record in enumerate(records)]

    def ack(self, message: ConsumerMessage) -> bool:
        message.acked = True
        self.acknowledged.append(message.offset)
        return True

    def _event(self, topic: str, offset: int, record: ScoreRecord) -> EventT[Any]:
        value = record.message(topic).value
        message = ConsumerMessage(topic, 0, offset, 0.0, 0, [SCHEMA], None, value, None, tp=TP(topic, 0))
        event = SimpleNamespace(
            message=message, headers=dict([SCHEMA]), value=value, ack=lambda: message.ack(cast(Any, self))
        )
        return cast("EventT[Any]", event)


async def start_agent(config: Config) -> AlertAgent:
    agent = AlertAgent(config, DetectionMetrics(CollectorRegistry()), transactions=True)
    await asyncio.to_thread(agent.prepare, threading.Event())
    await agent.on_assigned()
    await agent.load([0])
    return agent


async def observe(agent: AlertAgent, events: list[EventT[Any]]) -> None:
    for event in events:
        await agent.observe(event)


@pytest.mark.slow
def test_a_monitor_that_wakes_up_announces_nothing_again(
    config: Config, records: list[ScoreRecord], expected: list[Alert]
) -> None:
    topic = config.topics.scores
    for_zombie, for_owner = Partition(topic, records), Partition(topic, records)

    async def scenario() -> None:
        zombie = await start_agent(config)
        await observe(zombie, for_zombie.events[:-10])
        # Here it hangs, with unpublished alerts.
        owner = await start_agent(config)
        await observe(owner, for_owner.events[:-5])
        await owner.settle()
        await zombie.settle()  # refused
        await observe(zombie, for_zombie.events[-10:])
        await zombie.settle()
        # Faust must not wait for any of them when it moves the partitions.
        assert all(event.message.acked for event in for_zombie.events)
        await zombie.load([0])
        await zombie.on_revoked()
        await zombie.load([0])  # an outdated assignment must not fence out the owner
        await observe(owner, for_owner.events[-5:])
        await owner.settle()

    asyncio.run(scenario())
    assert for_zombie.acknowledged == []
    assert for_owner.acknowledged == list(range(len(records)))
    assert count_published(config) == Counter(expected)


@pytest.mark.slow
def test_a_partition_that_is_still_ours_is_taken_up_again(
    config: Config, records: list[ScoreRecord], expected: list[Alert], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A late request of a hung monitor may fence out the owner, which continues with the state it had set aside."""
    monkeypatch.setattr(agent_module, "_RETAKE_SECONDS", 0.0)
    partition = Partition(config.topics.scores, records)

    async def scenario() -> None:
        owner = await start_agent(config)
        await observe(owner, partition.events[:100])
        await owner.settle()
        await observe(owner, partition.events[100:-20])
        late = PartitionWriters(config)
        await asyncio.to_thread(late.open, 0)
        await owner.settle()  # refused
        assert partition.acknowledged == list(range(100))
        await observe(owner, partition.events[-20:-10])
        await owner.load([0])
        await observe(owner, partition.events[-10:])
        await owner.settle()

    asyncio.run(scenario())
    assert partition.acknowledged == list(range(len(records)))
    assert count_published(config) == Counter(expected)


@pytest.mark.slow
def test_a_crash_before_the_commit_is_repaired_by_the_next_monitor(
    config: Config, records: list[ScoreRecord], expected: list[Alert]
) -> None:
    partition, again = Partition(config.topics.scores, records), Partition(config.topics.scores, records)

    async def scenario() -> None:
        crashed = await start_agent(config)
        await observe(crashed, partition.events[:100])
        await crashed.settle()
        await observe(crashed, partition.events[100:])
        following = await start_agent(config)
        await observe(following, again.events[50:])  # from an earlier commit on: known records are recognised
        await following.settle()

    asyncio.run(scenario())
    assert count_published(config) == Counter(expected)
