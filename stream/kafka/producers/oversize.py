"""Replaces a record that its topic rejects for its size."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sinks.base import Headers, Message
from sinks.topics.dead_letters import OWN_HEADERS
from sinks.topics.headers import HEADERS_DROPPED, KEY_TRUNCATED_FROM, VALUE_TRUNCATED_FROM
from stream.errors import StageError

MAX_MESSAGE_BYTES = 90 * 1024 * 1024
"""The largest message that our clients send, before compression.

A broker that gets a request beyond its `socket.request.max.bytes` (100 MiB by default) does not refuse the record. It
closes the connection, and the client would try for ever. Records beyond that exist: topics limit the compressed size.
"""
# The part that is kept of a rejected value, and of its key and headers.
_CUT_BYTES = 256 * 1024
_CUT_ENVELOPE_BYTES = 16 * 1024
# Kafka writes the length of a name and of a value in at least one byte each: thousands of empty headers are large, too.
_HEADER_BYTES = 2


class RefusedError(StageError):
    """A record is too large for its topic or for any request, and may not be cut."""


def fit_to_limits(messages: Iterable[Message], refused: Sequence[Message], *, compressed: bool) -> list[Message]:
    """Replace refused messages by smaller ones, and also larger messages, which would be refused too."""
    limits: dict[str, int] = {}
    for message in () if compressed else refused:
        limits[message.topic] = min(_size(message), limits.get(message.topic, MAX_MESSAGE_BYTES))
    return [
        shrink(message)
        if message in refused or _size(message) >= limits.get(message.topic, MAX_MESSAGE_BYTES)
        else message
        for message in messages
    ]


def shrink(message: Message) -> Message:
    """Return the replacement for a message that is refused for its size; raise `RefusedError` if it has none."""
    if message.instead is not None:
        return message.instead()
    if not message.may_be_cut:
        raise refusal(message)
    return _truncate(message)


def refusal(message: Message) -> RefusedError:
    """Return the error for a message that is refused for its size."""
    size = _size(message)
    if size < MAX_MESSAGE_BYTES:
        return RefusedError(f"{message.topic} rejects a record of {size} bytes; raise its max.message.bytes")
    return RefusedError(f"a record of {size} bytes cannot be sent to {message.topic}; brokers close the connection")


def _truncate(message: Message) -> Message:
    """Keep the beginning of a rejected value, marked as truncated; the reason and the pointer to the source remain.

    Anyone who writes to the source can use names that begin like ours, so of the record's headers none is spared.
    """
    value, key = message.value or b"", message.key or b""
    ours = tuple(header for header in message.headers if header[0] in OWN_HEADERS)
    theirs = tuple(header for header in message.headers if header[0] not in OWN_HEADERS)
    marks = [(VALUE_TRUNCATED_FROM, len(value))]
    if len(key) > _CUT_ENVELOPE_BYTES:
        marks.append((KEY_TRUNCATED_FROM, len(key)))
    if _headers_size(theirs) > _CUT_ENVELOPE_BYTES:
        marks.append((HEADERS_DROPPED, len(theirs)))
        theirs = ()
    return replace(
        message,
        value=value[:_CUT_BYTES],
        key=message.key and key[:_CUT_ENVELOPE_BYTES],
        headers=(*theirs, *ours, *((name, str(number).encode()) for name, number in marks)),
        # If this is refused too, there is nothing left to cut.
        may_be_cut=False,
    )


def _size(message: Message) -> int:
    return len(message.key or b"") + len(message.value or b"") + _headers_size(message.headers)


def _headers_size(headers: Headers) -> int:
    return sum(_HEADER_BYTES + len(name.encode()) + len(value or b"") for name, value in headers)
