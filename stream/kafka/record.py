"""Records as they are read: from the client's form into ours, and into dead letters when they cannot be used."""

from datetime import UTC, datetime
from typing import NamedTuple, cast

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE
from confluent_kafka import Message as KafkaMessage

from sinks.base import SCHEMA, Headers
from sinks.topics.dead_letters import DeadLetter
from stream.errors import RecordError
from stream.kafka.offsets import Partition


class Record(NamedTuple):
    """One record as it was read."""

    partition: Partition
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    problem: str | None = None
    """What kept the record from being read whole."""
    written_at: float | None = None
    """Its timestamp in Unix time; None if it has none."""


def read_record(message: KafkaMessage) -> Record:
    """A record as it was read; one whose headers cannot be read comes without them and says so.

    For a header name that is not UTF-8 the client leaves an exception behind, which surfaces in whatever call comes
    next: hence the try around all of it.
    """
    try:
        # The client's type stub also names the forms that it takes and never gives.
        headers = cast("list[tuple[str, bytes | None]] | None", message.headers())
        return _record_with(message, tuple(headers or ()))
    except (SystemError, UnicodeDecodeError):
        return _record_with(message, (), problem="a header's name is not UTF-8")


def _record_with(message: KafkaMessage, headers: Headers, problem: str | None = None) -> Record:
    kind, milliseconds = message.timestamp()
    return Record(
        partition=partition_of(message),
        offset=message.offset() or 0,
        key=_bytes(message.key()),
        value=_bytes(message.value()),
        headers=headers,
        problem=problem,
        written_at=None if kind == TIMESTAMP_NOT_AVAILABLE else milliseconds / 1000,
    )


def partition_of(message: KafkaMessage) -> Partition:
    return Partition(message.topic() or "", message.partition() or 0)


def readable(record: Record) -> bytes | None:
    """The value of a record that came whole."""
    if record.problem is not None:
        raise RecordError("bad_headers", record.problem)
    return record.value


def check_version(schema: bytes | None) -> None:
    """Raises for a record of ours, by the value of its header, that only a later version can read."""
    if schema not in {None, SCHEMA[1]}:
        raise RecordError("unsupported_version", f"has version {schema!r}; upgrade the monitor")


def dead_letter(record: Record, error: RecordError, *, stage: str, attempts: int = 1) -> DeadLetter:
    """What is known about a record that was given up."""
    return DeadLetter(
        stage=stage,
        error_type=error.kind,
        error_message=str(error),
        attempts=attempts,
        topic=record.partition.topic,
        partition=record.partition.number,
        offset=record.offset,
        failed_at=datetime.now(UTC),
        key=record.key,
        value=record.value,
        headers=record.headers,
    )


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
