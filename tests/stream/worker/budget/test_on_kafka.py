"""Budgets on a real broker: leases as transactional offset metadata, with workers killed, hung and moved."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from judges.models.spending import nanodollars
from stream.worker.budget.limits import ALL_APPS, Span
from stream.worker.budget.offset_note import read
from tests.parts import kafka
from tests.parts.kafka import ROOT, KafkaBroker
from tests.parts.patience import patience
from tests.parts.required import unavailable
from tests.stream.worker.budget.board import Board
from tests.stream.worker.budget.kafka_worker import GROUP, RESULTS, SESSION_MS, TOPIC
from tests.stream.worker.budget.simulation import MORNING

PARTITIONS = 6
PER_HOUR_USD = 0.9
_PATIENCE_SECONDS = 40.0


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    if reason := kafka.why_unavailable():
        unavailable(reason)
    with KafkaBroker() as kafka_broker:
        kafka_broker.create_topics(TOPIC, partitions=PARTITIONS)
        kafka_broker.create_topics(RESULTS)
        yield kafka_broker


class Workers:
    def __init__(self, broker: KafkaBroker, folder: Path) -> None:
        self._bootstrap = broker.bootstrap
        self._path, self._log = folder / "board", folder / "log"
        self.board = Board(self._path)
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, slot: int) -> None:
        command = [sys.executable, "-m", "tests.stream.worker.budget.kafka_worker", self._bootstrap]
        arguments = [str(slot), str(self._path), str(PARTITIONS), str(PER_HOUR_USD)]
        with self._log.open("ab") as log:
            self._processes[slot] = subprocess.Popen([*command, *arguments], cwd=ROOT, stderr=log)
        self.board.clear_in_flight(slot)

    def signal(self, slot: int, signal_number: signal.Signals) -> None:
        os.kill(self._processes[slot].pid, signal_number)

    def kill(self, slot: int) -> None:
        process = self._processes.pop(slot)
        process.kill()
        process.wait()

    def end(self, slot: int) -> None:
        process = self._processes.pop(slot)
        process.terminate()
        assert process.wait(_PATIENCE_SECONDS * patience()) == 0, self._log.read_text()

    def close(self) -> None:
        for slot in list(self._processes):
            self.kill(slot)

    def until_spent(self, hours: int, *, at_least: int) -> None:
        """Wait until no worker has made a call for some commits, and at least this much is spent in each hour."""
        deadline = time.monotonic() + _PATIENCE_SECONDS * patience()
        last_calls, last_change = -1, time.monotonic()
        while time.monotonic() - last_change < 1.5 or len(self.hours()) < hours or min(self.hours()) < at_least:
            assert time.monotonic() < deadline, f"spent {self.hours()}; {self._log.read_text()}"
            if (calls := self.board.calls()) != last_calls:
                last_calls, last_change = calls, time.monotonic()
            time.sleep(0.05)

    def until_calls(self, count: int) -> None:
        deadline, before = time.monotonic() + _PATIENCE_SECONDS * patience(), self.board.calls()
        while self.board.calls() < before + count:
            assert time.monotonic() < deadline, self._log.read_text()
            time.sleep(0.01)

    def hours(self) -> list[int]:
        spendings = [
            spending
            for spending in self.board.list_spending()
            if spending.span is Span.HOUR and spending.scope == ALL_APPS
        ]
        return [spending.nano for spending in spendings if spending.lane == "whole"]


@pytest.fixture
def workers(broker: KafkaBroker, tmp_path: Path) -> Iterator[Workers]:
    new_workers = Workers(broker, tmp_path)
    try:
        yield new_workers
    finally:
        new_workers.close()


@pytest.mark.slow
def test_the_cap_holds_over_kills_a_hung_worker_moves_and_a_new_hour(broker: KafkaBroker, workers: Workers) -> None:
    cap = nanodollars(PER_HOUR_USD)
    workers.board.clear(MORNING + 1800.0)
    for slot in (0, 1, 2):
        workers.start(slot)
    workers.until_calls(200)
    workers.kill(1)
    workers.start(1)  # in the same slot
    workers.until_calls(200)
    workers.start(3)  # partitions move to it
    workers.until_spent(1, at_least=int(0.95 * cap))
    edge = MORNING + 3600.0
    for step in range(-30, 31):
        workers.board.now = edge + step / 10
        time.sleep(0.02)
    workers.board.now = edge + 60
    workers.until_calls(100)
    workers.signal(2, signal.SIGSTOP)
    time.sleep(SESSION_MS / 1000 + 1)  # its partitions move to others
    workers.signal(2, signal.SIGCONT)  # the others may have spent the whole hour by now; it must not spend it again
    workers.end(0)
    workers.until_spent(2, at_least=int(0.95 * cap))
    hours = workers.hours()
    assert len(hours) == 2
    assert all(0.95 * cap <= spent <= cap for spent in hours), [spent / cap for spent in hours]
    notes = _read_committed_notes(broker)
    assert len(notes) == PARTITIONS
    leased = sum(caps.whole for note in notes for scopes in read(note).values() for caps in scopes.values())
    assert hours[-1] <= leased <= cap, "the leases on the broker cover everything spent"


def _read_committed_notes(broker: KafkaBroker) -> list[str]:
    client = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": GROUP})
    try:
        committed = client.committed([TopicPartition(TOPIC, number) for number in range(PARTITIONS)], 10 * patience())
    finally:
        client.close()
    return [entry.metadata for entry in committed if entry.metadata]
