"""The keys that all kinds of sinks share, and the other facts that a sink is made from."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ConfigDict, Field

from sinks.base import Sink
from sinks.queued import DEFAULT_QUEUE, WhenFull
from sinks.telemetry import JudgeModel
from stream.config.section import Label, Section
from stream.config.sections.stages import Identifier
from stream.config.walk import DISCRIMINATOR


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkContext:
    """Facts about the whole configuration that a sink may report."""

    version: str
    """The version of Streamjury."""

    judges: Mapping[str, JudgeModel]
    """Judges that ask a model, by their names in verdicts."""


def _require_kind(schema: dict[str, Any]) -> None:
    schema["required"] = [DISCRIMINATOR, *schema.get("required", [])]


class SinkSection(Section):
    """Keys of every sink: Python may leave out the kind, a file may not."""

    model_config = ConfigDict(json_schema_extra=_require_kind)

    kind: str = Field(description="Sink kind.")
    name: Label = Field(description="Name in metrics and logs; unique among the sinks.")

    def missing_extra(self) -> str | None:
        """Return how to install a missing package that the sink needs, or None."""
        return None

    @abstractmethod
    def make(self, context: SinkContext) -> Sink:
        """Make the sink without opening it; raises SinkError if it can never work."""


class QueuedSinkSection(SinkSection):
    """Keys of sinks that a worker writes to, through a queue in memory: each evaluation at most once."""

    queue: int = Field(
        default=DEFAULT_QUEUE, ge=1, le=10_000_000, description="Maximum evaluations queued for the sink."
    )

    @property
    def overflow(self) -> WhenFull:
        """The reaction to a full queue."""
        return "drop"


class ConsumerSinkSection(SinkSection):
    """Keys of sinks that read the evaluations topic and commit after they have written: each at least once."""

    group: Identifier | None = Field(
        default=None,
        description="Consumer group that reads the evaluations for the sink; null: streamjury-sink-NAME.",
    )
    batch: int = Field(
        default=100, ge=1, le=1000, description="Maximum evaluations read, written and committed at once."
    )

    @property
    def group_name(self) -> str:
        return self.group or f"streamjury-sink-{self.name}"


class PatientSinkSection(QueuedSinkSection):
    """Keys of sinks that may have the worker wait for them."""

    when_full: WhenFull = Field(
        default="drop",
        description="When the queue is full: drop the newest evaluations, or wait and start no more records.",
    )

    @property
    def overflow(self) -> WhenFull:
        return self.when_full
