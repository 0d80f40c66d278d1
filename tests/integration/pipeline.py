"""Shared parts of the tests of running stages: stages as real processes, and readers and writers of real topics."""

import json
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Self

import pytest
import yaml
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka import Message as KafkaMessage

from sinks.metrics import Stage
from stream.kafka.embedded import is_embedded
from tests.parts.local_judge import LOCAL_JUDGE
from tests.parts.patience import patience
from tests.parts.program import start_command

JUDGING = (Stage.SAMPLER, Stage.WORKER, Stage.MONITOR)
"""The stages without the archivist, which needs a database."""
# The broker aborts an orphaned transaction of a stage after at most 30 seconds.
_READ_SECONDS = 60.0


class StageProcess:
    """`streamjury COMMAND` in a separate process that logs to a file."""

    def __init__(
        self,
        command: str,
        *,
        bootstrap: str,
        log: Path,
        config: Path | None = None,
        options: Sequence[str] = (),
        has_default_panel: bool = False,
        **env: str,
    ) -> None:
        """Without `has_default_panel`, a configuration without judges has the local judge alone, which is faster."""
        overrides = {f"STREAMJURY__{name.upper()}": value for name, value in env.items()}
        sections = {} if config is None else yaml.safe_load(config.read_text(encoding="utf-8")) or {}
        if "archive" not in sections:
            # By default it would be in the working directory, and shared with other tests.
            overrides.setdefault("STREAMJURY__ARCHIVE__URL", f"sqlite:///{log.parent.resolve()}/archive.db")
        if not has_default_panel and "judges" not in sections:
            overrides |= LOCAL_JUDGE
        self._environ = {
            **os.environ,
            "STREAMJURY__KAFKA__BOOTSTRAP": bootstrap,
            "STREAMJURY__HTTP__PORT": "0",
            **overrides,
        }
        self._arguments = [command, *options]
        if config is not None:
            self._arguments += ["--config", str(config)]
        self.log = log
        self._process: BaseProcess | None = None

    def __enter__(self) -> Self:
        self.log.touch()
        self._process = start_command(self._arguments, environ=self._environ, output=self.log)
        return self

    def __exit__(self, *_error: object) -> None:
        if self._process is not None and self._process.is_alive():
            self.kill()

    def kill(self) -> None:
        """Kill it as a power failure would: nothing is finished or logged."""
        assert self._process is not None
        self._process.kill()
        self._process.join()

    def pause(self) -> None:
        """Freeze it like a hung machine: it does nothing, and its connections stay open."""
        self._send(signal.SIGSTOP)

    def resume(self) -> None:
        self._send(signal.SIGCONT)

    def terminate(self, seconds: float = 30.0) -> int:
        """Stop it as an operator would, and return the exit status."""
        self.request_stop()
        return self.wait(seconds)

    def request_stop(self) -> None:
        self._send(signal.SIGTERM)

    def wait(self, seconds: float) -> int:
        """Wait for its end and return the exit status."""
        assert self._process is not None
        self._process.join(seconds * patience())
        status = self._process.exitcode
        assert status is not None, f"did not end within {seconds:.0f} s: {self.log.read_text()}"
        return status

    def has_ended(self) -> bool:
        assert self._process is not None
        return not self._process.is_alive()

    def _send(self, number: signal.Signals) -> None:
        assert self._process is not None
        if self._process.is_alive():
            assert self._process.pid is not None
            os.kill(self._process.pid, number)

    def has_logged(self, words: str) -> bool:
        return words in self.log.read_text()


def topic_names(prefix: str) -> dict[str, str]:
    """Return unique topic names, as the configuration takes them."""
    kinds = ("interactions", "sampled", "retry", "overflow", "evaluations", "critical", "deadletter", "scores")
    kinds += ("detection", "alerts", "labels")
    return {kind: f"{prefix}.{kind}" for kind in kinds}


def to_create(names: Mapping[str, str], retries: int = 3) -> list[str]:
    """Return the topics to create for these names, with one retry topic per delay."""
    waiting = [f"{names['retry']}.{number}" for number in range(1, retries + 1)]
    return [name for kind, name in names.items() if kind != "retry"] + waiting


def count_archived(archive: Path) -> int:
    """Return the number of evaluations in an archive in SQLite."""
    with closing(sqlite3.connect(archive)) as database:
        [(count,)] = database.execute("SELECT count(*) FROM evaluations")
    return int(count)


def produce_all(bootstrap: str, topic: str, records: Iterable[Mapping[str, Any]], *, compression: str = "none") -> None:
    """Write records and wait until the broker has them."""
    failures: list[object] = []
    producer = Producer(
        {"bootstrap.servers": bootstrap, "message.max.bytes": 200_000_000, "compression.type": compression}
    )
    for record in records:
        producer.produce(topic, on_delivery=lambda error, _: failures.append(error) if error else None, **record)
        producer.poll(0)
    assert producer.flush(30 * patience()) == 0
    assert not failures, failures[:3]


