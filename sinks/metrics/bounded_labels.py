"""Labels of bounded number and length: the traffic names apps, models and tenants, and may name any number of them.

A value without its own label is counted under `other`, so that sums over all values are complete.
"""

import hashlib
import threading
import time
from collections.abc import Callable, Iterable

from prometheus_client.metrics import MetricWrapperBase

from sinks.base import OTHER, UNKNOWN

MAX_APPS = 50
MAX_LABEL_CHARS = 256
"""The longest name of an app."""

_DIGEST_CHARS = 8
# A value that comes every day soon reaches it; a bug that invents names hardly repeats one this often.
_OFTEN = 20
# Per place: a value with a tenth of a fair share comes 20 times, of which a flood of others hides a few.
_EVENTS = 200
_CANDIDATES = 100
# Several scrapes at the usual intervals, so that every scraper sees the last count before a series is removed.
_LINGER_SECONDS = 300.0
# Values with series at any moment, per place: those that have one, and those that lost one recently.
_PUBLISHED = 2


def label_value(value: str | None) -> str:
    """Turn a name into a label: escape control characters, and truncate a long name.

    A truncated name ends with a digest of the whole, so that two names with the same beginning stay distinct.
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
    """Keeps the labels of the most frequent recent values, one per place, and calls the rest `other`.

    A value gets a free place when it has come `free_after` times. When all places are taken, a value that came `often`
    times, and more than twice as often as the rarest value with a place, takes that place at once. Counts are halved
    after every round of events, so that they cover the last few rounds. Reserved values always have a place.

    Values without a place are counted in bounded memory (Misra and Gries): when there is no room for one more, all of
    them lose a count. So a flood of rare names cannot push out a frequent one, whose own count is exact.

    The series of a value that lost its place stay unchanged for a while and are then removed from the attached metrics.
    At most twice as many values as places have series at any moment; new values wait until there is room.
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
        """Reserve places for some values; if these are more than `places`, only they have a place.

        `events` of a round, and `candidates`, count per place.
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
        """Removal times of the series of values without a place, the earliest first."""
        self._metrics: list[tuple[str, MetricWrapperBase]] = []
        self._counted = 0
        self._lock = threading.Lock()
        self.version = 0
        """Changes with the values that have a place."""

    def attach(self, name: str, *metrics: MetricWrapperBase) -> None:
        """Attach metrics that have this label under `name`; their series are removed with their value."""
        self._metrics += [(name, metric) for metric in metrics]

    def count(self, value: str | None, number: int = 1) -> str:
        """Count a value, and return its label."""
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
        """Return the current label of a value."""
        name = label_value(value)
        with self._lock:
            return name if name in self._fixed or name in self._named else OTHER

    def is_published(self, label: str) -> bool:
        """Return whether there may be series with this label: it has a place, or had one recently."""
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
    """Make the label of apps. An app gets a free place with its first record, which may be the one to alert on."""
    return FrequentLabel(places, reserved=reserved, free_after=1)
