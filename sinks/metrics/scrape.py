"""Renders a scrape of `/metrics`: every new counter starts at 0, without a time of creation.

`increase()` and `rate()` know how a series grew from one scrape to the next. A series that is born between two scrapes
comes with its first events in it, and Prometheus takes that value for the beginning: the first unsafe answer of an app
would be no increase, and no alert would tell of it. After a restart, a process that counts faster than it is scraped
could likewise seem to go on where the one before it ended. So a series of counts is shown as 0 the first time, and as
it is from the second time on; what was counted until then is the increase between the two.

That is for what stores scrapes and computes with them, which asks for OpenMetrics, as Prometheus does unless told
otherwise. A person with curl gets the older text format, always as it is, and changes nothing for others.

What was shown is remembered of a process, not of each scraper: one that came back under another address would be shown
0 again, which it would take for a restart. So of two Prometheus servers that scrape one process, the second to come
does not see a new series begin at 0. The series are few, because their labels are bounded, and so is the memory.

A series may be removed, when its app lost its label, and come back later. Then it is a new series, which is shown as 0
the first time: to Prometheus a counter that was reset, all of whose new events are an increase.
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
"""Its name, its labels and the time of its creation."""

_COUNTED = frozenset({"counter", "histogram", "summary"})
_OPEN_METRICS = "application/openmetrics-text"


class ShownSeries:
    """Which series were shown before, and in which scrape for the last time."""

    def __init__(self) -> None:
        self._series: dict[_Series, int] = {}
        self._scrapes = 0
        self._lock = threading.Lock()

    def begin_scrape(self) -> int:
        """The number of a new scrape. Several may run at once."""
        with self._lock:
            self._scrapes += 1
            return self._scrapes

    def is_first(self, series: _Series, scrape: int) -> bool:
        """Whether this is the first time; from now on it is not."""
        with self._lock:
            last = self._series.get(series)
            self._series[series] = scrape if last is None else max(last, scrape)
        return last is None

    def end_scrape(self, scrape: int) -> None:
        """Forgets the series that a scrape of everything did not show, nor a later one: they were removed."""
        with self._lock:
            self._series = {series: last for series, last in self._series.items() if last >= scrape}


class ScrapeView(Collector):
    """A registry without times of creation; with `shown`, one whose new series of counts are 0."""

    def __init__(
        self, registry: CollectorRegistry, shown: ShownSeries | None = None, names: frozenset[str] | None = None
    ) -> None:
        """With `names`, only these series."""
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
        """The series that `/metrics?name[]=...` asks for."""
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
    """A scrape as it is sent."""

    body: bytes
    content_type: str
    is_compressed: bool


class MetricsPage:
    """A registry in the format that a scraper asks for."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._as_is = ScrapeView(registry)
        self._for_storage = ScrapeView(registry, ShownSeries())

    def expose(
        self, *, accept: str = "", accept_encoding: str = "", names: Sequence[str] = (), is_shown: bool = True
    ) -> Exposition:
        """With `names`, only these metrics. A scrape that nobody sees (`is_shown`) leaves new series new."""
        encode, content_type = _choose_encoder(accept)
        view = self._for_storage if is_shown and content_type.startswith(_OPEN_METRICS) else self._as_is
        text = encode(view.restricted_registry(names) if names else view)
        is_compressed = gzip_accepted(accept_encoding)
        body = gzip.compress(text) if is_compressed else text
        return Exposition(body=body, content_type=content_type, is_compressed=is_compressed)


def _choose_encoder(accept: str) -> tuple[Callable[[Collector], bytes], str]:
    """The library fails on a version that is not a number: whoever asks for one gets the default."""
    try:
        return choose_encoder(accept)
    except (TypeError, ValueError):
        return choose_encoder("")