def _open_consumer(bootstrap: str, isolation: str) -> Consumer:
    """Open a consumer that never joins its group."""
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"reader-{time.monotonic_ns()}",
            # The embedded broker keeps 5 MiB a partition: a reader that is too late must not skip the gap unnoticed.
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            # The broker reports the end of a partition only after waiting this long for more records.
            "fetch.wait.max.ms": 20,
            # A test may kill the broker: no line for each attempt to reach it again.
            "log_level": 2,
        }
    )


def _list_partitions(consumer: Consumer, topic: str) -> set[int]:
    return set(consumer.list_topics(topic, timeout=10 * patience()).topics[topic].partitions)


def _is_on_embedded_broker(consumer: Consumer, topic: str) -> bool:
    return is_embedded(consumer.list_topics(topic, timeout=10 * patience()).cluster_id)


class _TopicReader:
    """Reads a topic up to its end, again and again; every time it resumes where it stopped.

    Tests wait for records by reading a topic several times a second: to begin at the first record each time would take
    the processor from the stages that they wait for.
    """

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._consumer = _open_consumer(bootstrap, "read_committed")
        self._next: dict[int, int] = {}
        self._messages: list[KafkaMessage] = []
        self.is_on_embedded_broker = _is_on_embedded_broker(self._consumer, topic)

    def read(self, surveyor: Consumer | None) -> list[KafkaMessage]:
        """Return every record up to the current end, in the order of reading.

        With a surveyor, it is the end that this one sees.
        """
        if not self._next:  # the embedded broker creates a topic with its first record
            self._next = dict.fromkeys(_list_partitions(self._consumer, self._topic), 0)
        places = [TopicPartition(self._topic, number, offset) for number, offset in self._next.items()]
        ends = {} if surveyor is None else _find_ends(surveyor, places)
        self._consumer.assign(places)
        ended = set[int | None]()
        deadline = time.monotonic() + _READ_SECONDS * patience()
        while ended < self._next.keys():
            for message in self._consumer.consume(500, 0.1):
                error = message.error()
                if error is None:
                    self._messages.append(message)
                    self._next[message.partition()] = message.offset() + 1
                elif error.code() != KafkaError._PARTITION_EOF:
                    pytest.fail(f"{self._topic} cannot be read from its first record: {error.str()}")
                elif message.offset() >= ends.get(message.partition(), 0):
                    ended.add(message.partition())
            if time.monotonic() > deadline:
                pytest.fail(f"{self._topic}: a transaction stays open, or the broker does not answer")
        return list(self._messages)

    def close(self) -> None:
        self._consumer.close()


def _find_ends(surveyor: Consumer, places: Iterable[TopicPartition]) -> dict[int, int]:
    """Return the end of each partition; a broker that restarts answers later."""
    deadline = time.monotonic() + _READ_SECONDS * patience()
    ends: dict[int, int] = {}
    for place in places:
        while place.partition not in ends:
            try:
                ends[place.partition] = surveyor.get_watermark_offsets(place, timeout=5)[1]
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
                # By itself, the client may trust its picture of a new topic for half a minute.
                with suppress(KafkaException):
                    _list_partitions(surveyor, place.topic)
    return ends


_readers: dict[tuple[str, str], _TopicReader] = {}
_surveyors: dict[str, Consumer] = {}


def read_all(bootstrap: str, topic: str, *, wait: bool = True) -> list[KafkaMessage]:
    """Return every committed record that the topic holds now.

    By default it waits for the end of the transactions that are open now: the broker confirms a commit a little before
    it shows the records. Without it, they are skipped: for a test that holds one open, or has killed its owner.
    """
    key = bootstrap, topic
    if key not in _readers:
        _readers[key] = _TopicReader(bootstrap, topic)
    if wait and bootstrap not in _surveyors:
        _surveyors[bootstrap] = _open_consumer(bootstrap, "read_uncommitted")
    return _readers[key].read(_surveyors[bootstrap] if wait else None)


def close_readers() -> None:
    """Forget all topics that were read: the next test may have another broker at the same address."""
    for clients in (_readers, _surveyors):
        while clients:
            clients.popitem()[1].close()


class Follower:
    """Reads a topic while it is written, before a broker with little retention drops records."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._consumer = _open_consumer(bootstrap, "read_committed")
        partitions = _list_partitions(self._consumer, topic)
        self._consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
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
        """Return the JSON of every record read so far."""
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
    """Return the JSON of every committed record.

    The embedded broker also shows records of aborted transactions, which a stage repeats when the broker was late: of
    records that are equal to the last byte, only the first is returned. A second evaluation has another time.
    """
    records = [(message.key(), message.value()) for message in read_all(bootstrap, topic)]
    if _readers[bootstrap, topic].is_on_embedded_broker:
        records = list(dict.fromkeys(records))
    return [json.loads(value) for _key, value in records]


def headers_of(message: KafkaMessage) -> dict[str, str]:
    return {name: value.decode() for name, value in message.headers() or ()}


def wait_until(condition: Callable[[], bool], *, seconds: float, what: str | Callable[[], str]) -> None:
    """Wait until the condition holds; `what` describes it, or returns its description after a timeout."""
    start = time.monotonic()
    while not condition():
        if time.monotonic() - start > seconds * patience():
            pytest.fail(f"{what if isinstance(what, str) else what()}: not within {seconds:.0f} s")
        time.sleep(0.2)
