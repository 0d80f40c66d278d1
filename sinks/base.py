"""The contracts of outputs: topic writers, and sinks that take evaluations to other places."""

import logging
from abc import ABC, abstractmethod
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
    """A sink cannot write at the moment; the same evaluations may be written later."""


class Sink(ABC):
    """Takes published evaluations somewhere else: a file, a database, a collector.

    A sink is constructed, opened, written to, and closed. Its constructor checks the settings, reaches out to nothing,
    and raises SinkError for what can never work. `write` raises SinkUnavailable when the same batch may be written
    later, and any other exception when it may not.

    Stages call sinks after the evaluations are committed to their topic, so a sink gets each at most once, and loses
    what it holds when the process crashes. The topic has them all. Stages call `write` in their own loop: a sink that
    may be slow is wrapped in a `QueuedSink`.
    """

    name: str
    """Identifies the sink in metrics and logs."""

    @property
    def applies_backpressure(self) -> bool:
        """Whether the stage should start no more records until this sink has caught up."""
        return False

    def open(self) -> None:  # noqa: B027 - a sink without connections has nothing to do
        """Connects. Raises SinkUnavailable, or OSError, when that may succeed later."""

    @abstractmethod
    def write(self, evaluations: Sequence[Evaluation], /) -> None:
        """Writes a batch, whole or not at all as far as it can."""

    def flush(self, seconds: float) -> None:  # noqa: B027
        """Makes durable what was written, within this time, where that takes an extra step."""

    def close(self, seconds: float) -> None:  # noqa: B027
        """Finishes what was written, within this time, and disconnects. Closing again does nothing."""


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


log = logging.getLogger(__name__)


def write_all(sinks: Iterable[Sink], evaluation: Evaluation) -> None:
    """A sink that raises is told of in the log; the others are told of the evaluation all the same."""
    for sink in sinks:
        try:
            sink.write((evaluation,))
        except Exception:
            log.exception("a sink failed on evaluation %s", evaluation.evaluation_id)
