"""Admission: records start as their calls find room, in order, and release everything."""

import asyncio
from contextlib import suppress

import pytest

from judges.models.flow import Flow, FlowLimits, RecordAdmission
from tests.parts.endpoints.simulated_endpoint import run_virtually

CALLS = 6


def make_flow(**limits: int) -> Flow:
    return Flow(FlowLimits(**limits), clock=asyncio.get_running_loop().time)


async def ask(flow: Flow, seconds: float = 0.2) -> None:
    async def attempt() -> None:
        await asyncio.sleep(seconds)

    await flow.call(attempt, tokens=1, used=lambda _: 1)


async def judge(admission: RecordAdmission, flow: Flow) -> None:
    """Judge one record with a call for each of six criteria."""
    async with admission.place():
        await asyncio.gather(*(ask(flow) for _ in range(CALLS)))


def test_the_line_in_front_of_an_endpoint_stays_short_and_no_place_is_left_empty() -> None:
    async def inside() -> tuple[int, float]:
        loop, flow = asyncio.get_running_loop(), make_flow(concurrency=16)
        admission, longest = RecordAdmission([flow]), 0
        records = [asyncio.create_task(judge(admission, flow)) for _ in range(64)]
        while not all(record.done() for record in records):
            await asyncio.sleep(0.01)
            longest = max(longest, flow.state.waiting)
        assert admission.waiting == 0
        return longest, loop.time()

    longest, seconds = run_virtually(inside())
    # A quarter of the slots, and the calls of the record that came last.
    assert longest <= 16 / 4 + CALLS
    # The limit adapts to the endpoint's 16 within a second.
    assert seconds <= 64 * CALLS * 0.2 / 16 + 1.0


def test_a_record_without_calls_blocks_no_other() -> None:
    async def inside() -> float:
        admission = RecordAdmission([make_flow()])

        async def find_all_in_the_cache() -> None:
            async with admission.place():
                await asyncio.sleep(0)

        await asyncio.gather(*(find_all_in_the_cache() for _ in range(1000)))
        return asyncio.get_running_loop().time()

    assert run_virtually(inside()) < 0.1


def test_a_record_that_waits_for_something_else_does_not_block_others_for_long() -> None:
    async def inside() -> float:
        flow = make_flow()
        admission = RecordAdmission([flow])

        async def wait_for_money() -> None:
            async with admission.place():
                await asyncio.sleep(100)

        waits = asyncio.create_task(wait_for_money())
        await asyncio.sleep(0)
        await judge(admission, flow)
        waits.cancel()
        return asyncio.get_running_loop().time()

    assert run_virtually(inside()) < 2


@pytest.mark.parametrize("moment", range(6))
def test_cancelled_records_release_their_slots(moment: int) -> None:
    async def inside() -> None:
        flow = make_flow(concurrency=1)
        admission = RecordAdmission([flow])
        records = [asyncio.create_task(judge(admission, flow)) for _ in range(5)]
        for _ in range(moment):
            await asyncio.sleep(0)
        for record in records[::2]:
            record.cancel()
        for record in records:
            with suppress(asyncio.CancelledError):
                await record
        await judge(admission, flow)
        assert admission.waiting == 0

    run_virtually(inside())


def test_without_endpoints_no_record_waits() -> None:
    async def inside() -> None:
        async with RecordAdmission([]).place(), RecordAdmission([]).place():
            pass

    asyncio.run(inside())


def test_it_works_in_one_loop_after_the_other_whatever_the_first_left() -> None:
    flow = Flow(FlowLimits(concurrency=1))
    admission = RecordAdmission([flow])

    async def leave() -> None:
        for _ in range(3):
            asyncio.create_task(judge(admission, flow))  # noqa: RUF006 - left behind on purpose
        await asyncio.sleep(0.01)

    asyncio.run(leave())
    asyncio.run(asyncio.wait_for(judge(admission, flow), 10))
