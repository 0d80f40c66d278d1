"""Runs several calls at once, and lets none outlive the wait for them."""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import TypeVar

R = TypeVar("R")


async def gather_all(work: Sequence[Awaitable[R]]) -> list[R]:
    """The results in order, or the first failure, once all have ended.

    `asyncio.gather` returns as soon as one of them was cancelled: the others would still hold connections and money
    when whoever cancelled them takes both for free.
    """
    if len(work) == 1:
        return [await work[0]]
    ended = await asyncio.gather(*work, return_exceptions=True)
    return [_result(each) for each in ended]


def _result(ended: R | BaseException) -> R:
    if isinstance(ended, BaseException):
        raise ended
    return ended
