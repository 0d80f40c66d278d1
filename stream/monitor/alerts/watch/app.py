"""The series of one app, for each evaluator that judges it: a score record in, alerts out."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from sinks.base import COMPOSITE
from sinks.metrics.detection import GOOD_SHARE
from stream.config.sections.detection import VersionsConfig
from stream.monitor.alerts.alert import Alert, Cause, Series, Suspect
from stream.monitor.alerts.plan import WatchPlan
from stream.monitor.alerts.score_record import ScoreRecord
from stream.monitor.alerts.watch.inclusion import Inclusion
from stream.monitor.alerts.watch.retirement import retired
from stream.monitor.alerts.watch.series import SeriesWatch, Watched
from stream.monitor.alerts.watch.versions import Compared, ComparisonStanding, VersionWatch
from stream.monitor.detection import EventKind, SeriesReading, Settings

_MOST_EVALUATORS = 8
# Nothing comes any more of a model or tenant that was not among so many records.
_GONE_AFTER = 1000
_MOST_SERIES = 200
_SUSPECTS = 3
# What all criteria together make: not the reason for anything.
_WHOLE = frozenset({COMPOSITE, GOOD_SHARE})


@dataclass(slots=True)
class EvaluatorWatch:
    """What one evaluator finds of an app. Two evaluators' scores are not one series."""

    idle: int = 0
    """Records since, which others judged."""
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


class SeriesGauges(NamedTuple):
    """What a series is like now."""

    series: Series
    reading: SeriesReading


