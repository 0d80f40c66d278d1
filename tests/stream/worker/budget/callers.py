"""Callers: what keeps a worker process busy in the proofs, 32 calls at once that are paid from a treasury."""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stream.kafka.offsets import Partition
from stream.worker.budget import Treasury
from tests.stream.worker.budget.board import Board

IN_FLIGHT = 32
LEAST, MOST = 200_000, 400_000
"""The bounds of calls, in nanodollars."""
_LEAST_PAUSE, _MOST_PAUSE = 0.005, 0.04


@dataclass(slots=True)
class SkewedClock:
    """The true time of the board as one process sees it; remembers the true time of its last reading."""

    board: Board
    skew: float
    read_at: float = 0.0

    def __call__(self) -> float:
        self.read_at = self.board.now
        return self.read_at + self.skew


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """How the calls of one schedule go."""

    seconds: float
    slow: float
    """Share of calls that take ten times as long."""
    unknown: float
    """Share of calls whose price is never learned."""
    cheapest: float
    """The least that a call costs, as a share of what was reserved for it."""


class Callers:
    def __init__(
        self,
        treasury: Treasury,
        board: Board,
        clock: SkewedClock,
        habits: Habits,
        owned: Callable[[], Sequence[Partition]],
        draw: random.Random,
    ) -> None:
        self._treasury, self._board, self._clock = treasury, board, clock
        self._habits, self._owned, self._draw = habits, owned, draw

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(IN_FLIGHT):
                group.create_task(self._call_for_ever())

    async def _call_for_ever(self) -> None:
        pause = _LEAST_PAUSE
        while True:
            owned = self._owned()
            if owned and await self._call(self._draw.choice(owned)):
                pause = _LEAST_PAUSE
            else:
                await asyncio.sleep(pause)
                pause = min(2 * pause, _MOST_PAUSE)

    async def _call(self, partition: Partition) -> bool:
        """False when the budget is used up, or the partition was not there for long."""
        draw = self._draw
        app, lane = draw.choice((None, "bot", "other")), draw.choice(("main", "main", "main", "safety"))
        most = draw.randint(LEAST, MOST)
        purse = self._treasury.purse(partition, app, lane)
        assert purse is not None
        try:
            async with asyncio.timeout(0.05):
                hold = await purse.reserve(most)
        except TimeoutError:
            return True
        if hold is None:
            return False
        # No other task has run since the ledger looked at the clock.
        nano = int(most * draw.uniform(self._habits.cheapest, 1.0))
        self._board.begun(self._clock.read_at, nano, app=app, safety=lane == "safety")
        try:
            slow = draw.random() < self._habits.slow
            await asyncio.sleep(self._habits.seconds * draw.random() * (10 if slow else 1))
            hold.settle(None if draw.random() < self._habits.unknown else nano)
        finally:
            self._board.ended()
        return True
