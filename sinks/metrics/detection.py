"""Metrics of detection: the evidence for drops, the intervals of means, and open alerts.

An app has many series, and a process watches many apps. The most urgent series have all their gauges; for the rest
only the number of open alerts is exported, so that many apps and dimensions do not make many series.
"""

import contextlib
from collections import Counter as Tally
from collections.abc import Callable, Collection
from enum import IntEnum
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge

from sinks.base import COMPOSITE, OTHER
from sinks.metrics import names
from sinks.metrics.bounded_labels import FrequentLabel, app_label

PLACES = 13
"""Keeps all metrics of 20 apps and 6 dimensions within 2,000 series; a place has seven."""

GOOD_SHARE = "good_share"
"""The series of good interactions by the objective: 1 for a good one, 0 for others."""

_OVERALL = frozenset({COMPOSITE, GOOD_SHARE})
_MAX_DIMENSIONS = 50


class _Series(NamedTuple):
    app: str
    dimension: str


class _Urgency(IntEnum):
    """A more urgent series takes the place of a less urgent one; among equals the first stays, to keep lines whole."""

    CALM = 0
    OVERALL = 1
    """The series is about the whole app."""
    PRESSING = 2
    """The series has more than half of the evidence for an alert."""
    RAISED = 3


class _GaugePlace(NamedTuple):
    labels: tuple[str, str]
    urgency: _Urgency


