"""Caches results for recent texts and criteria, so that the calls about one record share the work."""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
R = TypeVar("R")
T = TypeVar("T")

# Approximate size of an entry without its key, so that many short keys do not take more than a few long ones.
_ENTRY_SIZE = 200


class RecentResults(Generic[K, R]):
    """A function of a key that caches its results, up to a total size of `most` characters.

    Beyond that it drops all of them: recomputing those in use is rare, and no order has to be maintained at every call.
    """

    def __init__(self, make: Callable[[K], R], *, size: Callable[[K], int], most: int) -> None:
        self._make = make
        self._size = size
        self._most = most
        self._results: dict[K, R] = {}
        self._total = 0

    def __call__(self, key: K) -> R:
        try:
            return self._results[key]
        except KeyError:
            return self._remember(key, self._make(key))

    def _remember(self, key: K, result: R) -> R:
        size = self._size(key) + _ENTRY_SIZE
        if self._total + size > self._most:
            self._results, self._total = {}, 0
        if size <= self._most:
            self._results[key] = result
            self._total += size
        return result


class ResultsByOwner(Generic[T, R]):
    """A function of an object without a fast hash and some settings, which caches up to `most` results."""

    def __init__(self, make: Callable[..., R], *, most: int = 256) -> None:
        self._make = make
        self._most = most
        self._results: dict[tuple[Hashable, ...], tuple[T, R]] = {}

    def __call__(self, owner: T, *settings: Hashable) -> R:
        key = (id(owner), *settings)
        entry = self._results.get(key)
        if entry is None:
            if len(self._results) >= self._most:
                self._results = {}
            # The entry refers to the owner, so that no other object can get its id.
            entry = self._results[key] = owner, self._make(owner, *settings)
        return entry[1]
