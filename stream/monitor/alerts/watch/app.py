"""The series of one app, for each evaluator that judges it: a score record in, alerts out."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from sinks.base import COMPOSITE
from sinks.metrics.detection import GOOD_SHARE
from stream.config.sections.detection import VersionsConfig
from stream.monitor.alerts.alert import Alert, Attribution, Cause, Series, Suspect
from stream.monitor.alerts.labels.judged_days import JudgedDays
from stream.monitor.alerts.labels.memory import JoinedLabel
from stream.monitor.alerts.plan import WatchPlan
from stream.monitor.alerts.score_record import ScoreRecord
from stream.monitor.alerts.watch.agreement import AgreementWatch
from stream.monitor.alerts.watch.inclusion import Inclusion
from stream.monitor.alerts.watch.retirement import find_retired
from stream.monitor.alerts.watch.series import SeriesWatch, Watched
from stream.monitor.alerts.watch.versions import Compared, ComparisonStanding, VersionWatch
from stream.monitor.detection import EventKind, SeriesReading, Settings, State
from stream.monitor.detection.attribution import AttributionState, DriftSource, attribute

_MOST_EVALUATORS = 8
# A model or tenant is gone if it was not among this many records.
_GONE_AFTER = 1000
_MOST_SERIES = 200
_SUSPECTS = 3
# Computed from all criteria, so never the reason for a drop.
_WHOLE = frozenset({COMPOSITE, GOOD_SHARE})


@dataclass(slots=True)
class EvaluatorWatch:
    """The state of an app by one evaluator. Scores of two evaluators are never one series."""

    idle: int = 0
    """Records that others judged since its last one."""
    series: dict[Series, SeriesWatch] = field(default_factory=dict)
    versions: dict[str, VersionWatch] = field(default_factory=dict)

    def as_data(self) -> dict[str, Any]:
        return {
            "idle": self.idle,
            "series": [
                [series.model_dump(exclude_none=True), watch.as_data()] for series, watch in self.series.items()
            ],
            "versions": {name: watch.as_data() for name, watch in self.versions.items()},
        }

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Self:
        return cls(
            idle=data["idle"],
            series={Series(**series): SeriesWatch.from_data(watch) for series, watch in data["series"]},
            versions={name: VersionWatch.from_data(watch) for name, watch in data["versions"].items()},
        )


Changed = Callable[[str], Collection[str]]
"""The dimensions in which the judges of an evaluator have changed, by its fingerprint."""


AnchorsOf = Callable[[str, Collection[str] | None], Sequence[AttributionState]]
"""The gaps of labelled canaries by an evaluator's fingerprint, and by these criteria, or by all."""


class SeriesGauges(NamedTuple):
    """A series with its current reading."""

    series: Series
    reading: SeriesReading


