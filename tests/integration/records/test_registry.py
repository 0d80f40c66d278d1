"""Typed records with a real Schema Registry: read like JSON, and never lost or dead-lettered because it is away."""

import base64
import json
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from click.testing import CliRunner
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    header_schema_id_serializer,
    prefix_schema_id_serializer,
    topic_subject_name_strategy,
)
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, timestamp_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from sinks.metrics import Outcome, Stage
from stream.cli.main import main
from stream.cli.support.cluster import reach
from stream.config.model import Config
from stream.errors import RecordError, RegistryError
from stream.jobs.audit.audit import audit
from stream.jobs.backfill.selection import Selection
from stream.kafka.embedded import EmbeddedBroker
from stream.kafka.topic_scan import TopicScan
from stream.records.encodings.confluent import ConfluentDecoder
from stream.records.encodings.protobuf import SerialisingClient
from stream.service.service import Service
from tests.integration.pipeline import headers_of, produce_all, read_all, read_json, wait_until
from tests.parts import registry
from tests.parts.required import unavailable

pytestmark = [pytest.mark.xdist_group("registry"), pytest.mark.slow]

TOPIC = "rag.interactions"
NO_ID = 4_000_000

AVRO = {
    "type": "record",
    "name": "Logged",
    "namespace": "com.example",
    "fields": [
        {
            "name": "request",
            "type": {
                "type": "record",
                "name": "Request",
                "fields": [
                    {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
                    {"name": "text", "type": "string"},
                    {"name": "number", "type": "long"},
                ],
            },
        },
        {"name": "response", "type": ["null", "string"]},
        {
            "name": "docs",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Doc",
                    "fields": [{"name": "text", "type": "string"}, {"name": "score", "type": ["null", "double"]}],
                },
            },
        },
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "cost", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 4}},
        {"name": "raw", "type": "bytes"},
        {"name": "digest", "type": {"type": "fixed", "name": "Digest", "size": 2}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["CHAT", "SEARCH"]}},
        {"name": "labels", "type": {"type": "map", "values": ["null", "long", "string"]}},
    ],
}
MAPPING = {
    "id": "request.id",
    "question": "request.text",
    "answer": "response",
    "contexts": "docs",
    "timestamp": "at",
    "app": "kind",
    "tags": "labels",
}


def avro_record(number: int) -> dict[str, Any]:
    return {
        "request": {"id": UUID(int=number), "text": "When is it open?", "number": 2**60 + number},
        "response": "It is open from nine to five.",
        "docs": [{"text": "Open from nine to five.", "score": 0.5}, {"text": "Closed on Sunday.", "score": None}],
        "at": datetime(2026, 11, 1, 9, 30, 0, 125_000, tzinfo=UTC),
        "day": date(2026, 11, 1),
        "cost": Decimal("12.3400"),
        "raw": b"\x00\xff",
        "digest": b"ab",
        "kind": "SEARCH",
        "labels": {"tier": "gold", "retries": 2, "none": None},
    }


AVRO_AS_JSON = {
    **avro_record(1),
    "request": {"id": str(UUID(int=1)), "text": "When is it open?", "number": 2**60 + 1},
    "at": "2026-11-01T09:30:00.125000Z",
    "day": "2026-11-01",
    "cost": 12.34,
    "raw": "AP8=",
    "digest": "YWI=",
}

DOC_PROTO = 'syntax = "proto3"; package docs; message Doc { string text = 1; double score = 2; }'
LOG_PROTO = """
syntax = "proto3";
package rag;
import "docs/doc.proto";
import "google/protobuf/timestamp.proto";
message Unused { string name = 1; }
message Log {
  message Request { int64 id = 1; string text = 2; }
  enum Kind { UNKNOWN = 0; CHAT = 1; }
  Request request = 1;
  string response = 2;
  repeated docs.Doc docs = 3;
  google.protobuf.Timestamp at = 4;
  bytes raw = 5;
  Kind kind = 6;
  map<string, int64> counts = 7;
  oneof user { string name = 8; uint64 number = 9; }
  double ratio = 10;
  repeated string notes = 11;
  optional string model = 12;
}
"""
PROTO_AS_JSON = {
    "request": {"id": 2**60, "text": "When is it open?"},
    "response": "From nine to five.",
    "docs": [{"text": "Open from nine.", "score": 0.5}],
    "at": "2026-11-01T09:30:00Z",
    "raw": "AP8=",
    "kind": "CHAT",
    "counts": {"calls": 3},
    "number": 7,
    "ratio": None,
    "notes": [],
}


