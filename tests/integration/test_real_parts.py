"""The real parts behave as other tests expect: Kafka isolates transactions, llama.cpp keeps to a schema."""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import jsonschema
import pytest
from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, Message, Producer, TopicPartition

from tests.integration.pipeline import read_all
from tests.parts import local_http
from tests.parts.kafka import ROOT, KafkaBroker
from tests.parts.llama import LlamaServer
from tests.parts.patience import patience


def seconds() -> float:
    """Return the longest wait for something that should happen soon."""
    return 20.0 * patience()


def unique(name: str) -> str:
    return f"{name}-{uuid.uuid4().hex[:8]}"


@contextmanager
def consumer(broker: KafkaBroker, group: str, isolation: str) -> Iterator[Consumer]:
    client = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        yield client
    finally:
        client.close()


def is_end(message: Message) -> bool:
    """Return whether it is no record, but says that the reader is at the end of the partition."""
    error = message.error()
    return error is not None and error.code() == KafkaError._PARTITION_EOF


def read_visible(broker: KafkaBroker, topic: str, isolation: str) -> list[bytes | None]:
    """Return every record of the topic's only partition that is visible now at this isolation level."""
    with consumer(broker, unique("reader"), isolation) as reader:
        reader.assign([TopicPartition(topic, 0, 0)])
        values: list[bytes | None] = []
        while (message := reader.poll(seconds())) is not None:
            error = message.error()
            if error is None:
                values.append(message.value())
            elif is_end(message):
                return values
        raise AssertionError("the end of the topic was not reached")


def read_committed(broker: KafkaBroker, topic: str) -> list[bytes | None]:
    """Return every committed record; the broker confirms a commit a little before it shows the records."""
    return [message.value() for message in read_all(broker.bootstrap, topic)]


class Transfer:
    """A consumer and a transactional producer that move records from `source` to `target`, one transaction each."""

    def __init__(self, broker: KafkaBroker) -> None:
        self.broker = broker
        self.source, self.target, self.group = unique("source"), unique("target"), unique("group")
        broker.create_topics(self.source, self.target)
        self.producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": unique("transfer")})
        self.producer.init_transactions(seconds())

    def put(self, *values: bytes) -> None:
        """Write to the source in a separate transaction."""
        self.producer.begin_transaction()
        for value in values:
            self.producer.produce(self.source, value)
        self.producer.commit_transaction(seconds())

    def begin(self, value: bytes) -> None:
        """Read one record and leave a transaction open that holds `value` and the record's offset."""
        with consumer(self.broker, self.group, "read_committed") as reader:
            reader.subscribe([self.source])
            # The broker confirms a commit a little before it shows the records: the first read may find none.
            while (message := reader.poll(seconds())) is not None and is_end(message):
                pass
            assert message is not None
            assert message.error() is None
            self.producer.begin_transaction()
            self.producer.produce(self.target, value)
            self.producer.flush(seconds())
            positions = reader.position([TopicPartition(self.source, 0)])
            self.producer.send_offsets_to_transaction(positions, reader.consumer_group_metadata(), seconds())

    def read_offset(self, *, wait: bool = True) -> int:
        """Return the committed offset of the group, by default after the end of the transaction that is open now."""
        with consumer(self.broker, self.group, "read_committed" if wait else "read_uncommitted") as client:
            return client.committed([TopicPartition(self.source, 0)], timeout=seconds())[0].offset


@pytest.fixture
def transfer(real_kafka: KafkaBroker) -> Transfer:
    return Transfer(real_kafka)


def test_an_open_transaction_shows_neither_results_nor_offsets_until_it_commits(transfer: Transfer) -> None:
    transfer.put(b"in")
    transfer.begin(b"out")

    assert read_visible(transfer.broker, transfer.target, "read_uncommitted") == [b"out"]
    assert read_visible(transfer.broker, transfer.target, "read_committed") == []
    assert transfer.read_offset(wait=False) == OFFSET_INVALID

    transfer.producer.commit_transaction(seconds())

    assert read_committed(transfer.broker, transfer.target) == [b"out"]
    assert transfer.read_offset() == 1


def test_records_of_an_aborted_transaction_are_never_seen(transfer: Transfer) -> None:
    transfer.put(b"in")
    transfer.begin(b"aborted")
    transfer.producer.abort_transaction(seconds())
    assert transfer.read_offset() == OFFSET_INVALID

    transfer.begin(b"kept")
    transfer.producer.commit_transaction(seconds())

    assert read_visible(transfer.broker, transfer.target, "read_uncommitted") == [b"aborted", b"kept"]
    assert read_committed(transfer.broker, transfer.target) == [b"kept"]
    assert transfer.read_offset() == 1


@pytest.mark.parametrize("end", [KafkaBroker.stop, KafkaBroker.kill])
@pytest.mark.slow
def test_records_and_committed_offsets_survive_a_restart(
    own_kafka: KafkaBroker, end: Callable[[KafkaBroker], None]
) -> None:
    transfer = Transfer(own_kafka)
    transfer.put(b"first", b"second")
    transfer.begin(b"out")
    transfer.producer.commit_transaction(seconds())

    end(transfer.broker)
    transfer.broker.start()

    assert transfer.read_offset() == 1
    assert read_committed(transfer.broker, transfer.source) == [b"first", b"second"]
    assert read_committed(transfer.broker, transfer.target) == [b"out"]


def test_a_record_of_ten_mebibytes_is_accepted(real_kafka: KafkaBroker) -> None:
    topic, value = unique("large"), bytes(10 * 1024 * 1024)
    real_kafka.create_topics(topic)
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": real_kafka.bootstrap, "message.max.bytes": 2 * len(value)})
    producer.produce(topic, value, on_delivery=lambda error, _message: errors.append(error))
    assert producer.flush(seconds()) == 0
    assert errors == [None]


STARTER = """
import sys
from tests.parts.child import __file__ as child
import subprocess
command = [sys.executable, "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(600)"]
with subprocess.Popen([sys.executable, child, *command], stdin=subprocess.PIPE, start_new_session=True) as process:
    process.wait()
"""


def test_a_part_ends_when_the_process_that_started_it_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", STARTER], stdout=subprocess.PIPE, text=True, cwd=ROOT) as starter:
        assert starter.stdout is not None
        part = int(starter.stdout.readline())
        os.kill(part, 0)
        starter.send_signal(signal.SIGKILL)
        deadline = time.monotonic() + seconds()
        while alive(part) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not alive(part)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


VERDICT_SCHEMA = {
    "type": "object",
    "properties": {
        "explanation": {"type": "string", "maxLength": 60},
        "verdict": {"enum": ["supported", "unsupported"]},
    },
    "required": ["explanation", "verdict"],
    "additionalProperties": False,
}


def test_the_model_server_keeps_to_a_json_schema(llama_server: LlamaServer) -> None:
    body = {
        "messages": [{"role": "user", "content": "Context: Paris is in France. Claim: Paris is in Spain. Supported?"}],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "verdict", "strict": True, "schema": VERDICT_SCHEMA},
        },
        "temperature": 0,
        "max_tokens": 120,
    }
    answer = local_http.post(f"{llama_server.base_url}/chat/completions", json=body, timeout=60.0 * patience())
    answer.raise_for_status()
    content = answer.json()["choices"][0]["message"]["content"]
    jsonschema.validate(json.loads(content), VERDICT_SCHEMA)
