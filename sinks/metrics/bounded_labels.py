"""Labels of bounded number: apps, models and tenants are named by the traffic, which may name any number of them.

Whatever is not told apart is counted under `other`, so that sums over all values are exact.
"""

import threading
from collections.abc import Iterable

from sinks.base import OTHER, UNKNOWN

MAX_APPS = 50

# Soon reached by what comes every day; a bug that makes names up hardly makes the same one up so often.
_OFTEN = 20
# For each place: a value with a tenth of a fair share comes 20 times, of which a flood of others hides a few.
_EVENTS = 200
_CANDIDATES = 100
# Values that may ever be published, for each place: the series of one that lost its place stay until the process ends.
_PUBLISHED = 3


class BoundedLabel:
    """Passes the first N distinct values on, and the reserved ones whenever they come, and calls the rest `other`."""

    def __init__(self, limit: int = MAX_APPS, reserved: Iterable[str] = ()) -> None:
        """Reserved values are among the N; if they are more, all of them have a place and no others."""
        self._limit = limit
        self._seen = set(reserved)
        self._lock = threading.Lock()

    def __call__(self, value: str | None) -> str:
        name = value or UNKNOWN
        if name in {UNKNOWN, OTHER}:
            return name
        with self._lock:
            if name not in self._seen and len(self._seen) >= self._limit:
                return OTHER
            self._seen.add(name)
        return name


class FrequentLabel:
    """Passes on the values that come most often lately, as far as there are places, and calls the rest `other`.

    A value that came often gets a place at once while one is free. After every so many events one that came more than
    twice as often as the rarest that has a place takes it; then all counts are halved, to speak of the last few rounds.

    Values without a place are counted in bounded memory (Misra and Gries): when there is no room for one more, all of
    them lose a count. So no flood of rare names pushes out a frequent one, whose own count is exact.
    """

    def __init__(
        self, places: int, *, often: int = _OFTEN, events: int = _EVENTS, candidates: int = _CANDIDATES
    ) -> None:
        """Events between two ranks, and candidates, are for each place."""
        self._places, self._often = places, often
        self._events, self._max_candidates = places * events, places * candidates
        self._named: dict[str, int] = {}
        self._candidates: dict[str, int] = {}
        self._published: set[str] = set()
        self._counted = 0
        self._lock = threading.Lock()

    def __call__(self, value: str | None) -> str:
        name = value or UNKNOWN
        if name in {UNKNOWN, OTHER}:
            return name
        with self._lock:
            self._count(name)
            return name if name in self._named else OTHER

    def _count(self, name: str) -> None:
        if name in self._named:
            self._named[name] += 1
        elif name in self._candidates or len(self._candidates) < self._max_candidates:
            self._candidates[name] = self._candidates.get(name, 0) + 1
        else:
            self._candidates = {other: count - 1 for other, count in self._candidates.items() if count > 1}
        if len(self._named) < self._places and self._may_be_named(name):
            self._name(name)
        self._counted += 1
        if self._counted == self._events:
            self._rank()

    def _may_be_named(self, name: str) -> bool:
        allowed = name in self._published or len(self._published) < _PUBLISHED * self._places
        return allowed and self._candidates.get(name, 0) >= self._often

    def _name(self, name: str) -> None:
        self._named[name] = self._candidates.pop(name)
        self._published.add(name)

    def _rank(self) -> None:
        often = filter(self._may_be_named, self._candidates)
        for name in sorted(often, key=self._candidates.__getitem__, reverse=True):
            rarest = min(self._named, key=self._named.__getitem__)
            if self._candidates[name] > 2 * self._named[rarest] and self._may_be_named(name):
                self._candidates[rarest] = self._named.pop(rarest)
                self._name(name)
        self._named = {name: count // 2 for name, count in self._named.items()}
        self._candidates = {name: count // 2 for name, count in self._candidates.items() if count > 1}
        self._counted = 0
