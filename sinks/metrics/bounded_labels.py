"""Labels of bounded number and length: apps, models and tenants are named by the traffic, which may name any number.

A value without a place of its own is counted under `other`, so that sums over all values are complete.
"""

import hashlib
import threading
import time
from collections.abc import Callable, Iterable

from prometheus_client.metrics import MetricWrapperBase

from sinks.base import OTHER, UNKNOWN

MAX_APPS = 50
MAX_LABEL_CHARS = 256
"""As long as the name of an app may be."""

_DIGEST_CHARS = 8
# Soon reached by what comes every day; a bug that makes names up hardly makes the same one up so often.
_OFTEN = 20
# For each place: a value with a tenth of a fair share comes 20 times, of which a flood of others hides a few.
_EVENTS = 200
_CANDIDATES = 100
# Several scrapes at the usual intervals, so that every scraper sees the last count of a series before it is removed.
_LINGER_SECONDS = 300.0
# Values with series at any moment, for each place: those that have one, and those that have lost one lately.
_PUBLISHED = 2


def label_value(value: str | None) -> str:
    """A name as a label: what steers a terminal or hides text is escaped, and what is too long is cut.

    A name that was cut ends with a digest of all of it, so that two names with the same beginning stay two.
    """
    if not value:
        return UNKNOWN
    if len(value) <= MAX_LABEL_CHARS and value.isprintable():
        return value
    text = "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in value[:MAX_LABEL_CHARS]
    )
    if len(value) <= MAX_LABEL_CHARS and len(text) <= MAX_LABEL_CHARS:
        return text
    digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]
    return f"{text[: MAX_LABEL_CHARS - _DIGEST_CHARS - 1]}…{digest}"


class FrequentLabel:
    """Names the values that come most often lately, as far as there are places, and calls the rest `other`.

    A value gets a free place when it has come `free_after` times. When all places are taken, one that came `often`, and
    more than twice as often as the rarest that has a place, takes that place at once. Counts are halved after every
    round of events, so that they are those of the last few rounds. Reserved values always have a place.

    Values without a place are counted in bounded memory (Misra and Gries): when there is no room for one more, all of
    them lose a count. So no flood of rare names pushes out a frequent one, whose own count is exact.

    The series of a value that lost its place stay as they are for a while and are then removed from the metrics that
    were attached. At most twice as many values as there are places have series at any moment; while there are more,
    newcomers wait.
    """

    def __init__(
        self,
        places: int,
        *,
        reserved: Iterable[str] = (),
        free_after: int = _OFTEN,
        often: int = _OFTEN,
        events: int = _EVENTS,
        candidates: int = _CANDIDATES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Reserved values are among the places; if they are more, all of them have a place and no others.

        `events` of a round, and `candidates`, are for each place.
        """
        fixed = frozenset(map(label_value, reserved))
        self._fixed = fixed | {UNKNOWN, OTHER}
        self._places = max(0, places - len(fixed))
        self._free_after, self._often = free_after, often
        self._events, self._max_candidates = max(1, self._places) * events, self._places * candidates
        self._clock = clock
        self._named: dict[str, int] = {}
        self._candidates: dict[str, int] = {}
        self._leaving: dict[str, float] = {}
        """When the series of a value without a place will be removed; the earliest is the first."""
        self._metrics: list[tuple[str, MetricWrapperBase]] = []
        self._counted = 0
        self._lock = threading.Lock()
        self.version = 0
        """Changes with the values that have a place."""

    def attach(self, name: str, *metrics: MetricWrapperBase) -> None:
        """Metrics with this label, of the name, whose series are removed with their value."""
        self._metrics += [(name, metric) for metric in metrics]

    def count(self, value: str | None, number: int = 1) -> str:
        """Counts a value, and returns the label that it has."""
        name = label_value(value)
        if name in self._fixed:
            return name
        with self._lock:
            self._remove_expired()
            self._count(name, number)
            if name not in self._named and self._may_have_place(name):
                self._give_place(name)
            if self._counted >= self._events:
                self._decay()
            return name if name in self._named else OTHER

    def label(self, value: str | None) -> str:
        """The label that a value has now."""
        name = label_value(value)
        with self._lock:
            return name if name in self._fixed or name in self._named else OTHER

    def is_published(self, label: str) -> bool:
        """Whether there may be series with this label: it has a place, or had one a short while ago."""
        with self._lock:
            return label in self._fixed or label in self._named or label in self._leaving

    def _count(self, name: str, number: int) -> None:
        self._counted += number
        if name in self._named:
            self._named[name] += number
        elif name in self._candidates or len(self._candidates) < self._max_candidates:
            self._candidates[name] = self._candidates.get(name, 0) + number
        else:
            self._candidates = {other: count - 1 for other, count in self._candidates.items() if count > 1}

    def _may_have_place(self, name: str) -> bool:
        published = len(self._named) + len(self._leaving)
        if name not in self._leaving and published >= _PUBLISHED * self._places:
            return False
        times = self._candidates.get(name, 0)
        if len(self._named) < self._places:
            return times >= self._free_after
        return times >= self._often and times > 2 * min(self._named.values())

    def _give_place(self, name: str) -> None:
        if len(self._named) >= self._places:
            rarest = min(self._named, key=self._named.__getitem__)
            self._candidates[rarest] = self._named.pop(rarest)
            self._leaving[rarest] = self._clock() + _LINGER_SECONDS
        self._named[name] = self._candidates.pop(name)
        self._leaving.pop(name, None)
        self.version += 1

    def _remove_expired(self) -> None:
        if not self._leaving:
            return
        now = self._clock()
        for value in [value for value, removed_at in self._leaving.items() if removed_at <= now]:
            del self._leaving[value]
            for name, metric in self._metrics:
                metric.remove_by_labels({name: value})

    def _decay(self) -> None:
        self._named = {name: count // 2 for name, count in self._named.items()}
        self._candidates = {name: count // 2 for name, count in self._candidates.items() if count > 1}
        self._counted = 0


def app_label(places: int = MAX_APPS, reserved: Iterable[str] = ()) -> FrequentLabel:
    """The label of apps. A free place goes to the first record of an app: it may be the one that raises an alert."""
    return FrequentLabel(places, reserved=reserved, free_after=1)
