"""What the tests of running stages share: workers as real processes, and readers and writers of real topics."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka import Message as KafkaMessage

from sinks.metrics import Stage
from tests.parts.patience import patience

JUDGING = (Stage.SAMPLER, Stage.WORKER, Stage.MONITOR)
"""The stages without the archivist, which needs a database."""


class StageProcess:
    """`streamjury COMMAND` in a process of its own; its log goes to a file."""

    def __init__(
        self,
        command: str,
        *,
        bootstrap: str,
        log: Path,
        config: Path | None = None,
        options: Sequence[str] = (),
        **env: str,
    ) -> None:
        overrides = {f"STREAMJURY__{name.upper()}": value for name, value in env.items()}
        if config is None or '"archive"' not in config.read_text():
            # By default it would be in the working directory, and shared with other tests.
            overrides |= {"STREAMJURY__ARCHIVE__URL": f"sqlite:///{log.parent.resolve()}/archive.db"}
        self._environ = {
            **os.environ,
            "STREAMJURY__KAFKA__BOOTSTRAP": bootstrap,
            "STREAMJURY__HTTP__PORT": "0",
            **overrides,
        }
        self._arguments = [sys.executable, "-m", "stream.cli.main", command, *options]
        if config is not None:
            self._arguments += ["--config", str(config)]
        self.log = log
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._arguments, env=self._environ, stdout=log, stderr=log)
        return self

    def __exit__(self, *_error: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def kill(self) -> None:
        """As a machine that loses power: nothing is finished, nothing is said."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        """As a machine that hangs: it does nothing, and its connections stay."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def terminate(self, seconds: float = 30.0) -> int:
        """As an operator stops it; the exit status."""
        self.ask_to_end()
        assert self._process is not None
        return self._process.wait(seconds * patience())

    def ask_to_end(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)

    def wait(self, seconds: float) -> int:
        """Waits for it to end; the exit status."""
        assert self._process is not None
        return self._process.wait(seconds * patience())

    def ended(self) -> bool:
        assert self._process is not None
        return self._process.poll() is not None

    def said(self, words: str) -> bool:
        return words in self.log.read_text()


def topic_names(prefix: str) -> dict[str, str]:
    """Names for the topics of a test's own, as the configuration takes them."""
    kinds = ("interactions", "sampled", "retry", "overflow", "evaluations", "critical", "deadletter", "scores")
    kinds += ("detection", "alerts")
    return {kind: f"{prefix}.{kind}" for kind in kinds}


def to_create(names: Mapping[str, str], retries: int = 3) -> list[str]:
    """The topics to create for such names: several where records wait to be judged again."""
    waiting = [f"{names['retry']}.{number}" for number in range(1, retries + 1)]
    return [name for kind, name in names.items() if kind != "retry"] + waiting


def produce_all(bootstrap: str, topic: str, records: Iterable[Mapping[str, Any]]) -> None:
    """Writes records and waits until the broker has them."""
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "message.max.bytes": 50_000_000})
    for record in records:
        producer.produce(topic, on_delivery=lambda error, _: failures.append(error) if error else None, **record)
        producer.poll(0)
    assert producer.flush(30) == 0
    assert not failures, failures[:3]


def _reader(bootstrap: str, topic: str, isolation: str) -> tuple[Consumer, set[int]]:
    """A consumer at the first record of each partition, and the partitions' numbers."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"reader-{time.monotonic_ns()}",
            # The embedded broker keeps 5 MiB a partition: a reader that comes too late must not pass over the gap.
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
    )
    partitions = set(consumer.list_topics(topic, timeout=10).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    return consumer, partitions


def read_all(bootstrap: str, topic: str, *, isolation: str = "read_committed") -> list[KafkaMessage]:
    """Every record that the topic holds now."""
    consumer, partitions = _reader(bootstrap, topic, isolation)
    try:
        messages, ended = [], set[int | None]()
        while ended < partitions:
            for message in consumer.consume(500, 0.1):
                error = message.error()
                if error is None:
                    messages.append(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
                else:
                    pytest.fail(f"{topic} cannot be read from its first record: {error.str()}")
        return messages
    finally:
        consumer.close()


class Follower:
    """Reads a topic while it is written, so that a broker that keeps little has dropped nothing unread."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._consumer, _ = _reader(bootstrap, topic, "read_committed")
        self._lock = threading.Lock()
        self._values: list[dict[str, Any]] = []
        self._failure = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join()
        self._consumer.close()

    def values(self) -> list[dict[str, Any]]:
        """The JSON of every record read until now."""
        with self._lock:
            assert not self._failure, self._failure
            return list(self._values)

    def _run(self) -> None:
        while not self._stop.is_set():
            for message in self._consumer.consume(500, 0.1):
                self._take(message)

    def _take(self, message: KafkaMessage) -> None:
        error = message.error()
        with self._lock:
            if error is None:
                self._values.append(json.loads(message.value()))
            elif error.code() != KafkaError._PARTITION_EOF:
                self._failure = f"{message.topic()} cannot be followed: {error.str()}"


def read_json(bootstrap: str, topic: str) -> list[dict[str, Any]]:
    return [json.loads(message.value()) for message in read_all(bootstrap, topic)]


def headers_of(message: KafkaMessage) -> dict[str, str]:
    return {name: value.decode() for name, value in message.headers() or ()}


def wait_until(condition: Callable[[], bool], *, seconds: float, what: str | Callable[[], str]) -> None:
    """`what` says what is waited for, or says it when it did not come."""
    start = time.monotonic()
    while not condition():
        if time.monotonic() - start > seconds * patience():
            pytest.fail(f"{what if isinstance(what, str) else what()}: not within {seconds:.0f} s")
        time.sleep(0.2)