@pytest.fixture(scope="module")
def schema_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[registry.SchemaRegistry]:
    if reason := registry.why_unavailable():
        unavailable(reason)
    with registry.SchemaRegistry(tmp_path_factory.mktemp("registry")) as server:
        yield server


@pytest.fixture
def client(schema_registry: registry.SchemaRegistry) -> Iterator[SchemaRegistryClient]:
    client = SchemaRegistryClient({"url": schema_registry.api})
    yield client
    client._rest_client.session.close()


@pytest.fixture
def config_for(schema_registry: registry.SchemaRegistry) -> Callable[..., Config]:
    def make(encoding: str, **changes: Any) -> Config:
        section = {"encoding": encoding, "registry": {"url": schema_registry.api}, **changes}
        return Config.model_validate({"input": section, "sampling": {"rate": 1.0}, "http": {"port": 0}})

    return make


def decoder_for(config: Config) -> ConfluentDecoder:
    return ConfluentDecoder(config.input, topic=config.topics.interactions)


def serialise(
    serialiser: type[Any], client: SchemaRegistryClient, schema: Any, record: Any, *, in_header: bool = False
) -> dict[str, Any]:
    """Return the value and headers of a record, as a producer sends them."""
    framing = header_schema_id_serializer if in_header else prefix_schema_id_serializer
    options = {"subject.name.strategy": topic_subject_name_strategy, "schema.id.serializer": framing}
    if serialiser is AvroSerializer:
        write = serialiser(client, json.dumps(schema), conf=options)
    else:
        write = serialiser(json.dumps(schema), client, conf=options)
    headers: list[Any] = []
    return {"value": write(record, SerializationContext(TOPIC, MessageField.VALUE, headers)), "headers": headers}


def decode(config: Config, record: dict[str, Any]) -> Any:
    return json.loads(decoder_for(config).decode(record["value"], tuple(record["headers"])))


# Records of each encoding


def test_avro_types_are_read_as_json(client: SchemaRegistryClient, config_for: Callable[..., Config]) -> None:
    record = serialise(AvroSerializer, client, AVRO, avro_record(1))
    assert record["value"][0] == 0
    assert decode(config_for("confluent-avro"), record) == AVRO_AS_JSON


def test_schema_id_in_a_header(client: SchemaRegistryClient, config_for: Callable[..., Config]) -> None:
    """The header has the number of the schema, which every registry knows, or its GUID, which Apicurio does not."""
    plain = serialise(AvroSerializer, client, AVRO, avro_record(1))
    record = {"value": plain["value"][5:], "headers": [("__value_schema_id", plain["value"][:5])]}
    assert decode(config_for("confluent-avro"), record) == AVRO_AS_JSON


def test_bytes_are_read_as_text_on_request(client: SchemaRegistryClient, config_for: Callable[..., Config]) -> None:
    text = serialise(AvroSerializer, client, AVRO, {**avro_record(1), "raw": "да".encode()})
    config = config_for("confluent-avro")
    config = config_for("confluent-avro", registry={**config.input.registry.model_dump(), "bytes": "utf-8"})
    assert decode(config, text)["raw"] == "да"
    with pytest.raises(RecordError, match=r"bytes are not UTF-8 text.*input\.registry\.bytes"):
        decode(config, serialise(AvroSerializer, client, AVRO, avro_record(1)))


