"""Runs several calls concurrently, and waits until all have ended."""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import TypeVar

R = TypeVar("R")


async def gather_all(work: Sequence[Awaitable[R]]) -> list[R]:
    """Return the results in order, or raise the first failure, once all have ended.

    `asyncio.gather` returns as soon as one is cancelled: the others would still hold connections and reserved money
    when the caller assumes that both are free.
    """
    if len(work) == 1:
        return [await work[0]]
    outcomes = await asyncio.gather(*work, return_exceptions=True)
    return [_result(outcome) for outcome in outcomes]


def _result(outcome: R | BaseException) -> R:
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome
