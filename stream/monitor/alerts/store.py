"""The store: the detectors' states and alerts on the broker.

The state of a partition and the alerts that follow from it are published in one transaction, by the partition's newest
owner only, so readers of committed records see each announcement once. The embedded broker does not isolate
transactions. There the state is published before the alerts: no alert is lost, but one may be published twice.
"""

import logging
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

log = logging.getLogger(__name__)

# Reading states fails this soon, to be tried again: a monitor that stops must not wait long for a broker that is away.
_READ_PATIENCE_SECONDS = 5.0
# Far more than the key of any state. The topic may have accepted a longer one better compressed than we can send it.
_MOST_KEY_BYTES = 64 * 1024


class Changes(NamedTuple):
    """The changes of a partition."""

    states: Sequence[tuple[str, bytes | None]]
    """By key; None for a state that was removed."""
    alerts: Sequence[Alert]


class AlertStore:
    """Writes scores, states and alerts, and reads states and alerts. `send` never waits; the others may."""

    def __init__(self, config: Config, *, transactions: bool) -> None:
        """`transactions`: whether the broker isolates them."""
        self._kafka, self._topics = config.kafka, config.topics
        self._writers = PartitionWriters(config) if transactions else None
        self._sender = RecordSender(config)

    def check_topics(self, stop: Event) -> int:
        """Return the number of partitions of the scores topic; raise unless all topics exist, or `stop` is set."""
        self._sender.check_topics(stop)
        names = (self._topics.scores, self._topics.detection, self._topics.alerts)
        remedy = "run `streamjury topics create`, or set detection.enabled to false to run without alerts"
        scores, states, _alerts = (self._sender.count_partitions(name, stop, remedy=remedy) for name in names)
        if states < scores:
            raise StageError(
                f"{self._topics.detection} has {states} partitions, but {self._topics.scores} has {scores}; give it "
                "the same number"
            )
        return scores

    def has_labels(self) -> bool:
        """Return whether the topic of labels can be read; log a warning if not. Everything else works without it."""
        reason = self._sender.find_problem(self._topics.labels)
        if reason is not None:
            log.warning("cannot read %s (%s): labels will not correct the means", self._topics.labels, reason)
        return reason is None

    def send(self, message: Message) -> None:
        """Send a message; `publish` waits until it has arrived."""
        self._sender.send(message)

    def dead_letter(self, record: Record, error: RecordError) -> None:
        """Send a refused record to the dead-letter topic; `publish` waits until it has arrived."""
        self._sender.dead_letter(record, error)

    def publish(self, changes: Mapping[int, Changes]) -> dict[int, str]:
        """Wait until everything sent has arrived, then publish the changes of each partition.

        Return the partitions that are, or may be, no longer ours, with the reason: they must be loaded again.
        """
        self._sender.flush()
        if self._writers is not None:
            return self._writers.commit({number: self._messages(number, change) for number, change in changes.items()})
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
        """Publish states before alerts, so that every published alert is in a state.

        An alert that is in a state but was not published is published by the monitor that resumes from the state.
        """
        for number, change in changes.items():
            self._send_all(self._states(number, change))
        self._sender.flush()
        for change in changes.values():
            self._send_all(self._announcements(change))
        self._sender.flush()

    def _send_all(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self.send(message)

    def take_up(self, partition: int) -> StoredStates:
        """Take over a partition and return its stored states.

        1. Fence the previous owner: its open transaction is aborted, and it can publish nothing more.
        2. Read the states, which are therefore the last ones that it wrote.
        """
        if self._writers is not None:
            self._writers.open(partition)  # 1
        stored = StoredStates()
        with TopicScan(self._kafka, self._topics.detection, patience=_READ_PATIENCE_SECONDS) as scan:  # 2
            wanted = {partition: scan.ranges().get(partition, range(0))}
            for message in scan.read_within(wanted):
                stored.add(read_record(message))
        return stored

    def discard(self, partition: int, stored: StoredStates) -> None:
        """Remove unreadable states of a partition, so that they are not read again.

        1. Send them to the dead-letter topic.
        2. Replace each by an older state that can be read, or by none. One whose key is too long to be sent stays,
           and becomes a dead letter at every start.
        """
        refused = stored.list_refused()
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
            if len(record.key or b"") <= _MOST_KEY_BYTES
        ]
        if self._writers is None:
            self._send_all(messages)
            self._sender.flush()
        elif failures := self._writers.commit({partition: messages} if messages else {}):  # 2
            raise StageError(failures[partition])

    def publish_missing(self, partition: int, announced: Iterable[Alert]) -> None:
        """Publish alerts that are in the states of a partition but not on the topic; transactions leave none."""
        if self._writers is None and (missing := self._find_unpublished(announced)):
            self._publish_in_order({partition: Changes([], missing)})

    def release(self) -> None:
        """Release all partitions."""
        if self._writers is not None:
            self._writers.close()

    def _find_unpublished(self, alerts: Iterable[Alert]) -> list[Alert]:
        """Return the alerts that are newer than the last one of their series on the topic, which may keep only that."""
        wanted = list(alerts)
        if not wanted:
            return []
        last: dict[str, Alert] = {}
        with TopicScan(self._kafka, self._topics.alerts, patience=_READ_PATIENCE_SECONDS) as scan:
            for message in scan.read():
                alert = _alert(message)
                if alert is not None:
                    last[alert.key] = alert
        return list(_after(wanted, last))

    def close(self) -> None:
        """Stop waiting. Records that did not arrive are produced again from what is re-read at the next start."""
        self._sender.close()


def _alert(message: KafkaMessage) -> Alert | None:
    try:
        return Alert.read(message.value() or b"")
    except ValueError:
        return None


def _after(alerts: Sequence[Alert], last: Mapping[str, Alert]) -> Iterator[Alert]:
    """Yield the alerts that come after the last published one of their series."""
    for place, alert in enumerate(alerts):
        newest_published = last.get(alert.key)
        # Compared as a whole: late scores are dated like the newest, so two updates after them have the same time.
        if newest_published is None or (newest_published not in alerts[place:] and newest_published.at <= alert.at):
            yield alert
