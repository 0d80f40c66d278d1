"""The progress of the stages: end offsets of topics and committed offsets of groups, in few requests to the broker."""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import NamedTuple, Self, TypeVar

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]
from sqlalchemy import select

from sinks.archive.database import ArchiveUnavailable, Database
from sinks.archive.tables import positions
from sinks.page.backend import FunnelStep, GroupLag, PipelineState
from stream.config.model import Config
from stream.config.sections.kafka import KafkaConfig
from stream.errors import StageError
from stream.kafka.embedded import is_embedded
from stream.kafka.errors import DENIED
from stream.kafka.offsets import Partition
from stream.kafka.topic_scan import open_bystander
from stream.page.letter_index import LetterIndex
from stream.page.refreshed import RefreshedValue

log = logging.getLogger(__name__)
T = TypeVar("T")

_REFRESH_SECONDS = 3.0
_CALL_SECONDS = 10.0
# Permission may be given later.
_DENIED_SECONDS = 1.0
_ERRORS = 100
_EARLIEST, _LATEST = OffsetSpec.earliest(), OffsetSpec.latest()  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnStages:
    """Counts that are more exact than those of the broker, from a process that runs all stages."""

    count_funnel: Callable[[], Sequence[FunnelStep]]
    """Counts the records of this process; offsets of topics also count transaction markers."""
    count_unseen: Callable[[], int]
    """Counts the evaluations of this process that its monitor has not seen. The monitor commits its offsets a few
    seconds late, and much later on an embedded broker."""


class PipelinePositions:
    """Implements `sinks.page.backend.Pipeline`."""

    def __init__(
        self,
        config: Config,
        letters: LetterIndex,
        database: Database | None = None,
        own: OwnStages | None = None,
    ) -> None:
        """`own` is None if other processes run the stages."""
        self._config, self._letters, self._database, self._own = config, letters, database, own
        self._admin: AdminClient | None = None
        self._readers: dict[str, _GroupReader] = {}
        self._offsets = RefreshedValue(self._read, seconds=_REFRESH_SECONDS, name="the progress of the stages")

    def state(self) -> PipelineState:
        offsets, letters, own = self._offsets.wait(), self._letters.read(), self._own
        return PipelineState(
            funnel=offsets.funnel if own is None else own.count_funnel(),
            lag=offsets.lag,
            dead_letters=letters.unreplayed,
            dead_letters_by_reason=letters.by_reason,
        )

    def count_waiting(self) -> int | None:
        offsets = self._offsets.latest()
        if offsets is None:
            return None
        return sum(lag.lag for lag in offsets.lag if lag.group == self._config.worker.group)

    def close(self) -> None:
        if self._offsets.close():
            self._disconnect()

    def _read(self) -> "_Offsets":
        if self._admin is None:
            self._admin = AdminClient({**self._config.kafka.client_options(), "log_level": 3}, logger=log)
        try:
            return self._read_offsets(self._admin)
        except KafkaException as error:
            self._disconnect()
            raise StageError(f"cannot read the progress of the stages: {error.args[0].str()}") from error

    def _disconnect(self) -> None:
        """Use new clients next time: one that asks while no broker is listed may never find one again."""
        self._admin = None
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()

    def _read_offsets(self, admin: AdminClient) -> "_Offsets":
        topics, groups = self._config.topics, self._groups()
        wanted = {topics.interactions, *(topic for names in groups.values() for topic in names)}
        extents = _Extents.read(admin, wanted, plain=topics.interactions)
        lag = [
            GroupLag(group=group, topic=topic, lag=extents.count_unread(topic, offsets))
            for group, names in groups.items()
            for offsets in [self._read_committed(group, [place for place in extents.ends if place.topic in names])]
            for topic in names
            if topic in extents.topics and offsets is not None
        ]
        names = {"interactions": topics.interactions, "sampled": topics.sampled, "evaluations": topics.evaluations}
        funnel = [FunnelStep(name=name, records=extents.size(topic)) for name, topic in names.items()]
        if self._own is not None and extents.is_embedded:
            unseen, monitor = self._own.count_unseen(), self._config.monitor.group
            lag = [replace(item, lag=min(item.lag, unseen)) if item.group == monitor else item for item in lag]
        return _Offsets(funnel, [*lag, *self._archive_lag(extents)])

    def _read_committed(self, group: str, partitions: Sequence[Partition]) -> dict[Partition, int] | None:
        """Return the committed offsets of a group; None if we are not allowed to read them."""
        if not partitions:
            return {}
        if group not in self._readers:
            self._readers[group] = _GroupReader(self._config.kafka, group)
        return self._readers[group].read(partitions)

    def _groups(self) -> Mapping[str, Sequence[str]]:
        """Return the topics that each group reads."""
        config, topics = self._config, self._config.topics
        return {
            config.sampler.group: (topics.interactions,),
            config.worker.group: (topics.sampled, *config.retry_topics, topics.overflow),
            config.monitor.group: (topics.evaluations,),
        }

    def _archive_lag(self, extents: "_Extents") -> Iterator[GroupLag]:
        """Yield the lag of the archivists, whose offsets are in the archive."""
        if self._database is None:
            return
        query = select(positions.c.topic, positions.c.partition, positions.c.next_offset)
        try:
            with self._database.read() as connection:
                rows = connection.execute(query).all()
        except ArchiveUnavailable:
            return
        offsets = {Partition(topic, number): offset for topic, number, offset in rows}
        group = self._config.archive.group
        for topic in dict.fromkeys(place.topic for place in offsets if place in extents.ends):
            yield GroupLag(group=group, topic=topic, lag=extents.count_unread(topic, offsets))


