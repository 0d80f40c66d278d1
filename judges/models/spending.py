"""Spending: a model reserves money before a call, and reports afterwards what the call cost.

Whoever pays binds a purse around the work; with none bound, calls cost what they cost. Money is in whole nanodollars:
a token of the cheapest models costs some tens of them, and integers add up without a rest.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from contextvars import ContextVar
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Protocol

from judges.models.errors import ModelOverBudget, ModelTimeout

NANODOLLARS = 1_000_000_000
"""In a dollar."""


def nanodollars(usd: float, *, up: bool = True) -> int:
    """Dollars as they are written, not as floats store them; rounded up, as costs are, or down, as limits are."""
    exact = Decimal(repr(usd)) * NANODOLLARS
    return int(exact.to_integral_value(ROUND_CEILING if up else ROUND_FLOOR))


def dollars(nano: int) -> float:
    return nano / NANODOLLARS


class Hold(Protocol):
    """Money that is kept for one call."""

    def settle(self, nano: int | None) -> None:
        """Says what the call cost: 0 when nothing was sent, None when that is not known and all of it may be gone.

        What is said after the first time counts for nothing.
        """
        ...


class Purse(Protocol):
    """What the calls for one record are paid from."""

    async def reserve(self, nano: int) -> Hold | None:
        """Keeps the most that a call can cost; waits while that may yet become free, and is None when it will not."""
        ...


class _Free:
    """The hold of calls that nobody limits."""

    def settle(self, nano: int | None) -> None:
        pass


_FREE = _Free()
_purse: ContextVar[Purse | None] = ContextVar("purse", default=None)


@contextmanager
def paying_from(purse: Purse | None) -> Iterator[None]:
    """Binds a purse for what is done inside, also in tasks that begin there; None means no budget."""
    token = _purse.set(purse)
    try:
        yield
    finally:
        _purse.reset(token)


def current_purse() -> Purse | None:
    return _purse.get()


@asynccontextmanager
async def paid(most: int) -> AsyncIterator[Hold]:
    """Around one request to an endpoint: keeps the most it can cost, and raises `ModelOverBudget` if that is not there.

    A request that ends without `settle` (cancelled, cut off, timed out) counts in full: the endpoint may bill it.
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
    """The money for the attempts of one call, each the most that one can cost.

    That for the first is kept before the call waits for its turn: an attempt that waited for money would look slow.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: Hold | None = None

    @asynccontextmanager
    async def kept(self, seconds: float) -> AsyncIterator[None]:
        """Around the call; waits for money for so many seconds at most."""
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(seconds):
                    self._kept = await stack.enter_async_context(paid(self._most))
            except TimeoutError:
                raise ModelTimeout(f"no budget became available for the call within {seconds:g} s") from None
            try:
                yield
            finally:
                if self._kept is not None:  # nobody was asked
                    self._kept.settle(0)

    @asynccontextmanager
    async def one(self) -> AsyncIterator[Hold]:
        """Around an attempt: what was kept, or for a further one more of the same."""
        kept, self._kept = self._kept, None
        if kept is None:
            async with paid(self._most) as hold:
                yield hold
            return
        try:
            yield kept
        finally:
            kept.settle(None)
