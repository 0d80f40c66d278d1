"""What an assembler must know about the past of a partition: the offset note, and the traces finished since.

The committed offset of a partition is that of its oldest open trace. A new owner reads from there, and so reads again
the spans of traces that were finished after it. It must not finish them twice. Finished traces are on `topics.traces`,
in the same transactions as the interactions. The note, committed with the offset, says where on that topic to begin.

    sja1|52718|6|48110

Version, the offset up to which the partition was processed, the number of partitions of the topic of finished traces,
and the first offset there that may matter.
"""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from sinks.base import SCHEMA, Message
from stream.config.sections.kafka import KafkaConfig
from stream.kafka.offsets import Partition
from stream.kafka.topic_scan import TopicScan

_NOTE = re.compile(r"sja1\|([0-9]{1,19})\|([0-9]{1,6})\|([0-9]{1,19})")


class TraceNote(NamedTuple):
    """The note of a partition."""

    position: int = 0
    """Records before this offset were processed: what they led to is published, except for open traces."""
    partitions: int = 0
    offset: int = 0

    @classmethod
    def read(cls, text: str) -> "TraceNote":
        """Read a note; without one, every finished trace may matter."""
        match = _NOTE.fullmatch(text)
        return cls(*map(int, match.groups())) if match else cls()

    def __str__(self) -> str:
        return f"sja1|{self.position}|{self.partitions}|{self.offset}"


class FinishedTrace(msgspec.Struct, kw_only=True):
    """A record of the topic of finished traces."""

    trace_id: str
    outcome: str
    spans: int
    """Number of its spans."""
    topic: str
    partition: int
    first_offset: int
    """Offset of the record with its first span ..."""
    next_offset: int
    """... and of the first record that was not read when it was finished."""


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(FinishedTrace)


def finished_message(topic: str, trace: FinishedTrace, partitions: int) -> Message:
    """Return the record of a finished trace, in the partition where the next owner looks for it."""
    return Message(
        topic=topic,
        key=trace.trace_id.encode(),
        value=_ENCODER.encode(trace),
        headers=(SCHEMA,),
        partition=trace.partition % partitions,
    )


def read_finished_trace(value: bytes | None) -> FinishedTrace | None:
    """Read a record of the topic, or None if it is not one."""
    try:
        return _DECODER.decode(value or b"")
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def read_finished(
    kafka: KafkaConfig, topic: str, partitions: int, notes: Mapping[Partition, TraceNote]
) -> Iterator[FinishedTrace]:
    """Yield the traces that were finished in these partitions, as far as they may matter; raises StageError."""
    with TopicScan(kafka, topic, whole=True) as scan:
        if any(note.partitions != partitions for note in notes.values()):  # they may be in any partition
            messages = scan.read()
        else:
            starts: dict[int, int] = {}
            for partition, note in notes.items():
                place = partition.number % partitions
                starts[place] = min(note.offset, starts.get(place, note.offset))
            messages = scan.read_from(starts)
        for message in messages:
            finished = read_finished_trace(message.value())
            if finished is not None and Partition(finished.topic, finished.partition) in notes:
                yield finished
