"""OpenTelemetry collectors on real sockets, over HTTP and gRPC, that keep what they receive or misbehave."""

import threading
import time
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc  # type: ignore[import-untyped]
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2_grpc
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span

Attributes = dict[str, object]


@dataclass
class Collected:
    """Everything a collector has received, and how it behaves."""

    url: str = ""
    status: int = 200
    delay: float = 0.0
    requests: int = 0
    trace_requests: list[ExportTraceServiceRequest] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    events: list[LogRecord] = field(default_factory=list)
    resources: list[Attributes] = field(default_factory=list)
    scopes: list[tuple[str, str]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    def span(self, name: str) -> Span:
        [match] = [span for span in self.spans if span.name == name]
        return match

    def event(self, name: str) -> LogRecord:
        """Return the event with the result of one criterion."""
        [match] = [event for event in self.events if attributes_of(event)["gen_ai.evaluation.name"] == name]
        return match

    def add_traces(self, request: ExportTraceServiceRequest) -> None:
        self.trace_requests.append(request)
        for resource_spans in request.resource_spans:
            self.resources.append(_plain(resource_spans.resource.attributes))
            for scope in resource_spans.scope_spans:
                self.scopes.append((scope.scope.name, scope.scope.version))
                self.spans.extend(scope.spans)

    def add_logs(self, request: ExportLogsServiceRequest) -> None:
        for resource_logs in request.resource_logs:
            self.resources.append(_plain(resource_logs.resource.attributes))
            for scope in resource_logs.scope_logs:
                self.events.extend(scope.log_records)


def attributes_of(record: Span | LogRecord) -> Attributes:
    return _plain(record.attributes)


def _plain(attributes: Any) -> Attributes:
    return {pair.key: _value(pair) for pair in attributes}


def _value(pair: KeyValue) -> object:
    value: AnyValue = pair.value
    kind = value.WhichOneof("value")
    return None if kind is None else getattr(value, kind)


@contextmanager
def http_collector() -> Iterator[Collected]:
    """Run a collector that accepts OTLP over HTTP."""
    collected = Collected()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            collected.requests += 1
            collected.headers.append({name.lower(): value for name, value in self.headers.items()})
            time.sleep(collected.delay)
            status = collected.status  # a test may change it meanwhile
            if status == 200:
                _take(collected, self.path, body)
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_arguments: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        def handle_error(self, *_arguments: object) -> None:
            """Ignore clients that have disconnected."""

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        collected.url = f"http://127.0.0.1:{server.server_port}"
        yield collected
        server.shutdown()


def _take(collected: Collected, path: str, body: bytes) -> None:
    if path.endswith("/v1/traces"):
        collected.add_traces(ExportTraceServiceRequest.FromString(body))
    elif path.endswith("/v1/logs"):
        collected.add_logs(ExportLogsServiceRequest.FromString(body))
    else:
        raise AssertionError(path)


@contextmanager
def grpc_collector() -> Iterator[Collected]:
    """Run a collector that accepts OTLP over gRPC; any status but 200 is a refusal."""
    collected = Collected()

    def answer(context: Any) -> None:
        collected.requests += 1
        collected.headers.append(dict(context.invocation_metadata()))
        time.sleep(collected.delay)
        if collected.status != 200:
            context.abort(grpc.StatusCode.UNAVAILABLE, "not now")

    class Traces(trace_service_pb2_grpc.TraceServiceServicer):
        def Export(self, request: ExportTraceServiceRequest, context: Any) -> ExportTraceServiceResponse:  # noqa: N802
            answer(context)
            collected.add_traces(request)
            return ExportTraceServiceResponse()

    class Logs(logs_service_pb2_grpc.LogsServiceServicer):
        def Export(self, request: ExportLogsServiceRequest, context: Any) -> ExportLogsServiceResponse:  # noqa: N802
            answer(context)
            collected.add_logs(request)
            return ExportLogsServiceResponse()

    server = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(Traces(), server)  # type: ignore[no-untyped-call]
    logs_service_pb2_grpc.add_LogsServiceServicer_to_server(Logs(), server)  # type: ignore[no-untyped-call]
    collected.url = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield collected
    finally:
        server.stop(None).wait(5)


collectors = {"http": http_collector, "grpc": grpc_collector}
