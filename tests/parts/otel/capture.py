"""Writes the spans of every instrumented pipeline to files, as OTLP JSON: python -m tests.parts.otel.capture FOLDER

The files are what the instrumentations send, so that readers of spans can be tested without them.
"""

import base64
import json
import sys
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.parts.endpoints.collector import http_collector
from tests.parts.otel.services import run_pipelines

_IDS = ("traceId", "spanId", "parentSpanId")


def otlp_json(request: ExportTraceServiceRequest) -> dict[str, Any]:
    """Return a request in OTLP's JSON form: as protobuf's own, except that ids are in hexadecimal."""
    plain: dict[str, Any] = MessageToDict(request, use_integers_for_enums=True)
    for resource in plain["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                span.update({key: base64.b64decode(span[key]).hex() for key in _IDS if span.get(key)})
    return plain


def main(folder: Path) -> None:
    with http_collector() as collected:
        trace_ids = run_pipelines(collected.url)
    for run, trace_id in trace_ids.items():
        requests = [otlp_json(request) for request in collected.trace_requests]
        own = [request for request in requests if trace_id in json.dumps(request)]
        (folder / f"{run.name}.json").write_text(json.dumps(own, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
