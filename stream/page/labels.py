"""Writes labels to their topic, and remembers recent ones until the archive has them."""

import logging
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import Message as KafkaMessage

from judges.criteria.criterion import Criterion
from judges.criteria.scale import Choice
from judges.values.label import Label
from sinks.archive.database import Database
from sinks.archive.reading.review import (
    LabelledEvaluation,
    StoredLabel,
    find_evaluation,
    find_label,
    find_verdict,
    is_in_sample,
)
from sinks.base import HIDDEN_LANES, Message
from sinks.page.backend import BackendError, NewLabel
from sinks.statistics.label_design import LabelQueue
from sinks.topics.results import LabelTopic
from stream.config.model import Config
from stream.config.sections.kafka import KafkaConfig
from stream.kafka.producers.oversize import RefusedError
from stream.kafka.producers.transactional import produce

log = logging.getLogger(__name__)

# The client gives up before the request fails: a label that was reported as failed must not appear later.
_DELIVERY_SECONDS = 8.0
_WAIT_SECONDS = 10.0
_POLL_SECONDS = 0.05
# Number of remembered labels: more than people write before the archivist has read them.
_MOST_REMEMBERED = 2000


class RecentLabels:
    """Recent labels and retractions of this process, which may not be in the archive yet."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._labels: OrderedDict[str, Label] = OrderedDict()
        self._retracted: OrderedDict[str, None] = OrderedDict()

    def add(self, label: Label) -> None:
        with self._lock:
            if label.retracts is None:
                self._labels[label.label_id] = label
            else:
                self._retracted[label.retracts] = None
            for entries in (self._labels, self._retracted):
                while len(entries) > _MOST_REMEMBERED:
                    entries.popitem(last=False)

    def find(self, label_id: str) -> StoredLabel | None:
        with self._lock:
            label = self._labels.get(label_id)
        if label is None:
            return None
        return StoredLabel(
            label_id=label_id,
            interaction_id=label.interaction_id,
            evaluation_id=label.evaluation_id,
            criterion=label.criterion,
            who=label.who,
            retracted=False,
        )

    def find_labelled(self, who: str, criterion: str) -> frozenset[str]:
        """Return the evaluations that a person has recently labelled."""
        with self._lock:
            return frozenset(
                label.evaluation_id
                for label_id, label in self._labels.items()
                if (label.who, label.criterion) == (who, criterion)
                and label.evaluation_id is not None
                and label_id not in self._retracted
            )

    def list_retracted(self) -> frozenset[str]:
        """Return the ids of recently retracted labels."""
        with self._lock:
            return frozenset(self._retracted)


def queue_of(config: Config) -> LabelQueue:
    """Return the queue of a configuration; a random one unless `labels.queue` is set."""
    queue = config.labels.queue
    if queue is None:
        return LabelQueue(rate=config.page.review_rate)
    lowest = queue.sampled_at or config.sampling.rate or 1.0
    return LabelQueue(rate=queue.rate, floor=queue.floor, lowest=lowest, threshold=queue.threshold)


class KafkaLabels:
    """Implements `sinks.page.backend.LabelWriter`."""

    def __init__(
        self,
        config: Config,
        database: Database,
        criteria: Mapping[str, Criterion],
        recent: RecentLabels,
        queue: LabelQueue,
    ) -> None:
        self._database, self._criteria, self._recent, self._queue = database, criteria, recent, queue
        self._topic = LabelTopic(config.topics.labels)
        self._producer = LabelProducer(config.kafka)

    def write(self, label: NewLabel) -> str:
        criterion, choice = self._choice(label.criterion, label.option)
        evaluation = self._find_evaluation(label.evaluation_id)
        record = Label(
            label_id=str(uuid.uuid4()),
            interaction_id=evaluation.interaction_id,
            evaluation_id=label.evaluation_id,
            criterion=label.criterion,
            option=choice.label.en,
            score=criterion.score(choice),
            who=label.who,
            labelled_at=datetime.now(UTC),
            probability=self._probability(label.evaluation_id, label.criterion, evaluation),
            comment=label.comment,
        )
        self._publish(record)
        return record.label_id

    def retract(self, label_id: str, *, who: str, may_retract_others: bool) -> None:
        label = self._find_label(label_id)
        if label.who != who and not may_retract_others:
            raise BackendError("this label was written by another reviewer", HTTPStatus.FORBIDDEN)
        retraction = Label(
            label_id=str(uuid.uuid4()),
            interaction_id=label.interaction_id,
            evaluation_id=label.evaluation_id,
            criterion=label.criterion,
            who=who,
            labelled_at=datetime.now(UTC),
            retracts=label_id,
        )
        self._publish(retraction)

    def close(self) -> None:
        self._producer.close()

    def _choice(self, name: str, option: str) -> tuple[Criterion, Choice]:
        criterion = self._criteria.get(name)
        if criterion is None:
            raise BackendError(f"there is no criterion {name!r}", HTTPStatus.BAD_REQUEST)
        choice = next((choice for choice in criterion.scale.choices if choice.label.en == option), None)
        if choice is None:
            options = ", ".join(choice.label.en for choice in criterion.scale.choices) or "none"
            raise BackendError(f"{name} has no option {option!r}; its options are: {options}", HTTPStatus.BAD_REQUEST)
        return criterion, choice

    def _find_evaluation(self, evaluation_id: str) -> LabelledEvaluation:
        with self._database.read() as connection:
            evaluation = find_evaluation(connection, evaluation_id)
        if evaluation is None:
            raise BackendError("this evaluation is not in the archive", HTTPStatus.NOT_FOUND)
        return evaluation

    def _probability(self, evaluation_id: str, criterion: str, evaluation: LabelledEvaluation) -> float | None:
        """Return the probability of being sampled and then queued; None for an answer outside the sample."""
        with self._database.read() as connection:
            verdict = find_verdict(connection, evaluation_id, criterion)
        if verdict is None or evaluation.lane in HIDDEN_LANES:
            return None
        chance = self._queue.probability(verdict.score, verdict.spread, evaluation.probability)
        return evaluation.probability * chance if is_in_sample(evaluation_id, chance) else None

    def _find_label(self, label_id: str) -> StoredLabel:
        label = self._recent.find(label_id)
        if label is None:
            with self._database.read() as connection:
                label = find_label(connection, label_id)
        if label is None or label.retracted or label_id in self._recent.list_retracted():
            raise BackendError("there is no such label, or it was already retracted", HTTPStatus.NOT_FOUND)
        return label

    def _publish(self, label: Label) -> None:
        for message in self._topic.messages(label):
            self._producer.send(message)
        self._recent.add(label)


class LabelProducer:
    """Sends records, and waits for the acknowledgement of each. Thread-safe; the first record opens the client."""

    def __init__(self, kafka: KafkaConfig) -> None:
        self._kafka = kafka
        self._lock = threading.Lock()
        self._client: Producer | None = None

    def send(self, message: Message) -> None:
        """Send a record; raises BackendError if the broker does not acknowledge it."""
        outcome: list[KafkaError | None] = []

        def report(error: KafkaError | None, _message: KafkaMessage) -> None:
            outcome.append(error)

        deadline = time.monotonic() + _WAIT_SECONDS
        try:
            client = self._open()
            produce(client, message, report)
            while not outcome and time.monotonic() < deadline:
                client.poll(_POLL_SECONDS)
        except RefusedError as error:
            raise BackendError(f"the label was not written: {error}") from None
        except KafkaException as error:
            outcome = [error.args[0]]
        if not outcome:
            raise BackendError(f"the label was not written to {message.topic}: the broker does not answer")
        if outcome[0] is not None:
            raise BackendError(f"the label was not written to {message.topic}: {outcome[0].str()}")

    def close(self) -> None:
        with self._lock:
            self._client = None

    def _open(self) -> Producer:
        with self._lock:
            if self._client is None:
                options = {
                    **self._kafka.client_options(),
                    "client.id": "streamjury-page",
                    "enable.idempotence": True,
                    "linger.ms": 0,
                    "message.timeout.ms": int(_DELIVERY_SECONDS * 1000),
                    "log_level": 4,
                }
                self._client = Producer(options, logger=log)
            return self._client
