"""The sink kind `jsonl`: evaluations as JSON Lines in a file."""

from typing import Literal

from pydantic import Field

from sinks.base import Sink
from sinks.jsonl import JsonLinesSink
from stream.config.section import Label
from stream.config.sink_kinds.base import PatientSinkSection, SinkContext


class JsonLinesSinkConfig(PatientSinkSection):
    """A file that evaluations are appended to, one JSON object a line, as on the topic of evaluations."""

    kind: Literal["jsonl"] = Field(default="jsonl", description="The kind of sink: a file of JSON Lines.")
    name: Label = Field(default="jsonl", description="Name in metrics and logs; unique among the sinks.")
    path: str = Field(
        min_length=1, max_length=4096, description="The file, in a folder that exists; a path from where it is run."
    )

    def make(self, context: SinkContext) -> Sink:
        return JsonLinesSink(self.path, name=self.name)
