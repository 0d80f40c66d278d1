"""The contract of a sink: where something finished goes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from sinks.headers import SCHEMA_VERSION

SCHEMA = (SCHEMA_VERSION, b"1")
"""The header that says of which version a record of ours is; a later one is not read as if it were this."""

COMPOSITE = "composite"
"""The name that results of the composite have beside those of the criteria."""

UNKNOWN = "unknown"
"""What is counted under this name says none."""
OTHER = "other"
"""What is counted under this name is not told apart."""

Headers = tuple[tuple[str, bytes | None], ...]
T_contra = TypeVar("T_contra", contravariant=True)


# Reasons are for people and may quote input; a header should stay small.
_HEADER_CHARS = 1000


def our_headers(texts: Mapping[str, str]) -> Headers:
    """What we say of a record beside what it came with, and of which version that is."""
    # A surrogate in quoted input has no UTF-8 form; the reason must be written all the same.
    return (
        SCHEMA,
        *((name, text[:_HEADER_CHARS].encode("utf-8", "backslashreplace")) for name, text in texts.items()),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A record to be published."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int = -1
    """Where it must go; without a number its key decides."""

    may_be_cut: bool = False
    """Whether the beginning of the value is better than nothing when a topic takes no more."""
    instead: "Callable[[], Message] | None" = field(default=None, compare=False, repr=False)
    """What to publish when the topic takes no record of this size."""


class Sink(Protocol[T_contra]):
    """Takes one finished item.

    What must be published comes back as messages, so that the caller can send them in the transaction that commits
    their source offsets; a sink with no topic (metrics, a view) does its work and returns nothing.
    """

    def write(self, item: T_contra, /) -> Sequence[Message]: ...
