"""A registry that fails is never taken for a record that is bad."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from stream.config.model import Config
from stream.errors import RecordError, RegistryError, StageError
from stream.records.encodings.confluent import ConfluentDecoder
from stream.records.encodings.decoder import make_decoder
from tests.integration.pipeline import wait_until

SCHEMA = {"type": "record", "name": "Logged", "fields": [{"name": "id", "type": "string"}]}
VALUE = b"\x00\x00\x00\x00\x07" + b"\x02a"


class FaultyRegistry:
    """Answers every request as it is told, and keeps the headers of each."""

    def __init__(self) -> None:
        self.status, self.body = 200, json.dumps({"schema": json.dumps(SCHEMA)}).encode()
        self.types: bytes | None = None
        """The response that tells a registry from another server; None: the same as all others."""
        self.requests: list[dict[str, str]] = []
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.requests.append({"path": self.path, **dict(self.headers.items())})
                is_types = self.path.endswith("/schemas/types") and registry.types is not None
                status, body = (200, registry.types or b"") if is_types else (registry.status, registry.body)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def registry() -> Iterator[FaultyRegistry]:
    faulty = FaultyRegistry()
    yield faulty
    faulty.close()


def decoder(url: str, *, patience: float = 0.0, **section: Any) -> ConfluentDecoder:
    config = Config.model_validate({"input": {"encoding": "confluent-avro", "registry": {"url": url, **section}}})
    return ConfluentDecoder(config.input, topic="rag.interactions", patience=patience)


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (500, b'{"error_code": 50001, "message": "store failed"}', "HTTP 500: store failed"),
        (503, b"<html>busy</html>", "HTTP 503"),
        (429, b'{"error_code": 42901, "message": "slow down"}', "HTTP 429"),
        (401, b'{"error_code": 401, "message": "Unauthorized"}', "it refused the credentials, HTTP 401"),
        (403, b"", "it refused the credentials, HTTP 403"),
        (404, b"<html>no such page</html>", "HTTP 404"),
        (404, b'{"error_code": 404, "message": "HTTP 404 Not Found"}', "HTTP 404"),
        (200, b"<html>Please log in</html>", "not that of a Schema Registry"),
        (200, b"[]", "not that of a Schema Registry"),
    ],
)
def test_registry_that_fails_is_unavailable(registry: FaultyRegistry, status: int, body: bytes, message: str) -> None:
    registry.status, registry.body = status, body
    with pytest.raises(RegistryError, match=message):
        decoder(registry.url).decode(VALUE, ())


def test_unknown_schema_is_a_problem_of_the_record(registry: FaultyRegistry) -> None:
    registry.status, registry.body = 404, b'{"error_code": 40403, "message": "Schema 7 not found"}'
    with pytest.raises(RecordError, match="does not know schema 7: Schema 7 not found") as problem:
        decoder(registry.url).decode(VALUE, ())
    assert problem.value.kind == "unknown_schema"


@pytest.mark.parametrize("status", [400, 404, 422])
def test_registry_that_refuses_an_id_does_not_hold_up_a_partition(registry: FaultyRegistry, status: int) -> None:
    """Some registries know no GUIDs, and answer as for a page that does not exist."""
    registry.status, registry.body = status, b""
    registry.types = b'["AVRO", "JSON"]'
    guid = b"\x01" + bytes(range(16))
    with pytest.raises(RecordError, match="refuses the id") as problem:
        decoder(registry.url).decode(guid + b"\x02a", ())
    assert problem.value.kind == "unknown_schema"


def test_schema_that_cannot_be_parsed_is_a_problem_of_the_record(registry: FaultyRegistry) -> None:
    for schema in ('{"type": "recrod"}', "not JSON", '"Unknown"', '{"type": "record"}', "[" * 3000):
        registry.body = json.dumps({"schema": schema}).encode()
        with pytest.raises(RecordError) as problem:
            decoder(registry.url).decode(VALUE, ())
        assert problem.value.kind == "bad_schema", schema


def test_command_waits_for_the_registry(registry: FaultyRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stream.records.encodings.confluent._RETRY_SECONDS", 0.01)
    registry.status = 503
    patient = decoder(registry.url, patience=60.0)

    def recover() -> None:
        wait_until(lambda: len(registry.requests) > 1, seconds=30, what="it was asked again")
        registry.status = 200

    recovery = threading.Thread(target=recover)
    recovery.start()
    assert patient.decode(VALUE, ()) == b'{"id":"a"}'
    recovery.join()


@pytest.mark.parametrize(
    ("section", "header"),
    [
        ({"user": "reader", "password": "open:sesame"}, "Basic cmVhZGVyOm9wZW46c2VzYW1l"),
        ({"token": "t0ken"}, "Bearer t0ken"),
    ],
)
def test_credentials_are_sent_and_not_shown(registry: FaultyRegistry, section: dict[str, str], header: str) -> None:
    assert decoder(registry.url, **section).decode(VALUE, ()) == b'{"id":"a"}'
    assert [request["Authorization"] for request in registry.requests] == [header]
    registry.status = 401
    with pytest.raises(RegistryError) as problem:
        decoder(registry.url, **section).decode(VALUE, ())
    assert not any(secret in str(problem.value) for secret in section.values())


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stream.records.encodings.decoder._MODULES", ("no_such_package.part",))
    config = Config.model_validate({"input": {"encoding": "confluent-json", "registry": {"url": "http://registry"}}})
    with pytest.raises(StageError, match=r"pip install 'streamjury\[registry\]'"):
        make_decoder(config)


def test_json_needs_no_decoder() -> None:
    assert make_decoder(Config()) is None
