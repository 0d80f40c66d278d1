"""The waiting line: in order, only due records, and a bounded amount of memory."""

import json
import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinks.base import Headers
from stream.config.model import Config
from stream.kafka.offsets import Partition
from stream.kafka.record import Record
from stream.worker.retries import Retries
from stream.worker.waiting_line import WaitingLine

CONFIG = Config()
QUEUE, RETRY, OVERFLOW = Partition("rag.sampled", 0), Partition("rag.retry.1", 0), Partition("rag.overflow", 0)


def make_line(*partitions: Partition) -> WaitingLine:
    new_line = WaitingLine(Retries(CONFIG), CONFIG.input)
    for partition in partitions or (QUEUE, RETRY, OVERFLOW):
        new_line.open(partition)
    return new_line


def record(partition: Partition, offset: int = 0, value: bytes = b"{}", headers: Headers = ()) -> Record:
    return Record(partition=partition, offset=offset, key=None, value=value, headers=headers)


def due_in(seconds: float) -> Headers:
    return (("sj-retry-at", (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat().encode()),)


def test_records_leave_in_the_order_of_their_arrival() -> None:
    waiting = make_line(QUEUE)
    for offset in (3, 4, 9):
        waiting.add(record(QUEUE, offset))
    assert [waiting.take(QUEUE).arrival.record.offset for _ in range(3)] == [3, 4, 9]
    assert waiting.first(QUEUE) is None
    assert waiting.empty() == {QUEUE}


def test_a_parked_record_is_available_only_when_it_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting, now = make_line(), time.time()
    waiting.add(record(RETRY, 1, headers=due_in(30)))
    waiting.add(record(RETRY, 2, headers=due_in(60)))
    assert waiting.first(RETRY) is None
    monkeypatch.setattr(time, "time", lambda: now + 45)
    assert waiting.first(RETRY) is not None
    waiting.take(RETRY)
    assert waiting.first(RETRY) is None


def test_overflow_records_come_last() -> None:
    waiting = make_line()
    for partition in (OVERFLOW, RETRY, QUEUE):
        waiting.add(record(partition))
    first, last = waiting.lanes()
    assert (set(first), last) == ({RETRY, QUEUE}, [OVERFLOW])


def test_the_app_is_known_if_it_can_be_read() -> None:
    waiting = make_line(QUEUE)
    values = (b'{"app": "shop"}', b"not json", b'{"app": 5}', b"{}", json.dumps({"app": "x" * 999}).encode())
    assert [waiting.add(record(QUEUE, value=value)).app for value in values] == ["shop", None, None, None, None]


@given(st.lists(st.integers(0, 4_000_000), max_size=80))
def test_a_line_is_full_at_64_records_or_8_mebibytes(sizes: list[int]) -> None:
    waiting = make_line(QUEUE)
    for offset, size in enumerate(sizes):
        waiting.add(record(QUEUE, offset, bytes(size)))
    assert (waiting.full() == {QUEUE}) == (len(sizes) >= 64 or sum(sizes) >= 8 * 1024 * 1024)
    for _ in sizes:
        waiting.take(QUEUE)
    assert not waiting.full()
    assert waiting.count(["rag.sampled"]) == 0