class AppWatch:
    """All that is watched of one app."""

    def __init__(self, plan: WatchPlan, changed: Changed) -> None:
        self._plan, self._changed = plan, changed
        self._evaluators: dict[str, EvaluatorWatch] = {}
        self.included = Inclusion()

    def observe(self, record: ScoreRecord) -> list[Alert]:
        """Takes the next record; what is repeated changes nothing."""
        if not self.included.add(record):
            return []
        alerts = self._retire(record)
        watch = self._evaluators.get(record.fingerprint)
        if watch is None:
            if len(self._evaluators) >= _MOST_EVALUATORS:  # all of them in use: who comes last has to wait
                return alerts
            watch = self._evaluators[record.fingerprint] = EvaluatorWatch()
        for series, score in self._plan.scores(record):
            alerts += self._score(watch, series, score, record)
        alerts += self._compare(watch, record)
        return [*alerts, *self._gone(watch, record)]

    def forgotten(self, at: float) -> list[Alert]:
        """What is to be announced before all of it is given up."""
        return [alert for name in list(self._evaluators) for alert in self._given_up(name, at, Cause.GONE)]

    def judges_changed(self, fingerprint: str, dimension: str, at: float) -> list[Alert]:
        """What the judges found of a dimension is not comparable with what they find now: its series begin anew.

        Nor is it with a target that was meant for what they found.
        """
        watch = self._evaluators.get(fingerprint, EvaluatorWatch())
        alerts = []
        for series in [series for series in watch.series if series.dimension in {dimension, *_WHOLE}]:
            alerts.append(self._withdrawn(watch, series, fingerprint, at, Cause.JUDGES_CHANGED))
            watch.series[series] = SeriesWatch()
        return [alert for alert in alerts if alert is not None]

    def shown(self) -> Iterator[SeriesGauges]:
        """Every series of the app itself: of an evaluator with an alert, else of the one that judges now."""
        found: dict[Series, tuple[str, SeriesWatch]] = {}
        for fingerprint, evaluator in reversed(self._by_use()):
            for series, watch in evaluator.series.items():
                if series.attribute is None and (series not in found or found[series][1].raised is None):
                    found[series] = fingerprint, watch
        for series, (fingerprint, watch) in found.items():
            yield SeriesGauges(series, watch.reading(self._settings(series, fingerprint)))

    def compared(self, app: str) -> Iterator[ComparisonStanding]:
        """Every comparison of two models, of the evaluator that judges now."""
        for _fingerprint, latest in self._by_use()[:1]:
            for versions in self._plan.versions:
                if watch := latest.versions.get(versions.name):
                    yield watch.standing(versions.name, self._plan.version_settings(versions, app))

    def _by_use(self) -> list[tuple[str, EvaluatorWatch]]:
        """The evaluator that judges now first."""
        return sorted(self._evaluators.items(), key=lambda known: known[1].idle)

    # One score

    def _score(self, watch: EvaluatorWatch, series: Series, score: float, record: ScoreRecord) -> list[Alert]:
        about = Watched(series, self._settings(series, record.fingerprint), record.fingerprint)
        known = watch.series.get(series)
        if known is None and not self._has_place(watch, series):
            return []
        alerts: list[Alert | None] = []
        if known is None or not known.can_go_on(about.settings):
            if known is not None:
                alerts.append(known.withdraw(about, at=record.at, cause=Cause.EVALUATOR_CHANGED))
            known = watch.series[series] = SeriesWatch()
        known.heard = self.included.count
        event = known.observe(about, score, record)
        if event is not None:
            suspects = () if event.kind is EventKind.CLEARED else self._suspects(watch, record.fingerprint)
            alerts.append(known.announce(about, event, suspects))
        return [alert for alert in alerts if alert is not None]

    def _settings(self, series: Series, fingerprint: str) -> Settings:
        """A target was meant for the judges as they were before they changed."""
        changed = self._changed(fingerprint)
        moved = bool(changed) if series.dimension in _WHOLE else series.dimension in changed
        return self._plan.settings(series, learning=moved)

    def _has_place(self, watch: EvaluatorWatch, series: Series) -> bool:
        if series.attribute is None:
            return len(watch.series) < _MOST_SERIES
        return sum(known.attribute == series.attribute for known in watch.series) < self._plan.top

    def _suspects(self, watch: EvaluatorWatch, fingerprint: str) -> list[Suspect]:
        found = [
            each.suspect(series.dimension, self._settings(series, fingerprint))
            for series, each in watch.series.items()
            if series.dimension not in _WHOLE
        ]
        suspects = [suspect for suspect in found if suspect is not None]
        return sorted(suspects, key=lambda suspect: -suspect.evidence)[:_SUSPECTS]

    def _compare(self, watch: EvaluatorWatch, record: ScoreRecord) -> list[Alert]:
        score = record.scores.get(COMPOSITE)
        if score is None:
            return []
        alerts = []
        for versions, side in self._plan.compared(record):
            known = watch.versions.setdefault(versions.name, VersionWatch())
            alerts.append(known.observe(self._compared(versions, record.app), side, score, record))
        return [alert for alert in alerts if alert is not None]

    def _compared(self, versions: VersionsConfig, app: str) -> Compared:
        series = Series(app=app, dimension=COMPOSITE, attribute="versions", value=versions.name)
        return Compared(series, self._plan.version_settings(versions, app), (versions.a, versions.b))

    def _gone(self, watch: EvaluatorWatch, record: ScoreRecord) -> list[Alert]:
        """Models and tenants that nothing comes of any more: their alerts end, and others take their places."""
        gone = [
            series
            for series, each in watch.series.items()
            if series.attribute is not None and self.included.count - each.heard > _GONE_AFTER
        ]
        alerts = [self._withdrawn(watch, each, record.fingerprint, record.at, Cause.GONE) for each in gone]
        for series in gone:
            del watch.series[series]
        return [alert for alert in alerts if alert is not None]

    # Evaluators that come and go

    def _retire(self, record: ScoreRecord) -> list[Alert]:
        """Evaluators that are no longer asked are given up, and with them their alerts."""
        return [
            alert
            for fingerprint in retired(self._evaluators, record.fingerprint)
            for alert in self._given_up(fingerprint, record.at, Cause.EVALUATOR_CHANGED)
        ]

    def _given_up(self, fingerprint: str, at: float, cause: Cause) -> list[Alert]:
        watch = self._evaluators.pop(fingerprint)
        alerts = [self._withdrawn(watch, each, fingerprint, at, cause) for each in watch.series]
        app = next((series.app for series in watch.series), "")
        for versions in self._plan.versions:
            if known := watch.versions.get(versions.name):
                alerts.append(known.withdraw(self._compared(versions, app), fingerprint, at=at, cause=cause))
        return [alert for alert in alerts if alert is not None]

    def _withdrawn(
        self, watch: EvaluatorWatch, series: Series, fingerprint: str, at: float, cause: Cause
    ) -> Alert | None:
        about = Watched(series, self._settings(series, fingerprint), fingerprint)
        return watch.series[series].withdraw(about, at=at, cause=cause)

    # What is kept

    def forget_examples(self) -> None:
        """Gives up the interactions that alerts name: their ids may be most of the state."""
        for evaluator in self._evaluators.values():
            for watch in evaluator.series.values():
                watch.lowest = []

    def as_data(self) -> dict[str, Any]:
        return {
            "included": self.included.as_data(),
            "evaluators": {fingerprint: watch.as_data() for fingerprint, watch in self._evaluators.items()},
        }

    @classmethod
    def from_data(cls, plan: WatchPlan, changed: Changed, data: dict[str, Any]) -> Self:
        found = cls(plan, changed)
        found.included = Inclusion.from_data(data["included"])
        found._evaluators = {
            fingerprint: EvaluatorWatch.from_data(stored) for fingerprint, stored in data["evaluators"].items()
        }
        return found
