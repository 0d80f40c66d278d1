"""Callers: 32 concurrent calls per worker process, paid from a treasury."""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stream.kafka.offsets import Partition
from stream.worker.budget import Treasury
from tests.stream.worker.budget.board import Board

IN_FLIGHT = 32
LEAST, MOST = 200_000, 400_000
"""The bounds of the price of a call, in nanodollars."""
_LEAST_PAUSE, _MOST_PAUSE = 0.005, 0.04


@dataclass(slots=True)
class SkewedClock:
    """The board's true time with the skew of one process; keeps the true time of its last reading."""

    board: Board
    skew: float
    read_at: float = 0.0

    def __call__(self) -> float:
        self.read_at = self.board.now
        return self.read_at + self.skew


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """The duration and cost of the calls of one schedule."""

    seconds: float
    slow: float
    """Share of calls that take ten times as long."""
    unknown: float
    """Share of calls whose price stays unknown."""
    cheapest: float
    """The lowest cost of a call, as a share of its reservation."""


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
                group.create_task(self._call_forever())

    async def _call_forever(self) -> None:
        pause = _LEAST_PAUSE
        while True:
            owned = self._owned()
            if owned and await self._call(self._draw.choice(owned)):
                pause = _LEAST_PAUSE
            else:
                await asyncio.sleep(pause)
                pause = min(2 * pause, _MOST_PAUSE)

    async def _call(self, partition: Partition) -> bool:
        """Make one call; return False if the budget is used up."""
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
        # No other task has run since the ledger read the clock.
        nano = int(most * draw.uniform(self._habits.cheapest, 1.0))
        self._board.start_call(self._clock.read_at, nano, app=app, safety=lane == "safety")
        try:
            slow = draw.random() < self._habits.slow
            await asyncio.sleep(self._habits.seconds * draw.random() * (10 if slow else 1))
            hold.settle(None if draw.random() < self._habits.unknown else nano)
        finally:
            self._board.end_call()
        return True
