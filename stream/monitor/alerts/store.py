"""The store: what the detectors know and announce, on the broker.

The state of a partition and the alerts that follow from it are published in one transaction, by the partition's newest
owner alone: readers of committed records see each announcement once. The embedded broker does not isolate transactions.
There the state goes first and the alerts after it: none is lost, and one may come twice.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from threading import Event
from typing import NamedTuple

from confluent_kafka import Message as KafkaMessage

from sinks.base import Message
from sinks.topics.results import json_message
from stream.config.model import Config
from stream.errors import RecordError, StageError
from stream.kafka.record import Record, read_record
from stream.kafka.topic_scan import TopicScan
from stream.monitor.alerts.alert import Alert
from stream.monitor.alerts.partition_writers import PartitionWriters
from stream.monitor.alerts.stored_states import StoredStates
from stream.monitor.record_sender import RecordSender


class Changes(NamedTuple):
    """The news of a partition."""

    states: Sequence[tuple[str, bytes | None]]
    """By key; None for what is no longer kept."""
    alerts: Sequence[Alert]


class AlertStore:
    """Writes scores, states and alerts, and reads the latter two. `send` never waits; the others may."""

    def __init__(self, config: Config, *, transactions: bool) -> None:
        """`transactions` says whether the broker isolates them."""
        self._kafka, self._topics = config.kafka, config.topics
        self._writers = PartitionWriters(config) if transactions else None
        self._sender = RecordSender(config)

    def check_topics(self, stop: Event) -> int:
        """How many partitions the scores have; raises unless all topics are there, or `stop` is set."""
        self._sender.check_dead_letters(stop)
        names = (self._topics.scores, self._topics.detection, self._topics.alerts)
        remedy = "run `streamjury topics create`, or set detection.enabled to false to run without alerts"
        scores, states, _alerts = (self._sender.count_partitions(name, stop, remedy=remedy) for name in names)
        if states < scores:
            raise StageError(
                f"{self._topics.detection} has {states} partitions, but {self._topics.scores} has {scores}; give it "
                "the same number"
            )
        return scores

    def send(self, message: Message) -> None:
        """Puts a message on its way; `publish` waits until it has arrived."""
        self._sender.send(message)

    def dead_letter(self, record: Record, error: RecordError) -> None:
        """Puts a record that is refused on its way to the dead letters; `publish` waits until it has arrived."""
        self._sender.dead_letter(record, error)

    def publish(self, changes: Mapping[int, Changes]) -> dict[int, str]:
        """Returns when all that was sent has arrived, and then the changes, by partition.

        Gives the partitions that are not ours any more, or may not be, and why: they have to be taken up again.
        """
        self._sender.flush()
        if self._writers is not None:
            return self._writers.commit({number: self._messages(number, each) for number, each in changes.items()})
        self._publish_in_order(changes)
        return {}

    def _messages(self, partition: int, changes: Changes) -> list[Message]:
        return [*self._states(partition, changes), *self._announcements(changes)]

    def _states(self, partition: int, changes: Changes) -> list[Message]:
        return [
            Message(topic=self._topics.detection, key=key.encode(), value=value, partition=partition)
            for key, value in changes.states
        ]

    def _announcements(self, changes: Changes) -> list[Message]:
        return [json_message(self._topics.alerts, alert.key, alert) for alert in changes.alerts]

    def _publish_in_order(self, changes: Mapping[int, Changes]) -> None:
        """An alert that is published is thus always known to the state.

        One that is known and was not published is published by whoever goes on from that state.
        """
        for number, each in changes.items():
            self._send_all(self._states(number, each))
        self._sender.flush()
        for each in changes.values():
            self._send_all(self._announcements(each))
        self._sender.flush()

    def _send_all(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self.send(message)

    def take_up(self, partition: int) -> StoredStates:
        """Gives what is stored of the apps of a partition.

        1. The previous owner is shut out: what it has under way is undone, and it publishes nothing any more.
        2. The states are read: so they are the last ones that it wrote.
        """
        if self._writers is not None:
            self._writers.open(partition)  # 1
        stored = StoredStates()
        with TopicScan(self._kafka, self._topics.detection) as scan:  # 2
            wanted = {partition: scan.ranges().get(partition, range(0))}
            for message in scan.read_within(wanted):
                stored.add(read_record(message))
        return stored

    def discard(self, partition: int, stored: StoredStates) -> None:
        """Removes what cannot be read from the states of a partition, so that it is not read again.

        1. It is among the dead letters.
        2. An older state that can be read, or none, takes its place.
        """
        refused = stored.refused()
        for record, error in refused:
            self.dead_letter(record, error)
        self._sender.flush()  # 1
        messages = [
            Message(
                topic=self._topics.detection,
                key=record.key,
                value=stored.replacement(record.key or b""),
                partition=partition,
            )
            for record, _error in refused
        ]
        if self._writers is None:
            self._send_all(messages)
            self._sender.flush()
        elif failures := self._writers.commit({partition: messages} if messages else {}):  # 2
            raise StageError(failures[partition])

    def publish_missing(self, partition: int, announced: Iterable[Alert]) -> None:
        """Publishes what the states of a partition say was announced, and was not; with transactions, all of it was."""
        if self._writers is None and (missing := self._unpublished(announced)):
            self._publish_in_order({partition: Changes([], missing)})

    def release(self) -> None:
        """Gives all partitions up."""
        if self._writers is not None:
            self._writers.close()

    def _unpublished(self, alerts: Iterable[Alert]) -> list[Alert]:
        """Those that come after what the topic says last of their series: it may keep only that."""
        wanted = list(alerts)
        if not wanted:
            return []
        last: dict[str, Alert] = {}
        with TopicScan(self._kafka, self._topics.alerts) as scan:
            for message in scan.read():
                alert = _alert(message)
                if alert is not None:
                    last[alert.key] = alert
        return list(_after(wanted, last))

    def close(self) -> None:
        """Nothing is waited for any more; what did not arrive follows from what is read again at the next start."""
        self._sender.close()


def _alert(message: KafkaMessage) -> Alert | None:
    try:
        return Alert.read(message.value() or b"")
    except ValueError:
        return None


def _after(alerts: Sequence[Alert], last: Mapping[str, Alert]) -> Iterator[Alert]:
    """Of alerts in their order, those that come after the last one of their series."""
    for place, alert in enumerate(alerts):
        newest_published = last.get(alert.key)
        # Compared as a whole: scores that come late are dated like the newest, and so are two updates after them.
        if newest_published is None or (newest_published not in alerts[place:] and newest_published.at <= alert.at):
            yield alert
