"""Exporters to the collector: OTLP over HTTP or gRPC, with clients that are an optional installation."""

from collections.abc import Mapping
from typing import NamedTuple

from opentelemetry.sdk._logs.export import LogRecordExporter
from opentelemetry.sdk.trace.export import SpanExporter

from sinks.telemetry.settings import TelemetryError, TelemetrySettings, missing_exporter

# Per batch, including retries and delays: what the collector has not accepted by then is dropped.
_EXPORT_SECONDS = 5


class Exporters(NamedTuple):
    spans: SpanExporter
    events: LogRecordExporter


def open_exporters(settings: TelemetrySettings) -> Exporters:
    """Open clients of the collector; they connect only when there is something to send."""
    base, headers = settings.endpoint.rstrip("/"), {name.lower(): value for name, value in settings.headers.items()}
    try:
        return _over_http(base, headers) if settings.protocol == "http" else _over_grpc(base, headers)
    except ImportError as error:
        raise TelemetryError("endpoint", missing_exporter(settings.protocol)) from error


def _over_http(base: str, headers: Mapping[str, str]) -> Exporters:
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter  # noqa: PLC0415 - optional
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 - optional

    return Exporters(
        OTLPSpanExporter(f"{base}/v1/traces", headers=headers, timeout=_EXPORT_SECONDS),
        OTLPLogExporter(f"{base}/v1/logs", headers=headers, timeout=_EXPORT_SECONDS),
    )


def _over_grpc(base: str, headers: Mapping[str, str]) -> Exporters:
    from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter  # noqa: PLC0415 - optional
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 - optional

    plain = base.startswith("http://")
    return Exporters(
        OTLPSpanExporter(base, insecure=plain, headers=dict(headers), timeout=_EXPORT_SECONDS),
        OTLPLogExporter(base, insecure=plain, headers=dict(headers), timeout=_EXPORT_SECONDS),
    )
