"""Metrics of detection: the evidence for drops, the intervals of means, open alerts, and means corrected by labels.

An app has many series, and a process watches many apps. The most urgent series have all their gauges; for the rest
only the number of open alerts is exported, so that many apps and dimensions do not make many series.
"""

import contextlib
from collections import Counter as Tally
from collections.abc import Callable, Collection, Mapping
from enum import IntEnum
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge

from sinks.base import COMPOSITE, OTHER
from sinks.metrics import names
from sinks.metrics.bounded_labels import FrequentLabel, app_label, label_value
from sinks.statistics.corrected import CorrectedEstimate
from sinks.statistics.judge_quality import JudgeCriterion, JudgeQuality, JudgeSlice, RangedShare

PLACES = 13
"""Keeps all metrics of 20 apps and 6 dimensions within 2,200 series; a place has seven, and one more if the cause of a
drop is known."""

GOOD_SHARE = "good_share"
"""The series of good interactions by the objective: 1 for a good one, 0 for others."""

_OVERALL = frozenset({COMPOSITE, GOOD_SHARE})
_MAX_DIMENSIONS = 50
# Series with labels. People label few apps by few criteria; feedback may have any name.
_MAX_CORRECTED = 40
# Judges by app and criterion; each has 20 gauges.
_MAX_JUDGES = 20
# Judges by app, criterion, and model family or language; each has 13 gauges.
_MAX_JUDGE_SLICES = 60


class _Series(NamedTuple):
    app: str
    dimension: str


