"""The judging pool: results as they finish, work that can be given up, and an end that leaves nothing behind."""

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from stream.kafka.offsets import Partition, Ticket
from stream.worker.pool import JudgePool

P, Q = Partition("t", 0), Partition("t", 1)


def ticket(offset: int, partition: Partition = P, generation: int = 1) -> Ticket:
    return Ticket(partition, generation, offset)


async def after(seconds: float, result: str) -> str:
    await asyncio.sleep(seconds)
    return result


class Hanging:
    """Work that does not end by itself and takes a moment to let go."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.let_go = False

    async def work(self) -> str:
        self.begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.01)
            self.let_go = True
        return "never"


@pytest.fixture
def pool() -> Iterator[JudgePool[str]]:
    made: JudgePool[str] = JudgePool(4)
    yield made
    if made._thread.is_alive():
        made.close()


def collected(pool: JudgePool[str], number: int) -> list[tuple[Ticket, str]]:
    found: list[tuple[Ticket, str]] = []
    deadline = time.monotonic() + 5
    while len(found) < number and time.monotonic() < deadline:
        found += pool.collect(0.05)
    return found


def test_results_come_in_the_order_they_finish(pool: JudgePool[str]) -> None:
    gates = [asyncio.Event() for _ in range(3)]

    async def gated(at: int) -> str:
        await gates[at].wait()
        return str(at)

    for at in range(3):
        pool.submit(ticket(at), gated(at))
    found = []
    for at in (2, 0, 1):
        pool._loop.call_soon_threadsafe(gates[at].set)
        found += collected(pool, 1)
    assert found == [(ticket(2), "2"), (ticket(0), "0"), (ticket(1), "1")]


def test_work_runs_at_the_same_time(pool: JudgePool[str]) -> None:
    barrier = asyncio.Barrier(4)

    async def meet() -> str:
        await barrier.wait()
        return "met"

    for at in range(4):
        pool.submit(ticket(at), meet())
    assert len(collected(pool, 4)) == 4


def test_slots_are_taken_until_results_are_collected(pool: JudgePool[str]) -> None:
    assert (pool.free, pool.in_flight) == (4, 0)
    pool.submit(ticket(0), after(0, "a"))
    assert (pool.free, pool.in_flight) == (3, 1)
    assert collected(pool, 1) == [(ticket(0), "a")]
    assert (pool.free, pool.in_flight) == (4, 0)


def test_collecting_waits_no_longer_than_it_is_told(pool: JudgePool[str]) -> None:
    pool.submit(ticket(0), after(60, "late"))
    started = time.monotonic()
    assert pool.collect() == []
    assert time.monotonic() - started < 3
    assert pool.collect(0.1) == []
    assert 0.1 <= time.monotonic() - started < 5


def test_work_on_a_revoked_partition_is_given_up_and_its_slot_is_free_at_once(pool: JudgePool[str]) -> None:
    hanging = Hanging()
    pool.submit(ticket(0, P), hanging.work())
    pool.submit(ticket(0, Q), after(0.05, "kept"))
    assert hanging.begun.wait(5)
    pool.cancel({P})
    assert (pool.free, pool.in_flight) == (3, 1)
    assert collected(pool, 1) == [(ticket(0, Q), "kept")]
    assert pool.collect(0.05) == []


def test_a_record_of_a_new_assignment_may_run_while_the_old_one_is_given_up(pool: JudgePool[str]) -> None:
    pool.submit(ticket(7, generation=1), after(60, "old"))
    pool.cancel({P})
    pool.submit(ticket(7, generation=2), after(0.01, "new"))
    assert collected(pool, 1) == [(ticket(7, generation=2), "new")]
    assert pool.in_flight == 0


def test_what_finished_before_it_was_cancelled_still_comes_out(pool: JudgePool[str]) -> None:
    """The tracker drops it: its assignment is over."""
    pool.submit(ticket(0), after(0, "done"))
    while pool._finished.empty():
        time.sleep(0.01)
    pool.cancel({P})
    assert pool.collect() == [(ticket(0), "done")]
    assert pool.free == 4


def test_work_that_raises_is_raised_to_whoever_collects(pool: JudgePool[str]) -> None:
    async def broken() -> str:
        raise RuntimeError("a defect")

    pool.submit(ticket(0), broken())
    with pytest.raises(RuntimeError, match="a defect"):
        pool.collect(5)


def test_closing_lets_cancelled_work_let_go_then_runs_the_last_thing_then_ends_the_thread(
    pool: JudgePool[str], caplog: pytest.LogCaptureFixture
) -> None:
    hanging = Hanging()
    pool.submit(ticket(0), hanging.work())
    assert hanging.begun.wait(5)
    seen: list[bool] = []

    async def last() -> None:
        seen.append(hanging.let_go)

    pool.close(last())
    assert seen == [True]
    assert not pool._thread.is_alive()
    assert pool._loop.is_closed()
    assert caplog.records == []


def test_closing_without_a_last_thing_lets_go_as_well(pool: JudgePool[str]) -> None:
    hanging = Hanging()
    pool.submit(ticket(0), hanging.work())
    assert hanging.begun.wait(5)
    pool.close()
    assert hanging.let_go
    assert not pool._thread.is_alive()


def test_a_last_thing_that_fails_ends_the_thread_all_the_same(pool: JudgePool[str]) -> None:
    async def last() -> Any:
        raise OSError("connection already gone")

    with pytest.raises(OSError, match="already gone"):
        pool.close(last())
    assert not pool._thread.is_alive()
    assert pool._loop.is_closed()
