"""Spending: how a model asks for money before a call and says afterwards what the call cost.

Whoever pays binds a purse around the work; with none bound, calls cost what they cost. Money is in whole nanodollars:
a token of the cheapest models costs some tens of them, and integers add up without a rest.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Protocol

from judges.models.errors import ModelError

NANODOLLARS = 1_000_000_000
"""In a dollar."""


def nanodollars(usd: float, *, up: bool = True) -> int:
    """Dollars as they are written, not as floats store them; rounded up, as costs are, or down, as limits are."""
    exact = Decimal(repr(usd)) * NANODOLLARS
    return int(exact.to_integral_value(ROUND_CEILING if up else ROUND_FLOOR))


def dollars(nano: int) -> float:
    return nano / NANODOLLARS


class ModelOverBudget(ModelError):  # noqa: N818 - the leaf says what happened
    """The call was not made: its budget is used up, or what is left may not be enough for it."""


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
        raise ModelOverBudget(f"not asked: the budget has less left than the {dollars(most):.6f} USD it may cost")
    try:
        yield hold
    finally:
        hold.settle(None)
