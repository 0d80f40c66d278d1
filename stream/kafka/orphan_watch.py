"""The orphan watch: finds partitions that no member of a group reads, and has the group share them out again.

In a cooperative rebalance a member first releases partitions, then asks for a second rebalance that gives them to
others. If a member with a fixed name dies between the two and returns under its name, the broker gives it its old place
without a rebalance. The second one never happens, and the released partitions stay unread until the next.

The members are read by the client's older call for groups. The newer ones of `AdminClient` end the whole process if
the coordinator's connection breaks while they look for it (librdkafka issue 4605).
"""

import logging
import struct
import threading
import time
from collections.abc import Iterator, Mapping, Sequence

from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import AdminClient

from stream.config.sections.kafka import OptionValue
from stream.kafka.offsets import Partition, format_partitions

log = logging.getLogger(__name__)

# A partition that is moving from one member to another has its new reader by the second look.
_LOOK_SECONDS = 10.0
_CALL_SECONDS = 10.0
_POLL_SECONDS = 0.1


class OrphanWatch:
    """Looks at the whole group from time to time, in a thread, until it is closed."""

    def __init__(
        self, options: Mapping[str, OptionValue], membership: Mapping[str, OptionValue], topics: Sequence[str]
    ) -> None:
        """Watch the topics of a group; `membership` are the options with which its members join it."""
        self._options, self._membership, self._topics = options, membership, list(topics)
        self._orphans: frozenset[Partition] = frozenset()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"orphan watch {self._topics[0]}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop without waiting for the broker."""
        self._stop.set()

    def _run(self) -> None:
        admin = AdminClient({**self._options, "log_level": 3}, logger=log)
        while not self._stop.wait(_LOOK_SECONDS):
            admin.poll(0)  # passes on the client's log lines
            try:
                self._look(admin)
            except KafkaException as error:
                log.debug("cannot look at the members of %s: %s", self._group, error)

    @property
    def _group(self) -> str:
        return str(self._membership["group.id"])

    def _look(self, admin: AdminClient) -> None:
        before, self._orphans = self._orphans, self._find_orphans(admin)
        if lasting := before & self._orphans:
            log.warning(
                "%s: no member of the group reads %s; asking for a rebalance",
                self._group,
                format_partitions(lasting),
            )
            self._ask_for_rebalance()
            self._orphans = frozenset()

    def _find_orphans(self, admin: AdminClient) -> frozenset[Partition]:
        """Return the partitions without a reader; none if another member, the first by name, is the one to act."""
        for group in admin.list_groups(self._group, _CALL_SECONDS):
            first = min((str(member.client_id) for member in group.members), default="")
            if group.state == "Stable" and first == self._membership["client.id"]:
                owned = {place for member in group.members for place in read_assignment(member.assignment or b"")}
                return frozenset(self._partitions(admin) - owned)
        return frozenset()

    def _partitions(self, admin: AdminClient) -> set[Partition]:
        return {
            Partition(topic, number)
            for topic in self._topics
            for number in admin.list_topics(topic, _CALL_SECONDS).topics[topic].partitions
        }

    def _ask_for_rebalance(self) -> None:
        """Join the group as one more member, and leave it: the broker rebalances the group each time."""
        joined = threading.Event()
        guest = {name: value for name, value in self._membership.items() if name != "group.instance.id"}
        guest["client.id"] = f"{guest['client.id']}-guest"
        consumer = Consumer({**self._options, **guest, "log_level": 3}, logger=log)
        try:
            consumer.subscribe(self._topics, on_assign=lambda *_assigned: joined.set())
            deadline = time.monotonic() + _CALL_SECONDS
            while not (joined.is_set() or self._stop.is_set() or time.monotonic() > deadline):
                consumer.poll(_POLL_SECONDS)
        finally:
            consumer.close()


def read_assignment(data: bytes) -> Iterator[Partition]:
    """Read the partitions of a member as the consumer protocol writes them; none if it has no assignment.

    A version, the number of topics, and for each its name, the number of its partitions, and these. Later versions of
    the protocol add to the end only.
    """
    if not data:
        return
    _version, topics = struct.unpack_from(">hi", data)
    place = struct.calcsize(">hi")
    for _ in range(topics):
        (length,) = struct.unpack_from(">h", data, place)
        topic = data[place + 2 : place + 2 + length].decode()
        place += 2 + length
        (count,) = struct.unpack_from(">i", data, place)
        numbers = struct.unpack_from(f">{count}i", data, place + 4)
        place += 4 + 4 * count
        yield from (Partition(topic, number) for number in numbers)
