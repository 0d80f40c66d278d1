"""Kinds of sinks that can be configured: one file each, with its section and the sink that is made from it.

A new kind is a file here and a line in `SINK_KINDS`.
"""

from typing import TYPE_CHECKING, Annotated, Union

from pydantic import Field

from stream.config.sink_kinds.base import SinkContext, SinkSection
from stream.config.sink_kinds.jsonl import JsonLinesSinkConfig
from stream.config.sink_kinds.telemetry import TelemetrySinkConfig
from stream.config.walk import DISCRIMINATOR

__all__ = ["SINK_KINDS", "SinkConfig", "SinkContext", "SinkSection", "TelemetrySinkConfig"]

SINK_KINDS = (
    TelemetrySinkConfig,
    JsonLinesSinkConfig,
)

if TYPE_CHECKING:
    SinkConfig = SinkSection
else:
    SinkConfig = Annotated[Union[SINK_KINDS], Field(discriminator=DISCRIMINATOR)]  # noqa: UP007 - made from a tuple
