"""Dead letters: records that could not be processed, kept with their original bytes and the reason."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sinks.base import Headers, Message, our_headers
from sinks.topics.headers import (
    ATTEMPTS,
    ERROR_MESSAGE,
    ERROR_STAGE,
    ERROR_TYPE,
    FAILED_AT,
    SCHEMA_VERSION,
    SOURCE_OFFSET,
    SOURCE_PARTITION,
    SOURCE_TOPIC,
)

OWN_HEADERS = frozenset(
    {
        SCHEMA_VERSION,
        ERROR_STAGE,
        ERROR_TYPE,
        ERROR_MESSAGE,
        ATTEMPTS,
        SOURCE_TOPIC,
        SOURCE_PARTITION,
        SOURCE_OFFSET,
        FAILED_AT,
    }
)
"""The headers that a dead letter adds to its record, and replaces if the record has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A source record, its origin, and the reason why it was dead-lettered."""

    stage: str
    error_type: str
    error_message: str
    attempts: int
    topic: str
    partition: int
    offset: int
    failed_at: datetime
    key: bytes | None
    value: bytes | None
    headers: Headers


class DeadLetterTopic:
    """Publishes dead letters under the key of the source record."""

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def messages(self, item: DeadLetter, /) -> Sequence[Message]:
        reason = {
            ERROR_STAGE: item.stage,
            ERROR_TYPE: item.error_type,
            ERROR_MESSAGE: item.error_message,
            ATTEMPTS: str(item.attempts),
            SOURCE_TOPIC: item.topic,
            SOURCE_PARTITION: str(item.partition),
            SOURCE_OFFSET: str(item.offset),
            FAILED_AT: item.failed_at.isoformat(),
        }
        # A record that failed before keeps only its latest reason.
        others = tuple(header for header in item.headers if header[0] not in OWN_HEADERS)
        headers = others + our_headers(reason)
        return (Message(topic=self._topic, key=item.key, value=item.value, headers=headers, may_be_cut=True),)
