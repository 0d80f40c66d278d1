"""The contract of a sink: where something finished goes."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, TypeVar

from judges.values.evaluation import Evaluation
from sinks.topics.headers import SCHEMA_VERSION

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


class Stage(StrEnum):
    SAMPLER = "sampler"
    WORKER = "worker"
    MONITOR = "monitor"


class Outcome(StrEnum):
    """What became of a record in a stage; `consumed` is their sum, counted by itself."""

    CONSUMED = "consumed"
    FILTERED = "filtered"
    SAMPLED_OUT = "sampled_out"
    SAMPLED = "sampled"
    SHED = "shed"
    SCORED = "scored"
    UNSCORED = "unscored"
    PARKED = "parked"
    """Its judges could not be reached in time; it is judged again later."""
    DEFERRED = "deferred"
    """Its app had more than its share; it is judged after the others."""
    DEADLETTER = "deadletter"
    SEEN = "seen"
    REPEATED = "repeated"
    UNREADABLE = "unreadable"


log = logging.getLogger(__name__)


def write_all(sinks: Iterable[Sink[Evaluation]], evaluation: Evaluation) -> None:
    """A sink that raises is told of in the log; the others are told of the evaluation all the same."""
    for sink in sinks:
        try:
            sink.write(evaluation)
        except Exception:
            log.exception("a sink failed on evaluation %s", evaluation.evaluation_id)
