"""What a scrape of `/metrics` is shown: every new counter with 0 first, and no time of birth beside it.

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

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, cast

from prometheus_client import CollectorRegistry, Metric, make_wsgi_app
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector, RestrictedRegistry
from prometheus_client.samples import Sample

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

Application = Callable[["WSGIEnvironment", "StartResponse"], Iterable[bytes]]
_Series = tuple[str, frozenset[tuple[str, str]]]

_COUNTED = frozenset({"counter", "histogram", "summary"})
_OPEN_METRICS = "application/openmetrics-text"


class Shown:
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

    def __init__(self, registry: CollectorRegistry | RestrictedRegistry, shown: Shown | None = None) -> None:
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


def metrics_app(registry: CollectorRegistry) -> Application:
    """The WSGI application of `/metrics`, in the format that is asked for."""
    stored, looked_at = make_wsgi_app(ScrapeView(registry, Shown())), make_wsgi_app(ScrapeView(registry))

    def answer(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        accept = _readable(environ.get("HTTP_ACCEPT", ""))
        app = stored if choose_encoder(accept)[1].startswith(_OPEN_METRICS) else looked_at
        return cast(Iterable[bytes], app({**environ, "HTTP_ACCEPT": accept}, start_response))

    return answer


def _readable(accept: str) -> str:
    """The library stumbles over a version that is no number: who asks for one gets what everybody gets."""
    try:
        choose_encoder(accept)
    except (TypeError, ValueError):
        return ""
    return accept
