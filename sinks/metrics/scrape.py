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
"""

import gzip
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import choose_encoder, gzip_accepted
from prometheus_client.registry import Collector, RestrictedRegistry
from prometheus_client.samples import Sample

_Series = tuple[str, frozenset[tuple[str, str]]]

_COUNTED = frozenset({"counter", "histogram", "summary"})
_OPEN_METRICS = "application/openmetrics-text"


class ShownSeries:
    """Which series were shown before."""

    def __init__(self) -> None:
        self._series: set[_Series] = set()
        self._lock = threading.Lock()

    def is_first(self, sample: Sample) -> bool:
        """Whether this is the first time; from now on it is not."""
        series = (sample.name, frozenset(sample.labels.items()))
        with self._lock:
            first = series not in self._series
            self._series.add(series)
        return first


class ScrapeView(Collector):
    """A registry without times of birth; with `shown`, one whose new series of counts are 0."""

    def __init__(self, registry: CollectorRegistry | RestrictedRegistry, shown: ShownSeries | None = None) -> None:
        self._registry = registry
        self._shown = shown

    def collect(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            view = Metric(metric.name, metric.documentation, metric.type, metric.unit)
            view.samples = list(self._samples(metric))
            yield view

    def restricted_registry(self, names: Iterable[str]) -> "ScrapeView":
        """What `/metrics?name[]=...` asks for."""
        assert isinstance(self._registry, CollectorRegistry)
        return ScrapeView(self._registry.restricted_registry(names), self._shown)

    def _samples(self, metric: Metric) -> Iterator[Sample]:
        counted = metric.type in _COUNTED
        for sample in metric.samples:
            if counted and sample.name == f"{metric.name}_created":
                continue
            if counted and self._shown is not None and self._shown.is_first(sample):
                yield sample._replace(value=0.0, exemplar=None)
            else:
                yield sample


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
