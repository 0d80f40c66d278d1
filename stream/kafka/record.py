"""Records: converts them from the client's form into ours, and into dead letters if they cannot be used."""

from datetime import UTC, datetime
from typing import NamedTuple, cast

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE
from confluent_kafka import Message as KafkaMessage

from sinks.base import SCHEMA, Headers
from sinks.topics.dead_letters import DeadLetter
from sinks.topics.headers import SCHEMA_VERSION
from stream.errors import RecordError
from stream.kafka.offsets import Partition

_EARLIEST, _LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(3000, 1, 1, tzinfo=UTC)


class Record(NamedTuple):
    """One record as read from a topic."""

    partition: Partition
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    problem: str | None = None
    """Why the record could not be read completely."""
    written_at: float | None = None
    """Its timestamp in Unix time; None if it has none."""


def read_record(message: KafkaMessage) -> Record:
    """Convert a message; if its headers cannot be read, the record has none, and a `problem`.

    For a header name that is not UTF-8 the client leaves an exception behind, which surfaces in the next call,
    whichever that is: hence the try around all of it.
    """
    try:
        # The client's type stub also names forms that it accepts but never returns.
        headers = cast("list[tuple[str, bytes | None]] | None", message.headers())
        return _record_with(message, tuple(headers or ()))
    except (SystemError, UnicodeDecodeError):
        return _record_with(message, (), problem="a header's name is not UTF-8")


def _record_with(message: KafkaMessage, headers: Headers, problem: str | None = None) -> Record:
    kind, milliseconds = message.timestamp()
    return Record(
        partition_of(message),
        message.offset() or 0,
        _bytes(message.key()),
        _bytes(message.value()),
        headers,
        problem,
        None if kind == TIMESTAMP_NOT_AVAILABLE else milliseconds / 1000,
    )


def partition_of(message: KafkaMessage) -> Partition:
    return Partition(message.topic() or "", message.partition() or 0)


def whole_value(record: Record) -> bytes | None:
    """Return the value of a record; raises RecordError if it was not read completely."""
    if record.problem is not None:
        raise RecordError("bad_headers", record.problem)
    return record.value


def schema_of(record: Record) -> bytes | None:
    """Return the schema header of a record, for `check_version`; None if it has none."""
    return dict(record.headers).get(SCHEMA_VERSION)


def check_version(schema: bytes | None) -> None:
    """Raise RecordError if the schema header shows that only a later version can read the record."""
    if schema not in {None, SCHEMA[1]}:
        raise RecordError("unsupported_version", f"has version {schema!r}; upgrade the monitor")


def check_moment(moment: datetime) -> None:
    """Raise RecordError for a time that none of our clocks shows; the first and the last ones do not exist in UTC."""
    if not _EARLIEST <= moment <= _LATEST:
        raise RecordError("bad_time", f"the time {moment.isoformat()} is not between 1970 and 3000")


def dead_letter(record: Record, error: RecordError, *, stage: str, attempts: int = 1) -> DeadLetter:
    """Make a dead letter of a record."""
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
