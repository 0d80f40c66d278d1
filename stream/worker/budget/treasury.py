"""The treasury: the ledgers of a worker's partitions, used by the thread that commits and by the loop that judges.

Threads: the committing thread assigns partitions and calls `prepare` and `confirm_commit`; purses are used in the
judges' loop. A lock is held around each step of a ledger, never while anything waits.
"""

import asyncio
import itertools
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from judges.models.spending import Hold, dollars
from sinks.metrics.budgets import BudgetStanding
from stream.kafka.offsets import Partition
from stream.worker.budget.lease_ledger import CLOCK_SECONDS, Ask, LeaseLedger, LeaseRefusal, Reservation
from stream.worker.budget.limits import Budgets, Span, shares
from stream.worker.budget.offset_note import NoteError, read
from stream.worker.budget.savings import NO_PLAN, SavingMeasure, SavingPlan, plan_savings

log = logging.getLogger(__name__)

# Waiters that may try again when a call is settled: the freed amount is seldom enough for two, and the first in line
# may want another app's money.
_PER_SETTLEMENT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPlan:
    """Offsets to commit, and a note for each partition that pays for judging.

    An offset of such a partition must never be committed without its note: that would erase the spent amount.
    """

    offsets: Mapping[Partition, int]
    notes: Mapping[Partition, str]
    opened: Mapping[Partition, "_OpenPartition"] = field(default_factory=dict, repr=False)


@dataclass(slots=True, eq=False)
class _OpenPartition:
    """A partition's ledger for as long as one worker has the partition."""

    ledger: LeaseLedger
    offset: int | None
    """The last one committed; None before the first."""