@pytest.fixture
def protobuf(client: SchemaRegistryClient) -> bytes:
    """A record whose schema is registered as text, as Java producers do, and imports another."""
    client.register_schema("docs/doc.proto", Schema(DOC_PROTO, "PROTOBUF"))
    version = client.get_latest_version("docs/doc.proto").version
    reference = SchemaReference("docs/doc.proto", "docs/doc.proto", version)
    schema_id = client.register_schema(f"{TOPIC}-value", Schema(LOG_PROTO, "PROTOBUF", [reference]))
    compiling: Any = SerialisingClient(client)
    files = [compiling.get_version("docs/doc.proto", version).schema, compiling.get_schema(schema_id)]
    pool = DescriptorPool()
    stamp = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(stamp)
    pool.Add(stamp)
    for name, file in zip(("docs/doc.proto", "log.proto"), files, strict=True):
        proto = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(file.schema_str))
        proto.name = name
        pool.Add(proto)
    message = GetMessageClass(pool.FindMessageTypeByName("rag.Log"))(
        request={"id": 2**60, "text": "When is it open?"},
        response="From nine to five.",
        docs=[{"text": "Open from nine.", "score": 0.5}],
        at={"seconds": int(datetime(2026, 11, 1, 9, 30, tzinfo=UTC).timestamp())},
        raw=b"\x00\xff",
        kind=1,
        counts={"calls": 3},
        number=7,
        ratio=float("nan"),
    )
    # Log is the second message of the file: one index, 1.
    return struct.pack(">bI", 0, schema_id) + b"\x02\x02" + message.SerializeToString()


def test_protobuf_messages_are_read_as_json(protobuf: bytes, config_for: Callable[..., Config]) -> None:
    config = config_for("confluent-protobuf")
    assert decode(config, {"value": protobuf, "headers": []}) == PROTO_AS_JSON
    for indexes in (b"\x02\x20", b"\x80"):
        with pytest.raises(RecordError):
            decode(config, {"value": protobuf[:5] + indexes + protobuf[7:], "headers": []})


JSON_SCHEMA = {
    "title": "Logged",
    "type": "object",
    "properties": {"id": {"type": "string"}, "question": {"type": "string"}, "answer": {"type": "string"}},
    "required": ["id", "question", "answer"],
}


def test_json_is_checked_against_its_schema(client: SchemaRegistryClient, config_for: Callable[..., Config]) -> None:
    document = {"id": "1", "question": "When?", "answer": "Now.", "more": 1.50}
    record = serialise(JSONSerializer, client, JSON_SCHEMA, document)
    config = config_for("confluent-json")
    assert decode(config, record) == document
    with pytest.raises(RecordError, match="'answer' is a required property") as problem:
        decode(config, {"value": record["value"][:5] + b'{"id": "1", "question": "When?"}', "headers": []})
    assert problem.value.kind == "bad_encoding"


# Records that cannot be read


def test_bad_records_have_clear_errors(client: SchemaRegistryClient, config_for: Callable[..., Config]) -> None:
    value = serialise(AvroSerializer, client, AVRO, avro_record(1))["value"]
    decoder = decoder_for(config_for("confluent-avro"))
    unknown = struct.pack(">bI", 0, NO_ID) + value[5:]
    other = serialise(JSONSerializer, client, JSON_SCHEMA, {"id": "1", "question": "q", "answer": "a"})["value"]
    for bad, kind, message in (
        (None, "empty", "no value"),
        (value[:3], "bad_framing", "no schema id"),
        (b'{"id": "1"}', "bad_framing", "it looks like plain JSON, see input.encoding"),
        (unknown, "unknown_schema", f"does not know schema {NO_ID}"),
        (other, "bad_schema", "is of type JSON, but input.encoding is confluent-avro"),
        (value[:40], "bad_encoding", "not avro of its schema"),
        (value[:5], "bad_encoding", "not avro of its schema"),
    ):
        with pytest.raises(RecordError, match=re.escape(message)) as problem:
            decoder.decode(bad, ())
        assert problem.value.kind == kind
    assert json.loads(decoder.decode(value, ())) == AVRO_AS_JSON


