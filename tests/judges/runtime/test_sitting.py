"""A sitting: a shared call is made once, paid once, and cancelled when no criterion waits for it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.criteria.catalogue import load_catalogue
from judges.runtime.sitting import Shared, Sitting, current_sitting, sitting_for

RAG = load_catalogue("rag")
NAMES = tuple(RAG)
R = TypeVar("R")


class Calls:
    """Counts its calls, which end when they are released."""

    def __init__(self, error: Exception | None = None) -> None:
        self.started = self.cancelled = 0
        self.free = asyncio.Event()
        self._error = error

    async def make(self) -> int:
        self.started += 1
        try:
            await self.free.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self._error is not None:
            raise self._error
        return self.started


def sit(work: Callable[[Sitting, Calls], Awaitable[R]], error: Exception | None = None) -> R:
    async def inside() -> R:
        async with asyncio.timeout(10):
            result = await work(Sitting(tuple(RAG.values())), Calls(error))
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return result

    return asyncio.run(inside())


async def waiting(sitting: Sitting, calls: Calls, *names: str) -> list["asyncio.Task[Shared[int]]"]:
    tasks = [asyncio.create_task(sitting.share("key", name, calls.make)) for name in names]
    while not calls.started:
        await asyncio.sleep(0)
    return tasks


def test_a_call_is_made_once_for_all_waiters_and_they_pay_in_the_order_of_the_criteria() -> None:
    async def work(sitting: Sitting, calls: Calls) -> None:
        tasks = await waiting(sitting, calls, NAMES[2], NAMES[0])
        calls.free.set()
        assert [await task for task in tasks] == [Shared(result=1, payers=(NAMES[0], NAMES[2]))] * 2
        late = await sitting.share("key", NAMES[1], calls.make)
        assert (late.result, late.share(100, NAMES[1]), calls.started) == (1, 0, 1)

    sit(work)


def test_a_cancelled_waiter_leaves_the_call_to_the_others_and_does_not_pay() -> None:
    async def work(sitting: Sitting, calls: Calls) -> None:
        first, second = await waiting(sitting, calls, NAMES[0], NAMES[1])
        first.cancel()
        await asyncio.wait([first])
        calls.free.set()
        assert (await second).payers == (NAMES[1],)
        assert (calls.started, calls.cancelled) == (1, 0)

    sit(work)


def test_a_call_without_waiting_criteria_is_cancelled_and_made_again_later() -> None:
    async def work(sitting: Sitting, calls: Calls) -> None:
        tasks = await waiting(sitting, calls, NAMES[0], NAMES[1])
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        assert (calls.started, calls.cancelled) == (1, 1)
        calls.free.set()
        assert (await sitting.share("key", NAMES[0], calls.make)).result == 2

    sit(work)


def test_a_defect_is_raised_for_all_waiting_criteria() -> None:
    async def work(sitting: Sitting, calls: Calls) -> None:
        tasks = await waiting(sitting, calls, NAMES[0], NAMES[1])
        calls.free.set()
        for task in tasks:
            with pytest.raises(KeyError):
                await task

    sit(work, KeyError("a defect"))


@given(st.integers(0, 10**9), st.integers(1, 6))
def test_the_shares_add_up_to_the_total(total: int, payers: int) -> None:
    shared = Shared(result=None, payers=NAMES[:payers])
    shares = [shared.share(total, name) for name in NAMES]
    assert sum(shares) == total
    assert max(shares[:payers]) - min(shares[:payers]) <= 1
    assert not any(shares[payers:])


def test_it_is_bound_for_a_block() -> None:
    sitting = Sitting(())
    with sitting_for(sitting):
        assert current_sitting() is sitting
    assert current_sitting() is None
