"""Metrics of the flow control in front of judges' endpoints: its limits, its queue, and failed attempts by reason."""

import math
from collections import defaultdict
from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge

from judges.models.flow import FailureKind, FlowState
from sinks.metrics import names


class EndpointMetrics:
    """Created for judges that ask endpoints: a process without any has no such series."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._limit = Gauge(
            names.ENDPOINT_LIMIT,
            "Calls that may be in flight at once, as far as is known.",
            ["endpoint"],
            registry=registry,
        )
        self._rate = Gauge(
            names.ENDPOINT_RATE,
            "Calls per second that the endpoint takes; absent while no limit is known.",
            ["endpoint"],
            registry=registry,
        )
        self._in_flight = Gauge(names.ENDPOINT_IN_FLIGHT, "Calls in flight.", ["endpoint"], registry=registry)
        self._waiting = Gauge(names.ENDPOINT_WAITING, "Calls waiting for their turn.", ["endpoint"], registry=registry)
        self._failures = Counter(
            names.ENDPOINT_FAILURES,
            "Failed attempts by reason; `paused` counts calls that were not attempted because the endpoint is down.",
            ["endpoint", "reason"],
            registry=registry,
        )
        self._limited: set[str] = set()
        self._counted: defaultdict[tuple[str, FailureKind], int] = defaultdict(int)

    def show(self, states: Mapping[str, FlowState]) -> None:
        """Show the state of each endpoint's flow control, whose failures are counted from the start."""
        for endpoint, state in states.items():
            self._limit.labels(endpoint).set(state.limit)
            self._in_flight.labels(endpoint).set(state.in_flight)
            self._waiting.labels(endpoint).set(state.waiting)
            self._show_rate(endpoint, state.rate)
            for kind, count in state.failures.items():
                self._failures.labels(endpoint, kind.value).inc(count - self._counted[endpoint, kind])
                self._counted[endpoint, kind] = count

    def _show_rate(self, endpoint: str, rate: float) -> None:
        if not math.isinf(rate):
            self._rate.labels(endpoint).set(rate)
            self._limited.add(endpoint)
        elif endpoint in self._limited:
            self._rate.remove(endpoint)
            self._limited.remove(endpoint)
