"""The treasury: calls wait for leases, are refused when the budget is used up, and their cost is committed."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable

import pytest

from judges.models.errors import ModelOverBudget
from judges.models.spending import Hold, current_purse, nanodollars, paying_from, reserve_money
from stream.kafka.offsets import Partition
from stream.worker.budget import Treasury
from stream.worker.budget.limits import Budget, Budgets
from stream.worker.budget.offset_note import read

TOPIC = "rag.sampled"
FIRST, SECOND = Partition(TOPIC, 0), Partition(TOPIC, 1)
CENT = nanodollars(0.01)
HALF_PAST = 1_800_001_800.0


def treasury(per_hour_usd: float = 1.0, *, safety_share: float = 0.0, opened: bool = True) -> Treasury:
    budgets = Budgets(everyone=Budget(per_hour_usd=per_hour_usd), apps={}, safety_share=safety_share)
    subject = Treasury(budgets, topic=TOPIC, clock=lambda: HALF_PAST)
    subject.expect_partitions([FIRST])
    if opened:
        subject.open_partition(FIRST, None, "", partitions=1)
    return subject


def nothing_started(_partition: Partition) -> int | None:
    return None


def commit(subject: Treasury, offset: int = 5) -> str:
    paper = subject.prepare({FIRST: offset}, nothing_started)
    subject.confirm_commit(paper)
    return paper.notes[FIRST]


async def reserve(subject: Treasury, nano: int, lane: str = "main", partition: Partition = FIRST) -> Hold | None:
    purse = subject.purse(partition, None, lane)
    assert purse is not None
    return await purse.reserve(nano)


class TestCalls:
    def test_a_call_waits_for_its_lease_and_no_longer(self) -> None:
        subject = treasury()

        async def call() -> tuple[bool, Hold | None]:
            waiting = asyncio.create_task(reserve(subject, CENT))
            await asyncio.sleep(0.01)
            early = waiting.done()
            commit(subject)
            return early, await asyncio.wait_for(waiting, 1)

        early, hold = asyncio.run(call())
        assert not early
        assert hold is not None

    def test_a_call_is_refused_at_once_when_the_budget_is_used_up(self) -> None:
        subject = treasury(per_hour_usd=0.005)
        assert asyncio.run(asyncio.wait_for(reserve(subject, CENT), 1)) is None
        assert subject.refused == 1

    def test_records_on_other_topics_pay_from_the_partition_of_their_number(self) -> None:
        subject = treasury(per_hour_usd=0.005)
        assert asyncio.run(asyncio.wait_for(reserve(subject, CENT, partition=Partition("rag.retry.1", 0)), 1)) is None

    def test_no_lease_is_requested_for_a_call_that_gave_up_waiting(self) -> None:
        subject = treasury()
        with pytest.raises(TimeoutError):
            asyncio.run(asyncio.wait_for(reserve(subject, CENT), 0.02))
        assert not subject.urgent

    def test_a_settled_call_lets_a_waiting_one_proceed_without_a_commit(self) -> None:
        subject = treasury(per_hour_usd=0.015)

        async def calls() -> Hold | None:
            first = asyncio.create_task(reserve(subject, CENT))
            await asyncio.sleep(0)
            commit(subject)
            commit(subject)
            hold = await first
            assert hold is not None
            second = asyncio.create_task(reserve(subject, CENT))
            await asyncio.sleep(0.01)
            assert not second.done()
            hold.settle(0)
            return await asyncio.wait_for(second, 1)

        assert asyncio.run(calls()) is not None

    def test_without_budgets_there_is_no_purse_and_no_note(self) -> None:
        subject = Treasury(None, topic=TOPIC)
        subject.expect_partitions([FIRST])
        assert subject.unread == []
        assert subject.purse(FIRST, None, "main") is None
        assert subject.is_open(FIRST)
        assert not subject.urgent
        paper = subject.prepare({FIRST: 3}, nothing_started)
        assert (paper.offsets, paper.notes) == ({FIRST: 3}, {})


class TestCommits:
    def test_an_urgent_lease_is_committed_with_the_offset_of_the_oldest_record(self) -> None:
        subject = treasury()

        async def ask() -> None:
            waiting = asyncio.create_task(reserve(subject, CENT))
            await asyncio.sleep(0)
            assert subject.urgent
            paper = subject.prepare({}, lambda _: 17)
            assert paper.offsets == {FIRST: 17}
            assert read(paper.notes[FIRST])
            subject.confirm_commit(paper)
            await waiting

        asyncio.run(ask())
        assert subject.prepare({}, nothing_started).offsets == {}, "no lease is urgent any more"

    def test_an_urgent_lease_never_moves_the_committed_offset_ahead(self) -> None:
        subject = treasury()
        commit(subject, offset=40)

        async def ask() -> None:
            waiting = asyncio.create_task(reserve(subject, CENT))
            await asyncio.sleep(0)
            assert subject.prepare({}, lambda _: 99).offsets == {FIRST: 40}
            waiting.cancel()

        asyncio.run(ask())

    def test_an_offset_is_never_committed_without_its_note(self) -> None:
        subject = treasury(opened=False)
        assert subject.unread == [FIRST]
        assert not subject.is_open(FIRST)
        with pytest.raises(RuntimeError, match="would erase"):
            subject.prepare({FIRST: 3}, nothing_started)

    def test_offsets_of_other_topics_need_no_note(self) -> None:
        other = Partition("rag.retry.1", 0)
        paper = treasury().prepare({other: 3}, nothing_started)
        assert (paper.offsets, paper.notes) == ({other: 3}, {})

    def test_a_released_partition_returns_unspent_money(self) -> None:
        subject = treasury()

        async def ask() -> None:
            waiting = asyncio.create_task(reserve(subject, 10 * CENT))
            await asyncio.sleep(0)
            commit(subject)
            hold = await waiting
            assert hold is not None
            hold.settle(CENT)

        asyncio.run(ask())
        subject.close_partitions([FIRST])
        assert subject.urgent
        note = subject.prepare({}, nothing_started).notes[FIRST]
        assert [caps.whole for scopes in read(note).values() for caps in scopes.values()] == [CENT]
        subject.forget([FIRST])
        assert not subject.urgent
        assert not subject.is_open(FIRST)

    def test_the_next_owner_continues_where_the_last_one_stopped(self) -> None:
        first = treasury()

        async def spend(subject: Treasury, nano: int) -> None:
            waiting = asyncio.create_task(reserve(subject, nano))
            await asyncio.sleep(0)
            commit(subject)
            hold = await waiting
            assert hold is not None
            hold.settle(nano)

        asyncio.run(spend(first, 30 * CENT))
        first.close_partitions([FIRST])
        note = commit(first)
        second = treasury(opened=False)
        second.open_partition(FIRST, 5, note, partitions=1)
        assert second.share_left(FIRST, None) == pytest.approx(0.7)

    def test_an_unknown_note_is_logged_and_nothing_more_is_spent(self, caplog: pytest.LogCaptureFixture) -> None:
        subject = treasury(opened=False)
        subject.open_partition(FIRST, 5, "not ours", partitions=1)
        assert "will not be spent" in caplog.text
        assert asyncio.run(asyncio.wait_for(reserve(subject, 1), 1)) is None


def test_calls_in_one_thread_and_commits_in_another_spend_all_and_no_more() -> None:
    """Like in a worker, the judges' loop reserves and settles, and the committing thread leases."""
    subject = treasury(per_hour_usd=0.2)
    spent, refused, stop = [0], [0], threading.Event()

    async def caller() -> None:
        while not refused[0]:
            hold = await reserve(subject, CENT // 10)
            if hold is None:
                refused[0] += 1
                return
            await asyncio.sleep(0)
            spent[0] += CENT // 15
            hold.settle(CENT // 15)

    async def calls() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(32):
                group.create_task(caller())

    def commits() -> None:
        while not stop.is_set():
            commit(subject)
            time.sleep(0.001)

    thread = threading.Thread(target=commits)
    thread.start()
    try:
        asyncio.run(asyncio.wait_for(calls(), 30))
    finally:
        stop.set()
        thread.join()
    assert 0.98 * 20 * CENT <= spent[0] <= 20 * CENT


class TestPaying:
    """The reservation around each request of a model."""

    def run(self, subject: Treasury, request: Callable[[Hold], object]) -> str:
        """Pay for one request from a bound purse, and return the note that is committed afterwards."""

        async def call() -> str:
            async with reserve_money(10 * CENT) as hold:
                request(hold)
            return "done"

        async def work() -> str:
            with paying_from(subject.purse(FIRST, None, "main")):
                task = asyncio.create_task(call())
            await asyncio.sleep(0)
            commit(subject)
            with contextlib.suppress(ConnectionError):
                await task
            subject.close_partitions([FIRST])
            return commit(subject)

        return asyncio.run(work())

    def leased_amounts(self, note: str) -> list[int]:
        return [caps.whole for scopes in read(note).values() for caps in scopes.values()]

    def test_a_request_counts_with_its_cost(self) -> None:
        assert self.leased_amounts(self.run(treasury(), lambda hold: hold.settle(2 * CENT))) == [2 * CENT]

    def test_a_failed_request_counts_in_full(self) -> None:
        def break_off(_hold: Hold) -> None:
            raise ConnectionError

        assert self.leased_amounts(self.run(treasury(), break_off)) == [10 * CENT]

    def test_a_request_that_was_never_sent_costs_nothing(self) -> None:
        assert self.leased_amounts(self.run(treasury(), lambda hold: hold.settle(0))) == []

    def test_over_the_budget_no_request_is_made(self) -> None:
        with pytest.raises(ModelOverBudget, match=r"left is less than the 0\.100000 USD"):
            self.run(treasury(per_hour_usd=0.05), lambda hold: hold.settle(0))

    def test_without_a_purse_any_amount_is_paid(self) -> None:
        async def call() -> None:
            async with reserve_money(10**18) as hold:
                hold.settle(5)

        assert current_purse() is None
        asyncio.run(call())

    def test_dollars_are_converted_exactly(self) -> None:
        assert nanodollars(0.1 + 0.2) == 300_000_001, "a rounding error of a float costs a nanodollar"
        assert nanodollars(0.3) == nanodollars(0.3, up=False) == 300_000_000
        assert nanodollars(1e-10) == 1
        assert nanodollars(1e-10, up=False) == 0
