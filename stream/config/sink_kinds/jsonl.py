"""The sink kind `jsonl`: evaluations as JSON Lines in a file."""

from typing import Literal

from pydantic import Field

from sinks.base import Sink
from sinks.jsonl import JsonLinesSink
from stream.config.section import Label
from stream.config.sink_kinds.base import PatientSinkSection, SinkContext


class JsonLinesSinkConfig(PatientSinkSection):
    """A file to which evaluations are appended, one JSON object per line, as on the evaluations topic."""

    kind: Literal["jsonl"] = Field(default="jsonl", description="Sink kind: a JSON Lines file.")
    name: Label = Field(default="jsonl", description="Name in metrics and logs; unique among the sinks.")
    path: str = Field(
        min_length=1,
        max_length=4096,
        description="File path; its folder must exist. Relative to the working directory.",
    )

    def make(self, context: SinkContext) -> Sink:
        return JsonLinesSink(self.path, name=self.name)
