"""The kinds of sinks that a configuration can use, one module each: its section and its factory.

- `base`: the keys that all kinds share, and the other facts that a sink is made from
- `telemetry`: `kind: telemetry`, spans and events for an OpenTelemetry collector
- `jsonl`: `kind: jsonl`, evaluations as JSON Lines in a file
- `langfuse`: `kind: langfuse`, scores on the traces in Langfuse

A new kind is a module here and its class in `SINK_KINDS`.
"""

from typing import TYPE_CHECKING, Annotated, Union

from pydantic import Field

from stream.config.sink_kinds.base import SinkContext, SinkSection
from stream.config.sink_kinds.jsonl import JsonLinesSinkConfig
from stream.config.sink_kinds.langfuse import LangfuseSinkConfig
from stream.config.sink_kinds.telemetry import TelemetrySinkConfig
from stream.config.walk import DISCRIMINATOR

__all__ = ["SINK_KINDS", "SinkConfig", "SinkContext", "SinkSection", "TelemetrySinkConfig"]

SINK_KINDS = (
    TelemetrySinkConfig,
    JsonLinesSinkConfig,
    LangfuseSinkConfig,
)

if TYPE_CHECKING:
    SinkConfig = SinkSection
else:
    SinkConfig = Annotated[Union[SINK_KINDS], Field(discriminator=DISCRIMINATOR)]  # noqa: UP007 - made from a tuple
