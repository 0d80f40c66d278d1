"""Settings of telemetry: the collector, the service name and the judges' models."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Literal
from urllib.parse import SplitResult, urlsplit

from sinks.base import SinkError
from sinks.text import explain_extra

Protocol = Literal["http", "grpc"]

SCOPE = "streamjury"
"""The instrumentation scope of our spans and events: a reader of traces recognises them by it."""

_HEADER_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_HEADER_VALUE = re.compile(r"[!-~]([ -~]*[!-~])?")
_SIGNALS = ("/v1/traces", "/v1/logs", "/v1/metrics")


class TelemetryError(SinkError):
    """Telemetry is on, but cannot work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeModel:
    """The model that a judge asks."""

    model: str
    provider: str
    """The provider of the protocol, as in the GenAI conventions: `openai`, `anthropic`."""

    address: str | None = None
    port: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetrySettings:
    """Checked at creation: a client would later log a wrong header, including its secret."""

    name: str = "telemetry"
    """The name of the sink, in our own metrics and logs."""

    endpoint: str
    """The collector's base address, such as http://collector:4318."""

    protocol: Protocol = "http"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    service_name: str = "streamjury"
    version: str
    judges: Mapping[str, JudgeModel] = field(default_factory=dict)
    """Judges that ask a model, by their names in verdicts."""

    explanations: bool = False
    """Whether to send the judges' explanations, which may quote the user."""

    on_trace: bool = True
    """Whether to add a span with the results to the trace of the interaction."""

    close_seconds: float = 3.0
    """Time to send the last telemetry at the end."""

    def __post_init__(self) -> None:
        check_endpoint(self.endpoint, self.protocol)
        for name, value in self.headers.items():
            check_header(name, value, self.protocol)


def check_endpoint(endpoint: str, protocol: Protocol) -> None:
    """Raise TelemetryError if this is not the address of a collector."""
    parts = _split(endpoint)
    if parts.path.rstrip("/").endswith(_SIGNALS):
        raise TelemetryError("endpoint", "must be the base URL; /v1/traces and /v1/logs are appended")
    if protocol == "grpc" and parts.path.strip("/"):
        raise TelemetryError("endpoint", "must have no path with gRPC, only a host and a port")


def _split(endpoint: str) -> SplitResult:
    try:
        parts = urlsplit(endpoint)
        usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not re.fullmatch(r"[!-~]+", endpoint) or "@" in parts.netloc or parts.query or parts.fragment:
        raise TelemetryError("endpoint", "must be an http or https URL such as http://localhost:4318")
    return parts


def check_header(name: str, value: str, protocol: Protocol) -> None:
    """Raise TelemetryError if the header cannot be sent; the message does not contain the value."""
    if not _HEADER_NAME.fullmatch(name):
        raise TelemetryError("headers", "must be a name of letters, digits, '.', '_' and '-'")
    if not _HEADER_VALUE.fullmatch(value):
        raise TelemetryError(f"headers.{name}", "must be printable ASCII without leading or trailing spaces")
    if protocol == "grpc" and (name.lower().startswith("grpc-") or name.lower().endswith("-bin")):
        raise TelemetryError(f"headers.{name}", "is a name reserved by gRPC")


def is_exporter_installed(protocol: Protocol) -> bool:
    try:
        return find_spec(f"opentelemetry.exporter.otlp.proto.{protocol}") is not None
    except ModuleNotFoundError:  # even the parent package is missing
        return False


def missing_exporter(protocol: Protocol) -> str:
    return f"the OTLP exporter for {protocol} is not installed; {explain_extra('otel')}"