class _GroupReader:
    """Reads the committed offsets of a group without joining it.

    `AdminClient` has a call for this, but it ends the whole process if the connection to the coordinator breaks while
    it looks for it (librdkafka issue 3663).
    """

    def __init__(self, kafka: KafkaConfig, group: str) -> None:
        self._consumer = open_bystander(kafka, "read_uncommitted", group=group)
        self._is_denied = False

    def close(self) -> None:
        self._consumer.close()

    def read(self, partitions: Iterable[Partition]) -> dict[Partition, int] | None:
        """Return the offset of each partition, 0 without a commit; None if we are not allowed to read them."""
        places = [TopicPartition(*partition) for partition in partitions]
        self._is_denied |= self._is_refused()
        try:
            committed = self._consumer.committed(places, _DENIED_SECONDS if self._is_denied else _CALL_SECONDS)
            if errors := [place.error for place in committed if place.error is not None]:
                raise KafkaException(errors[0])
        except KafkaException as error:
            # Without the right to find the coordinator, the call itself only times out.
            self._is_denied |= error.args[0].code() in DENIED or self._is_refused()
            if self._is_denied:
                return None
            raise
        self._is_denied = False
        return {Partition(place.topic, place.partition): max(0, place.offset) for place in committed}

    def _is_refused(self) -> bool:
        """Without partitions, a poll returns no records, only errors; the client repeats none."""
        errors = [message.error() for message in self._consumer.consume(_ERRORS, 0)]
        return any(error is not None and error.code() in DENIED for error in errors)


class _Offsets(NamedTuple):
    funnel: Sequence[FunnelStep]
    lag: Sequence[GroupLag]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Extents:
    """The first offsets and the ends of topics."""

    first: Mapping[Partition, int]
    ends: Mapping[Partition, int]
    plain: str
    """The topic that is written without transactions."""
    is_embedded: bool

    @classmethod
    def read(cls, admin: AdminClient, topics: Collection[str], *, plain: str) -> Self:
        cluster = admin.list_topics(timeout=_CALL_SECONDS)
        described = cluster.topics
        existing = sorted(described.keys() & topics)
        partitions = [Partition(topic, number) for topic in existing for number in described[topic].partitions]
        first, ends = (_list_offsets(admin, partitions, spec) for spec in (_EARLIEST, _LATEST))
        return cls(first=first, ends=ends, plain=plain, is_embedded=is_embedded(cluster.cluster_id))

    @property
    def topics(self) -> frozenset[str]:
        return frozenset(place.topic for place in self.ends)

    def size(self, topic: str) -> int:
        return sum(end - self.first[place] for place, end in self.ends.items() if place.topic == topic)

    def count_unread(self, topic: str, offsets: Mapping[Partition, int]) -> int:
        """Return the number of records that a group has not read, without records that were deleted unread.

        The last offset of a partition that is written in transactions is a transaction marker, not a record.
        """
        marks = 0 if topic == self.plain else 1
        ends = {place: end for place, end in self.ends.items() if place.topic == topic}
        unread = [end - max(self.first[place], offsets.get(place, 0)) for place, end in ends.items()]
        return sum(max(0, number - marks) for number in unread)


def _list_offsets(admin: AdminClient, partitions: Iterable[Partition], spec: OffsetSpec) -> dict[Partition, int]:
    places = {TopicPartition(*partition): spec for partition in partitions}
    if not places:
        return {}
    # Only committed records, as the stages read them.
    answers = admin.list_offsets(places, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=_CALL_SECONDS)
    return {Partition(place.topic, place.partition): _result(answer).offset for place, answer in answers.items()}


def _result(answer: "Future[T]") -> T:
    return answer.result(_CALL_SECONDS + 1.0)
