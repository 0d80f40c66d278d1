"""The contracts of outputs: topic writers, and sinks that send evaluations to other places."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, TypeVar

from judges.values.evaluation import Evaluation
from sinks.topics.headers import SCHEMA_VERSION

SCHEMA = (SCHEMA_VERSION, b"1")
"""The header with the version of our records; a record of a later version is not read as if it had this one."""

COMPOSITE = "composite"
"""The name of the composite among those of the criteria."""

UNKNOWN = "unknown"
"""The label of items without a name."""
OTHER = "other"
"""The label of items that are counted together."""

HIDDEN_LANES = ("canary", "backfill")
"""Lanes that are not live traffic: means leave them out, and lists show them only on request."""

Headers = tuple[tuple[str, bytes | None], ...]
T_contra = TypeVar("T_contra", contravariant=True)


# Reasons are for people and may quote input; a header should stay small.
_HEADER_CHARS = 1000


def our_headers(texts: Mapping[str, str]) -> Headers:
    """Return our own headers of a record, with their version."""
    # A surrogate in quoted input has no UTF-8 form, but the reason must still be written.
    return (
        SCHEMA,
        *((name, text[:_HEADER_CHARS].encode("utf-8", "backslashreplace")) for name, text in texts.items()),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A record to publish."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int = -1
    """The partition it must go to; -1: its key decides."""

    may_be_cut: bool = False
    """Whether to publish the beginning of the value if the whole is too large for the topic."""
    instead: "Callable[[], Message] | None" = field(default=None, compare=False, repr=False)
    """Makes the replacement if the record is too large for the topic."""


class TopicWriter(Protocol[T_contra]):
    """Turns a finished item into messages for a topic.

    The caller sends them in the transaction that commits their source offsets: each is published exactly once.
    """

    def messages(self, item: T_contra, /) -> Sequence[Message]: ...


class SinkError(Exception):
    """The settings of a sink can never work; `setting` is the key to change, or empty."""

    def __init__(self, setting: str, words: str) -> None:
        super().__init__(f"{setting}: {words}" if setting else words)
        self.words = words


class SinkUnavailable(Exception):  # noqa: N818 - a state of the other side, not a mistake
    """A sink cannot write at the moment; the same evaluations may be written later.

    `retry_after` is the wait in seconds that the other side asks for, if it does.
    """

    def __init__(self, words: str, *, retry_after: float | None = None) -> None:
        super().__init__(words)
        self.retry_after = retry_after


class SinkRefused(Exception):  # noqa: N818 - a decision of the other side, not a mistake
    """The other side refused `number` evaluations of a batch for good; all the others are written."""

    def __init__(self, number: int, words: str) -> None:
        super().__init__(words)
        self.number = number


class Sink(ABC):
    """Sends published evaluations somewhere else: a file, a database, a collector.

    A sink is constructed, opened, written to, and closed. Its constructor checks the settings without connecting, and
    raises SinkError if they can never work. `write` raises SinkUnavailable if the same batch may be written later,
    SinkRefused if some of it was refused for good, and any other exception if all of it was.

    Stages call sinks after the evaluations are committed to their topic, so a sink gets each at most once, and loses
    the evaluations it holds when the process crashes. The topic has them all. Stages call `write` in their own loop: a
    sink that may be slow is wrapped in a `QueuedSink`. A sink whose writes can be repeated may instead be fed from the
    topic, and then gets each evaluation at least once.
    """

    name: str
    """Identifies the sink in metrics and logs."""

    @property
    def applies_backpressure(self) -> bool:
        """Whether the stage should start no more records until this sink has caught up."""
        return False

    def open(self) -> None:  # noqa: B027 - a sink without connections has nothing to do
        """Connect; raises SinkUnavailable or OSError if that may succeed later."""

    @abstractmethod
    def write(self, evaluations: Sequence[Evaluation], /) -> None:
        """Write a batch, if possible whole or not at all."""

    def flush(self, seconds: float) -> None:  # noqa: B027
        """Make written evaluations durable within this time, if that takes an extra step."""

    def close(self, seconds: float) -> None:  # noqa: B027
        """Finish writing within this time, and disconnect. Closing again does nothing."""


class Stage(StrEnum):
    ASSEMBLER = "assembler"
    SAMPLER = "sampler"
    WORKER = "worker"
    MONITOR = "monitor"
    ARCHIVIST = "archivist"


class Outcome(StrEnum):
    """The outcome of a record in a stage; `consumed` is the sum of the others, counted separately."""

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
    """Its app exceeded its fair share; it is judged after the others."""
    DEADLETTER = "deadletter"
    REFUSED = "refused"
    """It cannot be used, and the archivist leaves dead letters to the stage that the record is for."""
    SEEN = "seen"
    REPEATED = "repeated"


log = logging.getLogger(__name__)


def write_all(sinks: Iterable[Sink], evaluation: Evaluation) -> None:
    """Write an evaluation to all sinks; log a sink that raises, and go on with the others."""
    for sink in sinks:
        try:
            sink.write((evaluation,))
        except Exception:
            log.exception("a sink failed on evaluation %s", evaluation.evaluation_id)