class DetectionMetrics:
    """The series that are watched for drops, the judges' stability, and the announcements about both."""

    def __init__(self, registry: CollectorRegistry, apps: FrequentLabel | None = None, *, places: int = PLACES) -> None:
        """Share the app labels of other metrics through `apps`; at most `places` series have all gauges."""
        self._registry = registry
        self._apps = app_label() if apps is None else apps
        self._dimensions = FrequentLabel(_MAX_DIMENSIONS, reserved=_OVERALL, free_after=1)
        self._labels_version = self._version()
        self._limit = places
        self._places: dict[_Series, _GaugePlace] = {}
        self._elsewhere: set[_Series] = set()
        """Alerts that are only counted, under the label of their app."""
        self._numbers: dict[str, int] = {}
        """The shown number of alerts under each label."""
        self._gauges = _Gauges(
            registry,
            names.DETECTION,
            ["app", "dimension"],
            log_evidence="Natural logarithm of the evidence for a drop, or for recovery while an alert is open.",
            log_evidence_needed="Evidence required to raise the alert, or to clear it.",
            mean="Design-weighted mean of the latest scores.",
            low="Lower end of a 95 % interval of that mean, valid at every check.",
            high="Upper end of a 95 % interval of that mean, valid at every check.",
            target="Target for the mean, as configured or learnt.",
        )
        self._raised = Gauge(
            names.DETECTION_RAISED,
            "1 while an alert is open, 0 otherwise; for dimension other, the number of further open alerts.",
            ["app", "dimension"],
            registry=registry,
        )
        self._announced = Counter(
            names.ALERTS,
            "Announcements on the alerts topic, by subject and by whether an alert was raised, updated or cleared.",
            ["subject", "kind"],
            registry=registry,
        )
        self._canaries: CanaryMetrics | None = None
        self._comparisons: VersionMetrics | None = None

    def show(
        self,
        app: str,
        dimension: str,
        *,
        evidence: float,
        enough: float,
        mean: float | None,
        low: float | None,
        high: float | None,
        target: float | None,
        raised: bool,
    ) -> None:
        """Show the state of a series. Unknown values are absent, and so is the evidence without a target.

        A series that is urgent, or has a place, is shown in full; others only show whether there is an alert.
        """
        series, labels = _Series(app, dimension), (self._apps.label(app), self._dimensions.count(dimension))
        self._follow_labels()
        has_place = self._take_place(series, labels, _urgency(dimension, evidence / enough, raised=raised))
        self._count_elsewhere(series, raised=raised and not has_place)
        if has_place:
            has_target = target is not None
            self._gauges.set(
                labels,
                log_evidence=evidence if has_target else None,
                log_evidence_needed=enough if has_target else None,
                mean=mean,
                low=low,
                high=high,
                target=target,
            )
            self._raised.labels(*labels).set(raised)

    def keep(self, app: str, dimensions: Collection[str]) -> None:
        """Start updating an app, and withdraw its other dimensions.

        The current evaluator does not have them. The update counts for the label of the app, because another process
        may count the app's evaluations.
        """
        self._apps.count(app)
        self._keep(app, dimensions)

    def _keep(self, app: str, dimensions: Collection[str]) -> None:
        for series in [shown for shown in self._places if shown.app == app and shown.dimension not in dimensions]:
            self._leave_place(series)
        for series in [other for other in self._elsewhere if other.app == app and other.dimension not in dimensions]:
            self._count_elsewhere(series, raised=False)

    def withdraw(self, app: str) -> None:
        """Withdraw an app that is not watched here any more."""
        self._keep(app, ())
        label = self._apps.label(app)
        if self._numbers.get(label) == 0:
            self._remove_number(label)
        if self._comparisons is not None:
            self._comparisons.withdraw(label)

    def count_announcement(self, subject: str, kind: str) -> None:
        self._announced.labels(subject, kind).inc()

    def judges(
        self, dimension: str, *, evidence: float, enough: float, low: float | None, high: float | None, changed: bool
    ) -> None:
        """Show the stability of the verdicts on the canaries."""
        self._canary_metrics().show(
            self._dimensions.count(dimension), evidence=evidence, enough=enough, low=low, high=high, changed=changed
        )

    def canaries_missing(self, number: int) -> None:
        """Show the number of canaries without an evaluation for two rounds."""
        self._canary_metrics().missing.set(number)

    def _canary_metrics(self) -> "CanaryMetrics":
        if self._canaries is None:
            self._canaries = CanaryMetrics(self._registry)
        return self._canaries

    def keep_judges(self, dimensions: Collection[str]) -> None:
        """Withdraw other dimensions of the judges."""
        if self._canaries is not None:
            self._canaries.keep({self._dimensions.label(dimension) for dimension in dimensions})

    def withdraw_judges(self) -> None:
        """Withdraw the judges: another process follows the canaries now."""
        self.keep_judges(())
        if self._canaries is not None:
            self._canaries.missing.set(0)

    def versions(
        self, name: str, app: str, *, evidence: float, enough: float, low: float | None, high: float | None, worse: bool
    ) -> None:
        """Show the state of a configured comparison of two models in an app."""
        if self._comparisons is None:
            self._comparisons = VersionMetrics(self._registry)
        self._comparisons.show(
            (self._apps.label(app), name), evidence=evidence, enough=enough, low=low, high=high, worse=worse
        )

    def _take_place(self, series: _Series, labels: tuple[str, str], urgency: _Urgency) -> bool:
        """Return whether the series has a place now. One that shares its labels with others cannot have one."""
        if OTHER in labels:
            return False
        if series not in self._places and len(self._places) >= self._limit:
            least = min(self._places, key=lambda shown: self._places[shown].urgency)
            if self._places[least].urgency >= urgency:
                return False
            self._leave_place(least)
        self._places[series] = _GaugePlace(labels, urgency)
        return True

    def _leave_place(self, series: _Series) -> None:
        labels = self._places.pop(series).labels
        self._gauges.remove(labels)
        _remove(self._raised, labels)

    def _count_elsewhere(self, series: _Series, *, raised: bool) -> None:
        if raised != (series in self._elsewhere):
            self._elsewhere ^= {series}
            self._show_numbers()

    def _show_numbers(self) -> None:
        """Show the numbers of further alerts; a number stays as 0, because a cleared alert is not an unknown one."""
        self._numbers = dict.fromkeys(self._numbers, 0) | Tally(
            self._apps.label(series.app) for series in self._elsewhere
        )
        for label, number in self._numbers.items():
            self._raised.labels(label, OTHER).set(number)

    def _remove_number(self, label: str) -> None:
        del self._numbers[label]
        _remove(self._raised, (label, OTHER))

    def _follow_labels(self) -> None:
        """Remove the gauges of an app or dimension that lost its label, and count its alerts under `other`."""
        if self._labels_version == self._version():
            return
        self._labels_version = self._version()
        for series, place in list(self._places.items()):
            if (self._apps.label(series.app), self._dimensions.label(series.dimension)) != place.labels:
                self._leave_place(series)
                if place.urgency is _Urgency.RAISED:
                    self._elsewhere.add(series)
        self._show_numbers()
        for label in [label for label in self._numbers if self._apps.label(label) != label]:
            self._remove_number(label)
        if self._comparisons is not None:
            self._comparisons.keep_apps(self._apps.label)

    def _version(self) -> tuple[int, int]:
        return self._apps.version, self._dimensions.version


