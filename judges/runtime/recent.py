"""Remembers what was made of recent texts and criteria, so that the calls about one record share the work."""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
R = TypeVar("R")
T = TypeVar("T")

# What an entry takes beside its key, about, so that many short keys are not more than a few long ones.
_ENTRY_SIZE = 200


class RecentResults(Generic[K, R]):
    """A function of a key that remembers its results, for keys of at most `most` characters in all.

    When they are more, it starts again with none: what is in use is made once more, which is rare, and there is no
    order to keep up with every call.
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
    """A function of an object and some settings, for objects that have no quick hash; it remembers `most` results."""

    def __init__(self, make: Callable[..., R], *, most: int = 256) -> None:
        self._make = make
        self._most = most
        self._results: dict[tuple[Hashable, ...], tuple[T, R]] = {}

    def __call__(self, owner: T, *settings: Hashable) -> R:
        key = (id(owner), *settings)
        remembered = self._results.get(key)
        if remembered is None:
            if len(self._results) >= self._most:
                self._results = {}
            # The owner is kept, so that no other object can come to have its id.
            remembered = self._results[key] = owner, self._make(owner, *settings)
        return remembered[1]