class AppWatch:
    """Everything that is watched of one app."""

    def __init__(self, plan: WatchPlan, changed: Changed, anchors: AnchorsOf) -> None:
        self._plan, self._changed, self._anchors = plan, changed, anchors
        self._evaluators: dict[str, EvaluatorWatch] = {}
        self.included = Inclusion()
        self.judged = JudgedDays()
        self.agreement = AgreementWatch(plan)

    def include(self, record: ScoreRecord) -> bool:
        """Include a record; return False if it was included already."""
        is_new = self.included.add(record)
        if is_new:
            self.judged.add(record, self._plan.label_days)
        return is_new

    def observe(self, record: ScoreRecord) -> list[Alert]:
        """Take the next record; duplicates change nothing."""
        return self.detect(record) if self.include(record) else []

    def detect(self, record: ScoreRecord) -> list[Alert]:
        """Return the alerts that follow from a record that was just included."""
        alerts = [*self._retire(record), *self.agreement.see(record, self.included.count)]
        watch = self._evaluators.get(record.fingerprint)
        if watch is None:
            if len(self._evaluators) >= _MOST_EVALUATORS:  # all are in use: a new one has to wait
                return alerts
            watch = self._evaluators[record.fingerprint] = EvaluatorWatch()
        for series, score in self._plan.scores(record):
            alerts += self._score(watch, series, score, record)
        alerts += self._compare(watch, record)
        return [*alerts, *self._remove_silent_series(watch, record)]

    def compare(self, joined: Iterable[JoinedLabel]) -> list[Alert]:
        """Take labels of the app, each the first one of its answer."""
        newest = max((reached.newest for reached in self.included.reached.values()), default=0.0)
        return self.agreement.compare(joined, at=newest, count=self.included.count)

    def withdraw_all(self, app: str, at: float) -> list[Alert]:
        """Clear all alerts before the app is removed."""
        of_series = [alert for name in list(self._evaluators) for alert in self._remove_evaluator(name, at, Cause.GONE)]
        return [*of_series, *self.agreement.withdraw_all(app, at)]

    def on_judges_changed(self, fingerprint: str, dimension: str, at: float) -> list[Alert]:
        """Restart the series of a dimension: earlier scores and targets are not comparable with those to come."""
        watch = self._evaluators.get(fingerprint, EvaluatorWatch())
        alerts = []
        for series in [series for series in watch.series if series.dimension in {dimension, *_WHOLE}]:
            alerts.append(self._withdraw(watch, series, fingerprint, at, Cause.JUDGES_CHANGED))
            watch.series[series] = SeriesWatch()
        return [alert for alert in alerts if alert is not None]

    def readings(self) -> Iterator[SeriesGauges]:
        """Yield every series of the app itself: of an evaluator with an alert, else of the current one."""
        latest: dict[Series, tuple[str, SeriesWatch]] = {}
        for fingerprint, evaluator in reversed(self._by_use()):
            for series, watch in evaluator.series.items():
                if series.attribute is None and (series not in latest or latest[series][1].raised is None):
                    latest[series] = fingerprint, watch
        for series, (fingerprint, watch) in latest.items():
            yield SeriesGauges(series, watch.quality_reading(self._settings(series, fingerprint)))

    def attributions(self) -> dict[str, Attribution]:
        """Return what moved the scores of each series of the app itself that has an alert."""
        return {
            series.dimension: watch.attribution
            for _fingerprint, evaluator in reversed(self._by_use())
            for series, watch in evaluator.series.items()
            if series.attribute is None and watch.raised is not None
        }

    def comparisons(self, app: str) -> Iterator[ComparisonStanding]:
        """Yield every comparison of two models by the current evaluator."""
        for _fingerprint, latest in self._by_use()[:1]:
            for versions in self._plan.versions:
                if watch := latest.versions.get(versions.name):
                    yield watch.standing(versions.name, self._plan.version_settings(versions, app))

    def _by_use(self) -> list[tuple[str, EvaluatorWatch]]:
        """Return the evaluators, the current one first."""
        return sorted(self._evaluators.items(), key=lambda item: item[1].idle)

    # One score

    def _score(self, watch: EvaluatorWatch, series: Series, score: float, record: ScoreRecord) -> list[Alert]:
        about = Watched(series, self._settings(series, record.fingerprint), record.fingerprint)
        own = watch.series.get(series)
        if own is None and not self._has_place(watch, series):
            return []
        alerts: list[Alert | None] = []
        if own is None or not own.can_go_on(about.settings):
            if own is not None:
                alerts.append(own.withdraw(about, at=record.at, cause=Cause.EVALUATOR_CHANGED))
            own = watch.series[series] = SeriesWatch()
        own.heard = self.included.count
        event = own.observe(about, score, record)
        attribution = self._attribute(series, record.fingerprint, own.state)
        if event is not None:
            suspects = () if event.kind is EventKind.CLEARED else self._suspects(watch, record.fingerprint)
            alerts.append(own.announce(about, event, suspects, attribution))
        else:
            alerts.append(own.announce_attribution(about, attribution, at=record.at))
        return [alert for alert in alerts if alert is not None]

    def _attribute(self, series: Series, fingerprint: str, live: State) -> Attribution:
        """Return what moved the scores of a series with an alert, as far as it is known."""
        if not live.is_raised:
            return Attribution.UNKNOWN
        criteria = None if series.dimension in _WHOLE else {series.dimension}
        source = attribute(self._anchors(fingerprint, criteria), live, self._plan.attribution)
        if source is DriftSource.JUDGE or self.agreement.explains_drop(criteria, live):
            return Attribution.JUDGE
        return Attribution.SYSTEM if source is DriftSource.SYSTEM else Attribution.UNKNOWN

    def _settings(self, series: Series, fingerprint: str) -> Settings:
        """Return the settings of a series, without its target if the judges have changed since it was set."""
        changed = self._changed(fingerprint)
        moved = bool(changed) if series.dimension in _WHOLE else series.dimension in changed
        return self._plan.settings(series, learning=moved)

    def _has_place(self, watch: EvaluatorWatch, series: Series) -> bool:
        if series.attribute is None:
            return len(watch.series) < _MOST_SERIES
        return sum(other.attribute == series.attribute for other in watch.series) < self._plan.top

    def _suspects(self, watch: EvaluatorWatch, fingerprint: str) -> list[Suspect]:
        candidates = [
            own.suspect(series.dimension, self._settings(series, fingerprint))
            for series, own in watch.series.items()
            if series.dimension not in _WHOLE
        ]
        suspects = [suspect for suspect in candidates if suspect is not None]
        return sorted(suspects, key=lambda suspect: -suspect.evidence)[:_SUSPECTS]

    def _compare(self, watch: EvaluatorWatch, record: ScoreRecord) -> list[Alert]:
        score = record.scores.get(COMPOSITE)
        if score is None:
            return []
        alerts = []
        for versions, side in self._plan.comparisons(record):
            own = watch.versions.setdefault(versions.name, VersionWatch())
            alerts.append(own.observe(self._comparison(versions, record.app), side, score, record))
        return [alert for alert in alerts if alert is not None]

    def _comparison(self, versions: VersionsConfig, app: str) -> Compared:
        series = Series(app=app, dimension=COMPOSITE, attribute="versions", value=versions.name)
        return Compared(series, self._plan.version_settings(versions, app), (versions.a, versions.b))

    def _remove_silent_series(self, watch: EvaluatorWatch, record: ScoreRecord) -> list[Alert]:
        """Remove models and tenants without new records and clear their alerts, to make room for others."""
        silent = [
            series
            for series, own in watch.series.items()
            if series.attribute is not None and self.included.count - own.heard > _GONE_AFTER
        ]
        alerts = [self._withdraw(watch, series, record.fingerprint, record.at, Cause.GONE) for series in silent]
        for series in silent:
            del watch.series[series]
        return [alert for alert in alerts if alert is not None]

    # Evaluators that come and go

    def _retire(self, record: ScoreRecord) -> list[Alert]:
        """Remove evaluators that are no longer used, and clear their alerts."""
        return [
            alert
            for fingerprint in find_retired(self._evaluators, record.fingerprint)
            for alert in self._remove_evaluator(fingerprint, record.at, Cause.EVALUATOR_CHANGED)
        ]

    def _remove_evaluator(self, fingerprint: str, at: float, cause: Cause) -> list[Alert]:
        watch = self._evaluators.pop(fingerprint)
        alerts = [self._withdraw(watch, series, fingerprint, at, cause) for series in watch.series]
        app = next((series.app for series in watch.series), "")
        for versions in self._plan.versions:
            if own := watch.versions.get(versions.name):
                alerts.append(own.withdraw(self._comparison(versions, app), fingerprint, at=at, cause=cause))
        return [alert for alert in alerts if alert is not None]

    def _withdraw(
        self, watch: EvaluatorWatch, series: Series, fingerprint: str, at: float, cause: Cause
    ) -> Alert | None:
        about = Watched(series, self._settings(series, fingerprint), fingerprint)
        return watch.series[series].withdraw(about, at=at, cause=cause)

    # The stored state

    def forget_examples(self) -> None:
        """Drop the examples of alerts: their ids may be most of the state."""
        for evaluator in self._evaluators.values():
            for watch in evaluator.series.values():
                watch.lowest = []
        self.agreement.forget_examples()

    def as_data(self) -> dict[str, Any]:
        return {
            "included": self.included.as_data(),
            "judged": self.judged.as_data(),
            **self.agreement.as_data(),
            "evaluators": {fingerprint: watch.as_data() for fingerprint, watch in self._evaluators.items()},
        }

    @classmethod
    def from_data(cls, plan: WatchPlan, changed: Changed, anchors: AnchorsOf, data: dict[str, Any]) -> Self:
        watch = cls(plan, changed, anchors)
        watch.included = Inclusion.from_data(data["included"])
        watch.judged = JudgedDays.from_data(data["judged"])
        watch.agreement = AgreementWatch.from_data(plan, data)
        watch._evaluators = {
            fingerprint: EvaluatorWatch.from_data(stored) for fingerprint, stored in data["evaluators"].items()
        }
        return watch