class Treasury:
    """Without budgets it limits nothing and writes no notes."""

    def __init__(
        self,
        budgets: Budgets | None,
        *,
        topic: str,
        safety_lane: str | None = "safety",
        clock: Callable[[], float] = time.time,
        clock_seconds: float = CLOCK_SECONDS,
    ) -> None:
        """The partitions of `topic` divide the budgets; those of the same number on other topics share theirs."""
        self._budgets = budgets
        self._topic = topic
        self._safety_lane = safety_lane
        self._clock = clock
        self._clock_seconds = clock_seconds
        self._lock = threading.Lock()
        self._open: dict[int, _OpenPartition] = {}
        self._unread: set[int] = set()
        # An ordered set: the values are not used.
        self._waiters: dict[int, dict[asyncio.Future[None], None]] = {}
        self._excess = 0
        self.refused = 0
        """Calls that were not made because a budget was used up."""

    @property
    def active(self) -> bool:
        return self._budgets is not None

    @property
    def excess_usd(self) -> float:
        """Cost of calls beyond the amounts reserved for them, since the start."""
        with self._lock:
            return dollars(self._excess + sum(opened.ledger.excess for opened in self._open.values()))

    # Partitions come and go

    def expect_partitions(self, partitions: Collection[Partition]) -> None:
        """Note assigned partitions; no call is paid from them until their notes are read."""
        if self._budgets is not None:
            self._unread |= {partition.number for partition in partitions if partition.topic == self._topic}

    @property
    def unread(self) -> list[Partition]:
        """Partitions whose committed offset and note must be looked up as soon as possible."""
        return [Partition(self._topic, number) for number in sorted(self._unread)]

    def open_partition(self, partition: Partition, offset: int | None, note: str, *, partitions: int) -> None:
        """Open a partition with its committed offset and note; the topic has this many partitions."""
        assert self._budgets is not None
        limits = shares(self._budgets, partition.number, partitions)
        now = self._clock()
        try:
            read(note)
        except NoteError as error:
            log.warning("%s: %s; the rest of this hour's and day's budget will not be spent", partition, error)
        ledger = LeaseLedger.decode(note, limits, now, clock_seconds=self._clock_seconds)
        with self._lock:
            self._open[partition.number] = _OpenPartition(ledger, offset)
        self._unread.discard(partition.number)
        self._wake((partition.number,))

    def close_partitions(self, partitions: Collection[Partition]) -> None:
        """Pay no further calls from these partitions; the next commit gives back what they do not need."""
        with self._lock:
            for opened in self._of(partitions):
                opened.ledger.close()

    def forget(self, partitions: Collection[Partition]) -> None:
        """Drop partitions that another worker has now."""
        with self._lock:
            for opened in self._of(partitions):
                opened.ledger.close()
                self._excess += opened.ledger.excess
            for partition in partitions:
                if partition.topic == self._topic:
                    self._open.pop(partition.number, None)
                    self._unread.discard(partition.number)

    def _of(self, partitions: Collection[Partition]) -> list[_OpenPartition]:
        numbers = {partition.number for partition in partitions if partition.topic == self._topic}
        return [opened for number, opened in self._open.items() if number in numbers]

    # Commits

    @property
    def urgent(self) -> bool:
        """Whether calls wait for a commit, or soon will."""
        now = self._clock()
        with self._lock:
            return any(opened.ledger.needs_lease(now) for opened in self._open.values())

    def prepare(self, offsets: Mapping[Partition, int], oldest: Callable[[Partition], int | None]) -> CommitPlan:
        """Add to these offsets their notes, and the leases of partitions that have no results yet.

        `oldest` returns the offset of a partition's first uncommitted record, if there is one.
        Call it before every commit, even with no offsets.
        """
        if not self.active:
            return CommitPlan(offsets=offsets, notes={})
        wanted, notes, leased = dict(offsets), {}, {}
        now = self._clock()
        with self._lock:
            for number, opened in self._open.items():
                partition = Partition(self._topic, number)
                if partition not in wanted and opened.ledger.needs_lease(now):
                    offset = opened.offset if opened.offset is not None else oldest(partition)
                    if offset is not None:
                        wanted[partition] = offset
                if partition in wanted:
                    notes[partition], leased[partition] = opened.ledger.lease(now), opened
        # A call that waited for the end of a window may be paid now. Those that need this commit are woken after it.
        self._wake(self._open.keys() - {partition.number for partition in notes})
        for partition in wanted:
            if partition.topic == self._topic and partition not in notes:
                raise RuntimeError(f"{partition}: an offset without a note would erase what was spent")
        return CommitPlan(offsets=wanted, notes=notes, opened=leased)

    def confirm_commit(self, plan: CommitPlan) -> None:
        """Confirm that the transaction with this plan was committed."""
        with self._lock:
            for partition, opened in plan.opened.items():
                opened.offset = plan.offsets[partition]
                opened.ledger.confirm_commit()
        self._wake(partition.number for partition in plan.opened)

    # Calls

    def is_open(self, partition: Partition) -> bool:
        """Return whether calls for the partition's records can be paid, and its offset committed."""
        return not self.active or partition.number in self._open

    def purse(self, partition: Partition, app: str | None, lane: str) -> "PartitionPurse | None":
        """Return the purse that pays for a record's calls, whichever topic it is on; None without budgets."""
        if not self.active:
            return None
        return PartitionPurse(self, partition.number, app=app, safety=lane == self._safety_lane)

    def plan_savings(
        self, partition: Partition, app: str | None, lane: str, measures: Sequence[SavingMeasure]
    ) -> SavingPlan:
        """Choose the savings for a record; the safety lane has none."""
        if not self.active or lane == self._safety_lane:
            return NO_PLAN
        return plan_savings(self.share_left(partition, app), measures)

    def standing(self) -> list[BudgetStanding]:
        """Return the state of the budgets, summed over our partitions."""
        sums: dict[tuple[Span, str], tuple[int, int]] = {}
        now = self._clock()
        with self._lock:
            for opened in self._open.values():
                for span, scope, account in opened.ledger.standing(now):
                    spent, limit = sums.get((span, scope), (0, 0))
                    sums[span, scope] = spent + account.used, limit + account.limit
        return [
            BudgetStanding(window=span.name.lower(), app=scope, spent_usd=dollars(spent), limit_usd=dollars(limit))
            for (span, scope), (spent, limit) in sums.items()
        ]

    def share_left(self, partition: Partition, app: str | None) -> float:
        """Return the share, 0 to 1, that the partition has left of the budgets for the app's calls."""
        with self._lock:
            opened = self._open.get(partition.number)
            return opened.ledger.share_left(self._clock(), app) if opened is not None else 1.0

    def reserve(self, number: int, ask: Ask, waiter: "asyncio.Future[None]") -> "_PartitionHold | LeaseRefusal":
        """Try once; the waiter is woken when it is worth trying again."""
        with self._lock:
            opened = self._open.get(number)
            reply = LeaseRefusal.NOT_YET if opened is None else opened.ledger.reserve(ask, self._clock())
            if opened is not None and isinstance(reply, Reservation):
                return _PartitionHold(self, number, opened.ledger, reply)
            if reply is LeaseRefusal.OVER:
                self.refused += 1
                return LeaseRefusal.OVER
            if opened is not None:
                opened.ledger.wait_for(ask)
            self._waiters.setdefault(number, {})[waiter] = None
            return LeaseRefusal.NOT_YET

    def withdraw(self, number: int, ask: Ask, waiter: "asyncio.Future[None] | None") -> None:
        with self._lock:
            if number in self._open:
                self._open[number].ledger.wait_no_more(ask)
            if waiter is not None:
                self._waiters.get(number, {}).pop(waiter, None)

    def settle(self, number: int, ledger: LeaseLedger, reservation: Reservation, nano: int | None) -> None:
        with self._lock:
            ledger.settle(reservation, nano)
        self._wake((number,), _PER_SETTLEMENT)

    def _wake(self, numbers: Iterable[int], most: int | None = None) -> None:
        """Wake the calls that wait for these partitions, or at most the first `most` of each."""
        with self._lock:
            waiters = []
            for number in numbers:
                line = self._waiters.get(number, {})
                chosen = list(itertools.islice(line, most))
                waiters += chosen
                for waiter in chosen:
                    del line[waiter]
        if not waiters:
            return
        for loop in {waiter.get_loop() for waiter in waiters}:
            if not loop.is_closed():
                loop.call_soon_threadsafe(_release_waiters, [waiter for waiter in waiters if waiter.get_loop() is loop])


def _release_waiters(waiters: list["asyncio.Future[None]"]) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)


class PartitionPurse:
    """Pays for the calls of one record from its partition's share."""

    def __init__(self, treasury: Treasury, number: int, *, app: str | None, safety: bool) -> None:
        self._treasury, self._number = treasury, number
        self._app, self._safety = app, safety

    async def reserve(self, nano: int) -> Hold | None:
        ask = Ask(amount=nano, app=self._app, safety=self._safety)
        loop, waiter = asyncio.get_running_loop(), None
        try:
            while True:
                waiter = loop.create_future()
                reply = self._treasury.reserve(self._number, ask, waiter)
                if reply is not LeaseRefusal.NOT_YET:
                    return None if isinstance(reply, LeaseRefusal) else reply
                await waiter
        finally:
            self._treasury.withdraw(self._number, ask, waiter)


@dataclass(frozen=True, slots=True)
class _PartitionHold:
    treasury: Treasury
    number: int
    ledger: LeaseLedger
    reservation: Reservation

    def settle(self, nano: int | None) -> None:
        self.treasury.settle(self.number, self.ledger, self.reservation, nano)
