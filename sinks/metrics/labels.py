"""Labels of bounded number: apps, models and tenants are named by the traffic, which may name any number of them.

Whatever is not told apart is counted under `other`, so that sums over all values are exact.
"""

import threading

from judges.evaluation import Evaluation
from sinks.trace import parse_traceparent

MAX_APPS = 50
UNKNOWN = "unknown"
OTHER = "other"
UNKNOWN_APP = UNKNOWN
"""What an interaction without an app is counted under."""

# Soon reached by what comes every day; a bug that makes names up hardly makes the same one up so often.
_OFTEN = 20
_MAX_CANDIDATES = 1000


class BoundedLabel:
    """Passes the first N distinct values on and calls the rest `other`."""

    def __init__(self, limit: int = MAX_APPS) -> None:
        self._limit = limit
        self._seen: set[str] = set()
        self._lock = threading.Lock()

    def __call__(self, value: str | None) -> str:
        name = value or UNKNOWN
        with self._lock:
            if name not in self._seen and len(self._seen) >= self._limit:
                return OTHER
            self._seen.add(name)
        return name


class FrequentLabel:
    """Passes a value on once it came often, while there are places, and calls the rest `other`.

    Values on their way to a place are counted in bounded memory (Misra and Gries): when there is no room for one more
    candidate, all of them lose a count. So no count is ever too high, and one that comes often enough gets through
    however many others come once.
    """

    def __init__(self, places: int, often: int = _OFTEN, candidates: int = _MAX_CANDIDATES) -> None:
        self._places = places
        self._often = often
        self._max_candidates = candidates
        self._named: set[str] = set()
        self._counts: dict[str, int] = {}
        self._lock = threading.Lock()

    def __call__(self, value: str | None) -> str:
        name = value or UNKNOWN
        if name in {UNKNOWN, OTHER}:
            return name
        with self._lock:
            return name if name in self._named or self._earns_a_place(name) else OTHER

    def _earns_a_place(self, name: str) -> bool:
        if len(self._named) >= self._places:
            return False
        self._count(name)
        if self._counts.get(name, 0) < self._often:
            return False
        self._named.add(name)
        del self._counts[name]
        if len(self._named) >= self._places:
            self._counts.clear()
        return True

    def _count(self, name: str) -> None:
        if name in self._counts or len(self._counts) < self._max_candidates:
            self._counts[name] = self._counts.get(name, 0) + 1
        else:
            self._counts = {other: count - 1 for other, count in self._counts.items() if count > 1}


def exemplar_of(evaluation: Evaluation) -> dict[str, str] | None:
    """What leads from a number in a histogram to the trace of an interaction behind it."""
    trace = parse_traceparent(evaluation.traceparent)
    return None if trace is None else {"trace_id": trace.trace_id}
