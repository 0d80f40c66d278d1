"""Writers: a transactional producer for each partition of the scores topic that the monitor owns.

Its transactional id is that of the partition, so the broker accepts only the newest writer: a monitor that takes over a
partition fences its previous owner, even one that hangs and resumes later.
"""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from confluent_kafka import KafkaException

from sinks.base import Message
from stream.config.model import Config
from stream.errors import FencedError, StageError
from stream.kafka.producers.exclusive import ExclusiveProducer
from stream.kafka.producers.oversize import RefusedError

# If the broker is unavailable for longer, the partition is loaded again when it is back.
_PATIENCE_SECONDS = 10.0
# A transaction mostly waits for the broker, for some milliseconds; those of many partitions wait in parallel.
_AT_ONCE = 8


class PartitionWriters:
    """All calls wait for the broker; calls for the same partition must not overlap."""

    def __init__(self, config: Config) -> None:
        self._kafka, self._topic = config.kafka, config.topics.scores
        self._prefix = f"{config.monitor.group}-{self._topic}"
        self._writers: dict[int, ExclusiveProducer] = {}

    def open(self, partition: int) -> None:
        """Open a writer. After this, no other writer of the partition can publish or has a transaction in flight."""
        self.close([partition])
        self._writers[partition] = ExclusiveProducer(
            self._kafka,
            f"{self._prefix}-{partition}",
            work=f"monitor of {self._topic}/{partition}",
            done="published",
            seconds=_PATIENCE_SECONDS,
            # States are mostly digits.
            options={"compression.type": "gzip"},
        )

    def commit(self, messages: Mapping[int, Iterable[Message]]) -> dict[int, str]:
        """Publish the messages of each partition in one transaction per partition.

        Return the partitions that failed, with the reason: their messages were not published, or that is unknown. They
        must be opened again. Raise `RefusedError` for a record that is too large.
        """
        if not messages:
            return {}
        with ThreadPoolExecutor(min(len(messages), _AT_ONCE), "alerts") as pool:
            reasons = dict(zip(messages, pool.map(self._commit, messages, messages.values()), strict=True))
        return {partition: reason for partition, reason in reasons.items() if reason is not None}

    def close(self, partitions: Iterable[int] | None = None) -> None:
        """Close the writers of these partitions, or all."""
        for partition in list(self._writers) if partitions is None else partitions:
            if writer := self._writers.pop(partition, None):
                writer.close()

    def _commit(self, partition: int, messages: Iterable[Message]) -> str | None:
        writer = self._writers.get(partition)
        if writer is None:
            return "it was not assigned"
        try:
            writer.commit(messages)
        except RefusedError:
            raise
        except StageError as error:
            self.close([partition])
            return _reason(error)
        return None


def _reason(error: StageError) -> str:
    if isinstance(error, FencedError):
        return "another monitor has taken over"
    cause = error.__cause__
    return f"a transaction failed ({cause.args[0].str() if isinstance(cause, KafkaException) else error})"