class CanaryMetrics:
    """Created with the first canary: without canaries there are no such series."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._shown: set[str] = set()
        self._gauges = _Gauges(
            registry,
            names.JUDGES,
            ["dimension"],
            log_evidence="Natural logarithm of the evidence that the verdicts on the canaries have changed, or, "
            "once they have, that they are stable again.",
            log_evidence_needed="Evidence required to raise the alert, or to clear it.",
            stability_low="Lower end of a 95 % interval of the share of canaries that get the same verdict again.",
            stability_high="Upper end of a 95 % interval of the share of canaries that get the same verdict again.",
            changed="1 while an alert that the judges have changed is open, 0 otherwise.",
        )
        self.missing = Gauge(
            names.CANARIES_MISSING, "Canaries without an evaluation for two rounds.", registry=registry
        )

    def show(
        self, dimension: str, *, evidence: float, enough: float, low: float | None, high: float | None, changed: bool
    ) -> None:
        self._shown.add(dimension)
        self._gauges.set(
            (dimension,),
            log_evidence=evidence,
            log_evidence_needed=enough,
            stability_low=low,
            stability_high=high,
            changed=float(changed),
        )

    def keep(self, dimensions: Collection[str]) -> None:
        for dimension in [shown for shown in self._shown if shown not in dimensions]:
            self._shown.remove(dimension)
            self._gauges.remove((dimension,))


class VersionMetrics:
    """Created with the first comparison: without comparisons there are no such series."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._shown: set[tuple[str, str]] = set()
        self._gauges = _Gauges(
            registry,
            names.VERSIONS,
            ["app", "comparison"],
            log_evidence="Natural logarithm of the evidence that model a is worse than b by more than the margin, or, "
            "once it is, that it no longer is.",
            log_evidence_needed="Evidence required to raise the alert, or to clear it.",
            difference_low="Lower end of a 95 % interval of the mean composite of a minus that of b.",
            difference_high="Upper end of a 95 % interval of the mean composite of a minus that of b.",
            worse="1 while an alert that model a is worse is open, 0 otherwise.",
        )

    def show(
        self,
        labels: tuple[str, str],
        *,
        evidence: float,
        enough: float,
        low: float | None,
        high: float | None,
        worse: bool,
    ) -> None:
        if labels[0] == OTHER:
            return  # several apps at once
        self._shown.add(labels)
        self._gauges.set(
            labels,
            log_evidence=evidence,
            log_evidence_needed=enough,
            difference_low=low,
            difference_high=high,
            worse=float(worse),
        )

    def withdraw(self, app: str) -> None:
        self._remove([labels for labels in self._shown if labels[0] == app])

    def keep_apps(self, label: Callable[[str], str]) -> None:
        """Withdraw apps that lost their label."""
        self._remove([labels for labels in self._shown if label(labels[0]) != labels[0]])

    def _remove(self, series: list[tuple[str, str]]) -> None:
        for labels in series:
            self._shown.remove(labels)
            self._gauges.remove(labels)


class _Gauges:
    """Gauges with the same labels, by the value they show."""

    def __init__(self, registry: CollectorRegistry, family: str, labels: list[str], **texts: str) -> None:
        self._gauges = {
            part: Gauge(f"{family}_{part}", text, labels, registry=registry) for part, text in texts.items()
        }

    def set(self, labels: tuple[str, ...], **values: float | None) -> None:
        """Set the gauges, and withdraw those whose value is None: the last value would look current."""
        for part, value in values.items():
            if value is None:
                _remove(self._gauges[part], labels)
            else:
                self._gauges[part].labels(*labels).set(value)

    def remove(self, labels: tuple[str, ...]) -> None:
        for gauge in self._gauges.values():
            _remove(gauge, labels)


def _urgency(dimension: str, share: float, *, raised: bool) -> _Urgency:
    """Return the urgency; while there is an alert, the evidence is about its end."""
    if raised:
        return _Urgency.RAISED
    if share > 0.5:
        return _Urgency.PRESSING
    return _Urgency.OVERALL if dimension in _OVERALL else _Urgency.CALM


def _remove(gauge: Gauge, labels: tuple[str, ...]) -> None:
    with contextlib.suppress(KeyError):
        gauge.remove(*labels)
