"""The sink kind `telemetry`: evaluations as spans and events for an OpenTelemetry collector."""

from typing import Literal

from pydantic import Field

from sinks.base import Sink
from sinks.telemetry import TelemetrySettings, open_telemetry
from sinks.telemetry.settings import is_exporter_installed, missing_exporter
from stream.config.section import Label
from stream.config.sections.observability import Address, TelemetryConfig
from stream.config.sink_kinds.base import QueuedSinkSection, SinkContext

KIND: Literal["telemetry"] = "telemetry"


class TelemetrySinkConfig(TelemetryConfig, QueuedSinkSection):
    """OpenTelemetry: a span for every evaluation and verdict, and an event for every result."""

    kind: Literal["telemetry"] = Field(default=KIND, description="Sink kind: an OpenTelemetry collector.")
    name: Label = Field(default=KIND, description="Name in metrics and logs; unique among the sinks.")
    endpoint: Address = Field(description="URL of an OTLP collector, such as http://localhost:4318.")

    @classmethod
    def of_section(cls, telemetry: TelemetryConfig) -> "TelemetrySinkConfig | None":
        """Return the sink of the section `telemetry`, or None without an endpoint."""
        if telemetry.endpoint is None:
            return None
        return cls.model_validate(dict(telemetry))

    def missing_extra(self) -> str | None:
        return None if is_exporter_installed(self.protocol) else missing_exporter(self.protocol)

    def make(self, context: SinkContext) -> Sink:
        settings = TelemetrySettings(
            name=self.name,
            endpoint=self.endpoint,
            protocol=self.protocol,
            headers={name: value.get_secret_value() for name, value in self.headers.items()},
            service_name=self.service_name,
            version=context.version,
            judges=context.judges,
            explanations=self.explanations,
            on_trace=self.on_trace,
        )
        return open_telemetry(settings)
