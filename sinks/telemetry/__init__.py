"""OpenTelemetry: every evaluation as spans and events for a collector. If off, it is not even imported.

- `settings`: the collector, the service name and the judges' models
- `sink`: the sink that sends evaluations, and never waits for the collector
- `spans`: an evaluation as spans and events
- `exporters`: OTLP over HTTP or gRPC
- `traceparent`: reads the trace that an interaction belongs to
"""

from typing import TYPE_CHECKING

from sinks.telemetry.settings import JudgeModel, TelemetryError, TelemetrySettings

if TYPE_CHECKING:
    from sinks.telemetry.sink import TelemetrySink

__all__ = ["JudgeModel", "TelemetryError", "TelemetrySettings", "open_telemetry"]


def open_telemetry(settings: TelemetrySettings) -> "TelemetrySink":
    """Open the sink that sends to the collector; raises TelemetryError if it never could. Close it in the end."""
    from sinks.telemetry.sink import TelemetrySink  # noqa: PLC0415 - a program without telemetry need not load it

    return TelemetrySink(settings)
