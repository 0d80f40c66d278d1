"""Spending: a model reserves money before a call and reports the cost afterwards.

The payer binds a purse around the work; without one, spending has no limit. Money is in whole nanodollars: a token of
the cheapest models costs some tens of them, and sums of integers are exact.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from contextvars import ContextVar
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Protocol

from judges.models.errors import ModelOverBudget, ModelTimeout

NANODOLLARS = 1_000_000_000
"""Nanodollars per dollar."""


def nanodollars(usd: float, *, up: bool = True) -> int:
    """Convert dollars by their decimal notation, not their binary value; round costs up and limits down."""
    exact = Decimal(repr(usd)) * NANODOLLARS
    return int(exact.to_integral_value(ROUND_CEILING if up else ROUND_FLOOR))


def dollars(nano: int) -> float:
    return nano / NANODOLLARS


class Hold(Protocol):
    """Money reserved for one call."""

    def settle(self, nano: int | None) -> None:
        """Report the cost of the call: 0 if nothing was sent, None if it is unknown and counts in full.

        Only the first report counts.
        """
        ...


class Purse(Protocol):
    """Pays for the calls of one record."""

    async def reserve(self, nano: int) -> Hold | None:
        """Reserve the maximum cost of a call; wait while that much may still become free, and else return None."""
        ...


class _Free:
    """The hold of calls without a limit on spending."""

    def settle(self, nano: int | None) -> None:
        pass


_FREE = _Free()
_purse: ContextVar[Purse | None] = ContextVar("purse", default=None)


@contextmanager
def paying_from(purse: Purse | None) -> Iterator[None]:
    """Bind a purse for the block, including tasks that start in it; None means no budget."""
    token = _purse.set(purse)
    try:
        yield
    finally:
        _purse.reset(token)


def current_purse() -> Purse | None:
    return _purse.get()


@asynccontextmanager
async def reserve_money(most: int) -> AsyncIterator[Hold]:
    """Reserve the maximum cost of a request for the block; raise `ModelOverBudget` if the budget does not cover it.

    A request that ends without `settle` (cancelled, aborted, timed out) counts in full: the endpoint may bill it.
    """
    purse = _purse.get()
    if purse is None:
        yield _FREE
        return
    hold = await purse.reserve(most)
    if hold is None:
        raise ModelOverBudget(f"not called: the budget left is less than the {dollars(most):.6f} USD the call may cost")
    try:
        yield hold
    finally:
        hold.settle(None)


class Fares:
    """The money for the attempts of one call: for each, the maximum that an attempt can cost.

    The first is paid for before the call waits for its turn: an attempt that waited for money would look slow.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._first: Hold | None = None

    @asynccontextmanager
    async def reserve_first(self, seconds: float) -> AsyncIterator[None]:
        """Reserve money for the first attempt of the call in the block; wait for it at most this many seconds."""
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(seconds):
                    self._first = await stack.enter_async_context(reserve_money(self._most))
            except TimeoutError:
                raise ModelTimeout(f"no budget became available for the call within {seconds:g} s") from None
            try:
                yield
            finally:
                if self._first is not None:  # no attempt was made
                    self._first.settle(0)

    @asynccontextmanager
    async def pay_attempt(self) -> AsyncIterator[Hold]:
        """Hold the money for one attempt in the block: for the first as reserved before, for every further one now."""
        first, self._first = self._first, None
        if first is None:
            async with reserve_money(self._most) as hold:
                yield hold
            return
        try:
            yield first
        finally:
            first.settle(None)
