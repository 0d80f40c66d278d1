"""Renders a scrape of `/metrics`: every new counter starts at 0, without a time of creation.

`increase()` and `rate()` know how a series grew from one scrape to the next. A series that is created between two
scrapes already has its first events in it, and Prometheus takes that value for the start: the first unsafe answer of an
app would be no increase, and would raise no alert. After a restart, a process that counts faster than it is scraped
could likewise seem to continue where the one before it ended. So a series of counts is shown as 0 the first time, and
with its value from the second time on; the events until then are the increase between the two.

That is for programs that store scrapes, which ask for OpenMetrics, as Prometheus does by default. A person with curl
gets the older text format, always with the real values, and does not affect other scrapers.

The shown series are remembered per process, not per scraper: a scraper that came back under another address would see 0
again, and take it for a restart. So of two Prometheus servers that scrape one process, the second does not see a new
series begin at 0. The series are few, because their labels are bounded, and so is the memory.

A series may be removed, when its app lost its label, and come back later. Then it is a new series, which is shown as 0
the first time: for Prometheus a counter that was reset, so that all its new events are an increase.
"""

import gzip
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import choose_encoder, gzip_accepted
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

_Labels = frozenset[tuple[str, str]]
_Series = tuple[str, _Labels, float | None]
"""Its name, its labels and its creation time."""

_COUNTED = frozenset({"counter", "histogram", "summary"})
_OPEN_METRICS = "application/openmetrics-text"


class ShownSeries:
    """The series that were shown before, with their last scrape."""

    def __init__(self) -> None:
        self._series: dict[_Series, int] = {}
        self._scrapes = 0
        self._lock = threading.Lock()

    def begin_scrape(self) -> int:
        """Return the number of a new scrape. Several may run at once."""
        with self._lock:
            self._scrapes += 1
            return self._scrapes

    def is_first(self, series: _Series, scrape: int) -> bool:
        """Return whether the series is shown for the first time, and remember it."""
        with self._lock:
            last = self._series.get(series)
            self._series[series] = scrape if last is None else max(last, scrape)
        return last is None

    def end_scrape(self, scrape: int) -> None:
        """Forget the series that neither a full scrape nor a later one showed: they were removed."""
        with self._lock:
            self._series = {series: last for series, last in self._series.items() if last >= scrape}


class ScrapeView(Collector):
    """A registry without creation times; with `shown`, new series of counts are 0."""

    def __init__(
        self, registry: CollectorRegistry, shown: ShownSeries | None = None, names: frozenset[str] | None = None
    ) -> None:
        """View a registry; with `names`, only these series."""
        self._registry = registry
        self._shown = shown
        self._names = names

    def collect(self) -> Iterator[Metric]:
        scrape = self._shown.begin_scrape() if self._shown is not None else 0
        for metric in self._registry.collect():
            view = Metric(metric.name, metric.documentation, metric.type, metric.unit)
            view.samples = list(self._samples(metric, scrape))
            if view.samples or self._names is None:
                yield view
        if self._shown is not None and self._names is None:
            self._shown.end_scrape(scrape)

    def restricted_registry(self, names: Iterable[str]) -> "ScrapeView":
        """Return a view of the series in `/metrics?name[]=...`."""
        return ScrapeView(self._registry, self._shown, frozenset(names))

    def _samples(self, metric: Metric, scrape: int) -> Iterator[Sample]:
        samples = [sample for sample in metric.samples if self._names is None or sample.name in self._names]
        if metric.type not in _COUNTED:
            yield from samples
            return
        created_name = f"{metric.name}_created"
        created = {_labels(sample): sample.value for sample in metric.samples if sample.name == created_name}
        for sample in samples:
            if sample.name == created_name:
                continue
            labels = _labels(sample)
            series = (sample.name, labels, created.get(frozenset(pair for pair in labels if pair[0] != "le")))
            if self._shown is not None and self._shown.is_first(series, scrape):
                yield sample._replace(value=0.0, exemplar=None)
            else:
                yield sample


def _labels(sample: Sample) -> _Labels:
    return frozenset(sample.labels.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposition:
    """A scrape as sent over HTTP."""

    body: bytes
    content_type: str
    is_compressed: bool


class MetricsPage:
    """Renders a registry in the requested format."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._as_is = ScrapeView(registry)
        self._for_storage = ScrapeView(registry, ShownSeries())

    def expose(
        self, *, accept: str = "", accept_encoding: str = "", names: Sequence[str] = (), is_shown: bool = True
    ) -> Exposition:
        """Render a scrape; with `names`, only these metrics. Without `is_shown`, new series stay new."""
        encode, content_type = _choose_encoder(accept)
        view = self._for_storage if is_shown and content_type.startswith(_OPEN_METRICS) else self._as_is
        text = encode(view.restricted_registry(names) if names else view)
        is_compressed = gzip_accepted(accept_encoding)
        body = gzip.compress(text) if is_compressed else text
        return Exposition(body=body, content_type=content_type, is_compressed=is_compressed)


def _choose_encoder(accept: str) -> tuple[Callable[[Collector], bytes], str]:
    """Choose the encoder; the library fails on a version that is not a number, so that gets the default."""
    try:
        return choose_encoder(accept)
    except (TypeError, ValueError):
        return choose_encoder("")