class AgreementStanding(NamedTuple):
    """The detector of a judge's agreement with people."""

    mean: float | None
    low: float | None
    high: float | None
    target: float | None
    evidence: float
    enough: float
    fallen: bool


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
            attributed_to_judges="1 if the judges moved the scores of the open alert, 0 if the answers did; missing "
            "while that is unknown.",
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
        self._corrections: CorrectionMetrics | None = None
        self._agreements: AgreementMetrics | None = None
        self._slices: SliceAgreementMetrics | None = None

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
        attributed_to_judges: bool | None = None,
    ) -> None:
        """Show the state of a series. Unknown values are absent, and so is the evidence without a target.

        `attributed_to_judges` says whether the judges moved the scores of an alert, and not the answers.
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
                attributed_to_judges=None if attributed_to_judges is None else float(attributed_to_judges),
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
        if self._corrections is not None:
            self._corrections.keep(label, ())
        if self._agreements is not None:
            self._agreements.keep(label, ())
        if self._slices is not None:
            self._slices.keep(label, ())

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

    def correct(
        self, app: str, estimates: Mapping[str, CorrectedEstimate], reactions: Mapping[str, tuple[int, float]]
    ) -> None:
        """Show the corrected means of an app by criterion, and the feedback of its users, and withdraw its others."""
        if self._corrections is None:
            if not estimates and not reactions:
                return
            self._corrections = CorrectionMetrics(self._registry)
        label = self._apps.label(app)
        shown = {self._dimensions.count(dimension): estimate for dimension, estimate in estimates.items()}
        series = {self._dimensions.count(name): counted for name, counted in reactions.items()}
        self._corrections.keep(label, {*shown, *series})
        for dimension, estimate in shown.items():
            self._corrections.show((label, dimension), estimate)
        for name, (count, mean) in series.items():
            self._corrections.show_feedback((label, name), count, mean)

    def agree(
        self,
        app: str,
        measured: Mapping[JudgeCriterion, JudgeQuality],
        standings: Mapping[JudgeCriterion, AgreementStanding],
    ) -> None:
        """Show how well the judges of an app agree with people, by judge and criterion, and withdraw its others."""
        if self._agreements is None:
            if not measured and not standings:
                return
            self._agreements = AgreementMetrics(self._registry)
        label = self._apps.label(app)
        shown = {
            (label, self._dimensions.count(key.criterion), label_value(key.judge)): key
            for key in {**measured, **standings}
        }
        self._agreements.keep(label, shown)
        for labels, key in shown.items():
            self._agreements.show(labels, measured.get(key), standings.get(key))

    def agree_on_slices(self, app: str, measured: Mapping[JudgeSlice, JudgeQuality]) -> None:
        """Show how well the judges of an app agree with people on parts of its answers, and withdraw its others."""
        if self._slices is None:
            if not measured:
                return
            self._slices = SliceAgreementMetrics(self._registry)
        label = self._apps.label(app)
        shown = {
            (label, self._dimensions.count(key.criterion), *map(label_value, (key.judge, key.attribute, key.value))): (
                quality
            )
            for key, quality in measured.items()
        }
        self._slices.keep(label, shown)
        for labels, quality in shown.items():
            self._slices.show(labels, quality)

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
        if self._corrections is not None:
            self._corrections.keep_apps(self._apps.label)
        if self._agreements is not None:
            self._agreements.keep_apps(self._apps.label)
        if self._slices is not None:
            self._slices.keep_apps(self._apps.label)

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


class _AppSeries:
    """Series by app and other names, which can be withdrawn."""

    _families: "tuple[_Gauges, ...]"

    def __init__(self) -> None:
        self._shown: set[tuple[str, ...]] = set()

    def keep_apps(self, label: Callable[[str], str]) -> None:
        """Withdraw apps that lost their label."""
        self._remove([labels for labels in self._shown if label(labels[0]) != labels[0]])

    def _remove(self, series: list[tuple[str, ...]]) -> None:
        for labels in series:
            self._shown.remove(labels)
            for gauges in self._families:
                gauges.remove(labels)


class VersionMetrics(_AppSeries):
    """Created with the first comparison: without comparisons there are no such series."""

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__()
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
        self._families = (self._gauges,)

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


class CorrectionMetrics(_AppSeries):
    """Created with the first label: without labels there are no such series."""

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__()
        self._gauges = _Gauges(
            registry,
            names.CORRECTED,
            ["app", "dimension"],
            score="Mean score of all traffic, corrected by the labels of people; missing with fewer than 30 labels.",
            score_low="Lower end of a 95 % interval of the corrected mean.",
            score_high="Upper end of a 95 % interval of the corrected mean.",
            score_anytime_low="Lower end of a wider 95 % interval, valid at all looks of a day together; missing if a "
            "label has a smaller probability than the configuration says.",
            score_anytime_high="Upper end of that interval.",
            judges_score="Mean of the judges' scores of the same answers, without correction.",
            labelled="Labelled answers that count for the corrected mean.",
            uncorrected="1 while there are too few labels to correct the mean, 0 otherwise.",
        )
        self._feedback = _Gauges(
            registry,
            names.FEEDBACK,
            ["app", "series"],
            score="Mean of the users' reactions; users choose what they react to.",
            reactions="Reactions of users to answers of the latest days.",
        )
        self._families = (self._gauges, self._feedback)

    def show(self, labels: tuple[str, str], estimate: CorrectedEstimate) -> None:
        if not self._has_place(labels):
            return
        corrected, anytime = estimate.corrected, estimate.anytime
        self._gauges.set(
            labels,
            score=None if corrected is None else corrected.mean,
            score_low=None if corrected is None else corrected.low,
            score_high=None if corrected is None else corrected.high,
            score_anytime_low=None if anytime is None else anytime.low,
            score_anytime_high=None if anytime is None else anytime.high,
            judges_score=estimate.judge_mean,
            labelled=float(estimate.labels),
            uncorrected=float(corrected is None),
        )

    def show_feedback(self, labels: tuple[str, str], count: int, mean: float) -> None:
        if self._has_place(labels):
            self._feedback.set(labels, score=mean, reactions=float(count))

    def keep(self, app: str, names: Collection[str]) -> None:
        """Withdraw the other series of an app."""
        self._remove([labels for labels in self._shown if labels[0] == app and labels[1] not in names])

    def _has_place(self, labels: tuple[str, str]) -> bool:
        if OTHER in labels or (labels not in self._shown and len(self._shown) >= _MAX_CORRECTED):
            return False
        self._shown.add(labels)
        return True


class AgreementMetrics(_AppSeries):
    """Created with the first label of an answer whose judges are known."""

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__()
        self._gauges = _Gauges(
            registry,
            names.JUDGE_AGREEMENT,
            ["app", "criterion", "judge"],
            mean="Weighted mean of 1 minus the distance of score and label, over the latest labels.",
            low="Lower end of a 95 % interval of that mean, valid at every check.",
            high="Upper end of a 95 % interval of that mean, valid at every check.",
            target="Mean below which the alert is raised, as configured or learnt.",
            log_evidence="Natural logarithm of the evidence that the agreement has fallen, or, while an alert is open, "
            "that it has recovered.",
            log_evidence_needed="Evidence required to raise the alert, or to clear it.",
            fallen="1 while an alert that the judge agrees less with people is open, 0 otherwise.",
            **_quality_texts(),
        )
        self._families = (self._gauges,)
        self._fallen: set[tuple[str, ...]] = set()

    def show(
        self, labels: tuple[str, str, str], quality: JudgeQuality | None, standing: AgreementStanding | None
    ) -> None:
        """Show a judge. Unknown figures are absent, and so is the evidence without a target."""
        is_fallen = standing is not None and standing.fallen
        self._fallen.discard(labels)
        if OTHER in labels[:2] or not self._has_place(labels, is_fallen=is_fallen):
            return
        self._shown.add(labels)
        if is_fallen:
            self._fallen.add(labels)
        self._gauges.set(labels, **_quality_gauges(quality), **_standing_gauges(standing))

    def _has_place(self, labels: tuple[str, str, str], *, is_fallen: bool) -> bool:
        """Return whether there is a place; a judge with an alert takes that of one without."""
        if labels in self._shown or len(self._shown) < _MAX_JUDGES:
            return True
        others = self._shown - self._fallen
        if is_fallen and others:
            self._remove([min(others)])
        return is_fallen and bool(others)

    def keep(self, app: str, series: Collection[tuple[str, ...]]) -> None:
        """Withdraw the other series of an app."""
        self._remove([labels for labels in self._shown if labels[0] == app and labels not in series])
        self._fallen &= self._shown


class SliceAgreementMetrics(_AppSeries):
    """Created with the first family or language that has enough labels."""

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__()
        labels = ["app", "criterion", "judge", "attribute", "value"]
        self._gauges = _Gauges(registry, names.JUDGE_AGREEMENT_SLICE, labels, **_quality_texts())
        self._families = (self._gauges,)

    def show(self, labels: tuple[str, ...], quality: JudgeQuality) -> None:
        """Show a judge on a part of the answers; unknown figures are absent."""
        if OTHER in labels[:2] or (labels not in self._shown and len(self._shown) >= _MAX_JUDGE_SLICES):
            return
        self._shown.add(labels)
        self._gauges.set(labels, **_quality_gauges(quality))

    def keep(self, app: str, series: Collection[tuple[str, ...]]) -> None:
        """Withdraw the other series of an app."""
        self._remove([labels for labels in self._shown if labels[0] == app and labels not in series])


class _Gauges:
    """Gauges with the same labels, by the value they show."""

    def __init__(self, registry: CollectorRegistry, family: str, labelled: list[str], /, **texts: str) -> None:
        self._gauges = {
            part: Gauge(f"{family}_{part}", text, labelled, registry=registry) for part, text in texts.items()
        }

    def set(self, series: tuple[str, ...], /, **values: float | None) -> None:
        """Set the gauges, and withdraw those whose value is None: the last value would look current."""
        for part, value in values.items():
            if value is None:
                _remove(self._gauges[part], series)
            else:
                self._gauges[part].labels(*series).set(value)

    def remove(self, labels: tuple[str, ...]) -> None:
        for gauge in self._gauges.values():
            _remove(gauge, labels)


def _quality_texts() -> dict[str, str]:
    figures = {
        "sensitivity": "Share of the answers that people call bad that the judge calls bad, too",
        "specificity": "Share of the other answers that the judge does not call bad",
        "kappa": "Weighted kappa of the judge and people: agreement beyond chance",
        "bias": "Mean of the judge's score minus the label; above 0 if the judge is too mild",
    }
    ends = (("", "."), ("_low", ": lower end of its 95 % interval."), ("_high", ": upper end of its 95 % interval."))
    return {
        "labels": "Labelled answers that the judge is compared on.",
        **{f"{name}{end}": f"{text}{tail}" for name, text in figures.items() for end, tail in ends},
    }


def _quality_gauges(quality: JudgeQuality | None) -> dict[str, float | None]:
    unknown, bias = RangedShare(), None if quality is None else quality.bias
    return {
        "labels": 0.0 if quality is None else float(quality.labels),
        "bias": None if bias is None else bias.mean,
        "bias_low": None if bias is None else bias.low,
        "bias_high": None if bias is None else bias.high,
        **_ranged("sensitivity", unknown if quality is None else quality.sensitivity),
        **_ranged("specificity", unknown if quality is None else quality.specificity),
        **_ranged("kappa", unknown if quality is None else quality.kappa),
    }


def _standing_gauges(standing: AgreementStanding | None) -> dict[str, float | None]:
    if standing is None:
        return dict.fromkeys(("mean", "low", "high", "target", "log_evidence", "log_evidence_needed", "fallen"))
    has_target = standing.target is not None
    return {
        "mean": standing.mean,
        "low": standing.low,
        "high": standing.high,
        "target": standing.target,
        "log_evidence": standing.evidence if has_target else None,
        "log_evidence_needed": standing.enough if has_target else None,
        "fallen": float(standing.fallen),
    }


def _ranged(name: str, share: RangedShare) -> dict[str, float | None]:
    return {name: share.value, f"{name}_low": share.low, f"{name}_high": share.high}


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
