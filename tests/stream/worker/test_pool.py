"""The judging pool: results as they finish, cancellable work, and a clean shutdown."""

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from stream.kafka.offsets import Partition, Ticket
from stream.worker.pool import JudgePool
from tests.parts.patience import patience

P, Q = Partition("t", 0), Partition("t", 1)


def ticket(offset: int, partition: Partition = P, generation: int = 1) -> Ticket:
    return Ticket(partition, generation, offset)


async def after(seconds: float, result: str) -> str:
    await asyncio.sleep(seconds)
    return result


class Hanging:
    """Work that ends only by cancellation, and takes a moment to clean up."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.cleaned_up = False

    async def work(self) -> str:
        self.started.set()
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.01)
            self.cleaned_up = True
        return "never"


@pytest.fixture
def pool() -> Iterator[JudgePool[str]]:
    new_pool: JudgePool[str] = JudgePool(4)
    yield new_pool
    if new_pool._thread.is_alive():
        new_pool.close()


def collect(pool: JudgePool[str], number: int) -> list[tuple[Ticket, str]]:
    results: list[tuple[Ticket, str]] = []
    deadline = time.monotonic() + 5 * patience()
    while len(results) < number and time.monotonic() < deadline:
        results += pool.collect(0.05)
    return results


def test_results_come_in_the_order_they_finish(pool: JudgePool[str]) -> None:
    gates = [asyncio.Event() for _ in range(3)]

    async def wait_for_gate(number: int) -> str:
        await gates[number].wait()
        return str(number)

    for number in range(3):
        pool.submit(ticket(number), wait_for_gate(number))
    results = []
    for number in (2, 0, 1):
        pool._loop.call_soon_threadsafe(gates[number].set)
        results += collect(pool, 1)
    assert results == [(ticket(2), "2"), (ticket(0), "0"), (ticket(1), "1")]


def test_work_runs_concurrently(pool: JudgePool[str]) -> None:
    barrier = asyncio.Barrier(4)

    async def meet() -> str:
        await barrier.wait()
        return "met"

    for offset in range(4):
        pool.submit(ticket(offset), meet())
    assert len(collect(pool, 4)) == 4


def test_slots_are_taken_until_results_are_collected(pool: JudgePool[str]) -> None:
    assert (pool.free, pool.in_flight) == (4, 0)
    pool.submit(ticket(0), after(0, "a"))
    assert (pool.free, pool.in_flight) == (3, 1)
    assert collect(pool, 1) == [(ticket(0), "a")]
    assert (pool.free, pool.in_flight) == (4, 0)


def test_collecting_waits_no_longer_than_its_timeout(pool: JudgePool[str]) -> None:
    pool.submit(ticket(0), after(60, "late"))
    start = time.monotonic()
    assert pool.collect() == []
    assert time.monotonic() - start < 3 * patience()
    assert pool.collect(0.1) == []
    assert 0.1 <= time.monotonic() - start < 5 * patience()


def test_work_on_a_revoked_partition_is_cancelled_and_its_slot_is_free_at_once(pool: JudgePool[str]) -> None:
    hanging = Hanging()
    pool.submit(ticket(0, P), hanging.work())
    pool.submit(ticket(0, Q), after(0.05, "kept"))
    assert hanging.started.wait(5 * patience())
    pool.cancel({P})
    assert (pool.free, pool.in_flight) == (3, 1)
    assert collect(pool, 1) == [(ticket(0, Q), "kept")]
    assert pool.collect(0.05) == []


def test_a_record_of_a_new_assignment_may_run_while_the_old_one_is_cancelled(pool: JudgePool[str]) -> None:
    pool.submit(ticket(7, generation=1), after(60, "old"))
    pool.cancel({P})
    pool.submit(ticket(7, generation=2), after(0.01, "new"))
    assert collect(pool, 1) == [(ticket(7, generation=2), "new")]
    assert pool.in_flight == 0


def test_work_that_finished_before_its_cancellation_is_still_collected(pool: JudgePool[str]) -> None:
    """The tracker drops it because its assignment is over."""
    pool.submit(ticket(0), after(0, "done"))
    while pool._finished.empty():
        time.sleep(0.01)
    pool.cancel({P})
    assert pool.collect() == [(ticket(0), "done")]
    assert pool.free == 4


def test_an_exception_in_the_work_is_raised_on_collecting(pool: JudgePool[str]) -> None:
    async def broken() -> str:
        raise RuntimeError("a defect")

    pool.submit(ticket(0), broken())
    with pytest.raises(RuntimeError, match="a defect"):
        pool.collect(5 * patience())


def test_closing_waits_for_cancelled_work_then_runs_the_final_work_then_ends_the_thread(
    pool: JudgePool[str], caplog: pytest.LogCaptureFixture
) -> None:
    hanging = Hanging()
    pool.submit(ticket(0), hanging.work())
    assert hanging.started.wait(5 * patience())
    cleaned_up_before: list[bool] = []

    async def last() -> None:
        cleaned_up_before.append(hanging.cleaned_up)

    pool.close(last())
    assert cleaned_up_before == [True]
    assert not pool._thread.is_alive()
    assert pool._loop.is_closed()
    assert caplog.records == []


def test_closing_without_final_work_waits_for_cancelled_work_as_well(pool: JudgePool[str]) -> None:
    hanging = Hanging()
    pool.submit(ticket(0), hanging.work())
    assert hanging.started.wait(5 * patience())
    pool.close()
    assert hanging.cleaned_up
    assert not pool._thread.is_alive()


def test_closing_gives_up_on_final_work_that_takes_too_long(
    pool: JudgePool[str], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that has published everything does not crash because a judge is slow to close."""
    monkeypatch.setattr("stream.worker.pool._CLOSE_SECONDS", 0.1)

    async def last() -> None:
        await asyncio.sleep(60)

    pool.close(last())
    assert caplog.messages == ["the judges did not close within 0.2 s"]
    pool._thread.join(10 * patience())
    assert not pool._thread.is_alive()
    pool._loop.close()  # if the thread took longer than 0.1 s to end


def test_the_thread_ends_even_if_the_final_work_fails(pool: JudgePool[str]) -> None:
    async def last() -> Any:
        raise OSError("connection already gone")

    with pytest.raises(OSError, match="already gone"):
        pool.close(last())
    assert not pool._thread.is_alive()
    assert pool._loop.is_closed()
