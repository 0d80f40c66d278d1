"""A real OpenTelemetry Collector, from the binary that `make collector` builds: OTLP in, Kafka out."""

from collections.abc import Sequence
from pathlib import Path

import httpx
import yaml

from tests.parts import local_http
from tests.parts.server import Server

ROOT = Path(__file__).parents[3]
COLLECTOR = ROOT / ".cache" / "collector" / "collector"

PROTO, JSON = "otlp_proto", "otlp_json"
"""The two encodings of the `kafka` exporter."""


def why_unavailable() -> str | None:
    """Return how to get a Collector if there is none."""
    return None if COLLECTOR.exists() else "no OpenTelemetry Collector: run `make collector`"


class Collector(Server):
    """Writes every trace it receives to two topics.

    To the first one it writes whole traces, encoded as protobuf and keyed by trace id; to the second one requests as
    they come, as JSON without a key.
    """

    def __init__(self, folder: Path, *, bootstrap: str, proto_topic: str, json_topic: str) -> None:
        super().__init__(folder, name="collector", ready="/v1/traces")
        self._bootstrap = bootstrap
        self._topics = {PROTO: proto_topic, JSON: json_topic}

    def command(self) -> Sequence[str | Path]:
        config = self.folder / "collector.yaml"
        config.write_text(yaml.safe_dump(self._config()), encoding="utf-8")
        return [COLLECTOR, "--config", config]

    def _config(self) -> dict[str, object]:
        def pipeline(encoding: str, *processors: str) -> dict[str, object]:
            return {"receivers": ["otlp"], "processors": list(processors), "exporters": [f"kafka/{encoding}"]}

        return {
            "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{self.port}"}}}},
            "processors": {"groupbytrace": {"wait_duration": "1s"}},
            "exporters": {f"kafka/{encoding}": self._exporter(encoding) for encoding in self._topics},
            "service": {
                "pipelines": {"traces/proto": pipeline(PROTO, "groupbytrace"), "traces/json": pipeline(JSON)},
                # Its own metrics would need a port.
                "telemetry": {"metrics": {"level": "none"}},
            },
        }

    def _exporter(self, encoding: str) -> dict[str, object]:
        return {
            "brokers": [self._bootstrap],
            "partition_traces_by_id": encoding == PROTO,
            "traces": {"topic": self._topics[encoding], "encoding": encoding},
        }

    def _answers(self) -> bool:
        try:
            return local_http.post(f"{self.url}{self._ready}", json={}, timeout=2).is_success
        except httpx.TransportError:
            return False
