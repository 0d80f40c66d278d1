"""Admission of records to their endpoints: a record starts when its calls would not have to wait for long.

Without it, all records that fit into memory queue their calls at once. Under throttling the queue grows so long that
records that started early wait behind those that could have waited outside.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from judges.models.flow.flow import Flow

# A record without a call after this time waits for something else, such as money: the next record may start.
_SETTLED_SECONDS = 0.1


class RecordAdmission:
    """Admits records to all their endpoints in order of arrival, one by one; it runs in one event loop at a time.

    A record is admitted while no endpoint has a queue (`Flow.has_line`). As its calls join the queues only a moment
    later, the next record is considered when the first of these calls has arrived.
    """

    def __init__(self, flows: Collection[Flow]) -> None:
        self._flows = tuple(flows)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._admitted = 0
        self._newest: asyncio.Future[None] | None = None
        self._settling: asyncio.TimerHandle | None = None
        """Timer until which the newest record may not have made its calls yet."""

        for flow in self._flows:
            flow.watchers.append(self)

    @property
    def waiting(self) -> int:
        """Number of waiting records."""
        return len(self._waiters)

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Wait for a turn, and hold a place for the duration of the block."""
        if not self._flows:
            yield
            return
        turn = await self._wait_for_turn()
        try:
            yield
        finally:
            self._leave(turn)

    def call_came(self) -> None:
        """Note that a call is queued; concurrent calls of its record arrive in the same step of the loop."""
        if self._settling is not None:
            assert self._loop is not None
            self._settling.cancel()
            self._settling = self._loop.call_later(0, self._settle)

    def attempt_ended(self) -> None:
        self._serve()

    async def _wait_for_turn(self) -> "asyncio.Future[None]":
        self._follow_loop()
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(turn)
        self._serve()
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                # It was admitted between its cancellation and now.
                self._leave(turn)
            elif turn in self._waiters:
                self._waiters.remove(turn)
            raise
        return turn

    def _leave(self, turn: "asyncio.Future[None]") -> None:
        if turn.get_loop() is not self._loop:
            return
        self._admitted -= 1
        if self._newest is turn:
            self._settle()
        else:
            self._serve()

    def _follow_loop(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            # Records that waited or were admitted inside a loop that has ended are gone.
            self._loop, self._settling, self._admitted = loop, None, 0
            self._waiters.clear()

    def _settle(self) -> None:
        if self._settling is not None:
            self._settling.cancel()
            self._settling = None
        self._serve()

    def _serve(self) -> None:
        while self._waiters and self._waiters[0].done():
            self._waiters.popleft()
        if not self._waiters or self._settling is not None:
            return
        if self._admitted and any(flow.has_line for flow in self._flows):
            return
        assert self._loop is not None
        self._newest = self._waiters.popleft()
        self._newest.set_result(None)
        self._admitted += 1
        self._settling = self._loop.call_later(_SETTLED_SECONDS, self._settle)