def test_schemas_that_could_end_the_process_are_refused(
    client: SchemaRegistryClient, config_for: Callable[..., Config]
) -> None:
    """A record of 6 kB in a recursive schema exhausts fastavro's stack, and ends the process."""
    recursive = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    schema_id = client.register_schema("node-value", Schema(json.dumps(recursive), "AVRO"))
    with pytest.raises(RecordError, match="the Avro type Node contains itself"):
        decoder_for(config_for("confluent-avro")).decode(struct.pack(">bI", 0, schema_id) + b"\x02" * 6000, ())


def test_schemas_are_fetched_once(
    client: SchemaRegistryClient, config_for: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    value = serialise(AvroSerializer, client, AVRO, avro_record(1))["value"]
    unknown = struct.pack(">bI", 0, NO_ID) + value[5:]
    decoder = decoder_for(config_for("confluent-avro"))
    expected = decoder.decode(value, ())
    with pytest.raises(RecordError):
        decoder.decode(unknown, ())

    def refuse(*_args: object, **_options: object) -> None:
        pytest.fail("the registry was asked again")

    monkeypatch.setattr(decoder._client._rest_client.session, "request", refuse)
    assert decoder.decode(value, ()) == expected
    with pytest.raises(RecordError, match="does not know schema"):
        decoder.decode(unknown, ())


# The pipeline


class Relay:
    """Relays connections to the registry while it is open; while it is closed, it ends them at once."""

    def __init__(self, port: int) -> None:
        self._target = port
        self.is_open = False
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self.refused = 0
        threading.Thread(target=self._run, daemon=True).start()

    def close(self) -> None:
        self._server.close()

    def _run(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._server.accept()
                if self.is_open:
                    upstream = socket.create_connection(("127.0.0.1", self._target))
                    for pair in ((connection, upstream), (upstream, connection)):
                        threading.Thread(target=_pump, args=pair, daemon=True).start()
                else:
                    self.refused += 1
                    connection.close()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError), target:
        while data := source.recv(65_536):
            target.sendall(data)


def bad_values(value: bytes) -> list[bytes]:
    ids = [struct.pack(">bI", 0, schema_id) for schema_id in (NO_ID, 0, 2**31 - 1, 2**31, 2**32 - 1)]
    guid = b"\x01" + bytes(range(16))
    unknown = [prefix + value[5:] for prefix in (*ids, guid)]
    return [value[:3], b'{"id": "1"}', *unknown, value[:40], b"\x00", b"\x01", b"\xff" * 50]


@pytest.mark.parametrize("sampling_id", ["key", "body"])
def test_registry_outage_delays_good_records_and_bad_ones_stop_nothing(
    sampling_id: str,
    client: SchemaRegistryClient,
    schema_registry: registry.SchemaRegistry,
    embedded_broker: EmbeddedBroker,
    tmp_path: Path,
) -> None:
    """While the registry is away nothing is dead-lettered; then good records are judged, and bad ones keep their bytes.

    Afterwards the other readers of the input topic read the same records: the audit, the backfill and the input check.
    """
    good = [serialise(AvroSerializer, client, AVRO, avro_record(number)) for number in range(20)]
    bad = bad_values(good[0]["value"])
    relay = Relay(schema_registry.port)
    config = Config.model_validate(
        {
            "kafka": {"bootstrap": embedded_broker.bootstrap},
            "input": {
                "encoding": "confluent-avro",
                "registry": {"url": f"http://127.0.0.1:{relay.port}/apis/ccompat/v7"},
                "adapter": "mapping",
                "mapping": MAPPING,
            },
            "sampling": {"rate": 1.0, "id": sampling_id},
            "http": {"port": 0},
        }
    )
    records = [record for pair in zip(good, [{"value": value} for value in bad], strict=False) for record in pair]
    records += good[len(bad) :]
    keyed = [{**record, "key": b"key-%d" % number} for number, record in enumerate(records)]
    produce_all(embedded_broker.bootstrap, TOPIC, keyed)
    with Service(config, [Stage.SAMPLER, Stage.WORKER]) as service:
        count = service.metrics.read_count

        def judged() -> int:
            service.check()
            return count(Stage.WORKER, Outcome.SCORED) + count(Stage.WORKER, Outcome.UNSCORED)

        wait_until(lambda: relay.refused >= 3, seconds=60, what="the sampler asks the registry again")
        assert "cannot use the Schema Registry" in service.health.ready().problems["schema registry"]
        assert service.health.alive().ok
        service.check()
        assert not count(Stage.SAMPLER, Outcome.SAMPLED)
        # A record without a schema id needs no registry: whether it comes first depends on the partitions.
        assert {letter.value() for letter in read_all(embedded_broker.bootstrap, "rag.deadletter")} <= {*bad}
        relay.is_open = True
        wait_until(lambda: judged() >= len(good), seconds=60, what=lambda: f"{judged()} of {len(good)} judged")
        wait_until(
            lambda: count(Stage.SAMPLER, Outcome.DEADLETTER) + count(Stage.WORKER, Outcome.DEADLETTER) >= len(bad),
            seconds=30,
            what="all dead letters",
        )
        assert "schema registry" not in service.health.ready().problems
    check_results(embedded_broker.bootstrap, good, bad)
    check_other_readers(config, len(good), len(bad), tmp_path)
    relay.close()


def check_results(bootstrap: str, good: list[dict[str, Any]], bad: list[bytes]) -> None:
    letters = read_all(bootstrap, "rag.deadletter")
    assert sorted(letter.value() or b"" for letter in letters) == sorted(bad)
    assert {headers_of(letter)["sj-error-type"] for letter in letters} == {
        "bad_framing",
        "bad_encoding",
        "unknown_schema",
    }
    evaluations = read_json(bootstrap, "rag.evaluations")
    assert sorted(evaluation["interaction_id"] for evaluation in evaluations) == [
        str(UUID(int=number)) for number in range(len(good))
    ]
    assert {evaluation["app"] for evaluation in evaluations} == {"SEARCH"}
    assert {evaluation["tags"]["tier"] for evaluation in evaluations} == {"gold"}
    assert all(json.loads(message.value() or b"")["response"] for message in read_all(bootstrap, "rag.sampled"))


def check_other_readers(config: Config, good: int, bad: int, folder: Path) -> None:
    balance = audit(config, reach(config.kafka).partitions)
    assert balance.missing == ()
    dead = sum(count for outcome, count in balance.outcomes.items() if outcome.startswith("deadlettered"))
    assert (balance.interactions, dead) == (good + bad, bad)
    path = folder / "streamjury.json"
    path.write_text(json.dumps(json.loads(config.model_dump_json(exclude_unset=True))))
    checked = CliRunner().invoke(main, ["input", "check", "--topic", "--json", "-c", str(path)])
    assert checked.exit_code == 1, checked.output
    document = json.loads(checked.stdout)
    assert (document["readable"], document["records"]) == (good, good + bad)
    found = {entry["field"]: entry["found"] for entry in document["fields"]}
    assert found["answer"] == found["app"] == found["contexts"] == good
    selection = Selection(config, "fingerprint", share=1.0, known={})
    with TopicScan(config.kafka, TOPIC) as scan:
        for message in scan.read():
            selection.take(message)
    assert (selection.counts.chosen, selection.counts.bad.total()) == (good, bad)


def test_registry_that_is_away_is_named(config_for: Callable[..., Config]) -> None:
    config = config_for("confluent-avro", registry={"url": "http://127.0.0.1:9"})
    with pytest.raises(RegistryError, match=r"cannot use the Schema Registry at http://127\.0\.0\.1:9 \("):
        decoder_for(config).check()


def test_wrong_address_is_not_an_unknown_schema(
    schema_registry: registry.SchemaRegistry, client: SchemaRegistryClient, config_for: Callable[..., Config]
) -> None:
    value = serialise(AvroSerializer, client, AVRO, avro_record(1))["value"]
    for path in ("", "/apis/ccompat/v99", "/apis/registry/v3"):
        config = config_for("confluent-avro", registry={"url": schema_registry.url + path})
        with pytest.raises(RegistryError):
            decoder_for(config).decode(value, ())
