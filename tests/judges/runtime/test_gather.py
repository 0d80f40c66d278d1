"""Concurrent calls end together."""

import asyncio
from contextlib import suppress

import pytest

from judges.runtime.gather import gather_all
from tests.parts.patience import until


async def result(value: int, *, after: float = 0.0) -> int:
    await asyncio.sleep(after)
    return value


async def failing(error: BaseException) -> int:
    raise error


@pytest.mark.parametrize("count", [0, 1, 3])
def test_the_results_are_in_order(count: int) -> None:
    assert asyncio.run(gather_all([result(number, after=(3 - number) / 200) for number in range(count)])) == list(
        range(count)
    )


@pytest.mark.parametrize("error", [ValueError("odd"), asyncio.CancelledError()])
def test_the_failure_of_one_is_raised_when_the_others_have_ended(error: BaseException) -> None:
    ended: list[int] = []

    async def late() -> int:
        ended.append(await result(1, after=0.02))
        return 1

    async def inside() -> None:
        with pytest.raises(type(error)):
            await gather_all([failing(error), late()])
        assert ended == [1]

    asyncio.run(inside())


def test_a_cancelled_caller_leaves_no_call_running() -> None:
    begun: list[float] = []
    closed: list[float] = []

    async def slow_to_close(seconds: float) -> None:
        begun.append(seconds)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(seconds)
            closed.append(seconds)

    async def inside() -> None:
        task = asyncio.create_task(gather_all([slow_to_close(0.0), slow_to_close(0.02)]))
        await until(lambda: len(begun) == 2)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert task.cancelled()
        assert closed == [0.0, 0.02]

    asyncio.run(inside())
