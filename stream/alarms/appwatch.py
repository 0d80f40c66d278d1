"""The series of one app, for each evaluator that judges it: a score record in, alerts out."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from sinks.base import COMPOSITE
from sinks.metrics.detection import GOOD_SHARE
from stream.alarms.alert import Alert, Cause, Series, Suspect
from stream.alarms.inclusion import Inclusion
from stream.alarms.plan import WatchPlan
from stream.alarms.scores import ScoreRecord
from stream.alarms.serieswatch import SeriesWatch, Watched
from stream.alarms.versionwatch import Standing, VersionWatch
from stream.detection import Kind, Reading

# An evaluator is no longer used when so many records in a row were judged by others.
_RETIRED_AFTER = 200
_MOST_EVALUATORS = 4
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


class Shown(NamedTuple):
    """What a series is like now."""

    series: Series
    reading: Reading


class AppWatch:
    """All that is watched of one app."""

    def __init__(self, plan: WatchPlan) -> None:
        self._plan = plan
        self._evaluators: dict[str, EvaluatorWatch] = {}
        self.included = Inclusion()

    def observe(self, record: ScoreRecord) -> list[Alert]:
        """Takes the next record; what is repeated changes nothing."""
        if not self.included.add(record):
            return []
        alerts = self._retire(record)
        watch = self._evaluators.setdefault(record.fingerprint, EvaluatorWatch())
        for series, score in self._plan.scores(record):
            alerts += self._score(watch, series, score, record)
        alerts += self._compare(watch, record)
        return alerts

    def judges_changed(self, fingerprint: str, dimension: str, at: float) -> list[Alert]:
        """What the judges found of a dimension is not comparable with what they find now: its series begin anew."""
        watch = self._evaluators.get(fingerprint, EvaluatorWatch())
        moved = [series for series in watch.series if series.dimension in {dimension, *_WHOLE}]
        alerts = [self._withdrawn(watch, series, fingerprint, at, Cause.JUDGES_CHANGED) for series in moved]
        for series in moved:
            watch.series[series] = SeriesWatch()
        return [alert for alert in alerts if alert is not None]

    def shown(self) -> Iterator[Shown]:
        """Every series of the app itself, of the evaluator that judges now."""
        for series, watch in self._latest().series.items():
            if series.attribute is None:
                yield Shown(series, watch.reading(self._plan.settings(series)))

    def compared(self, app: str) -> Iterator[Standing]:
        """Every comparison of two models, of the evaluator that judges now."""
        for versions in self._plan.versions:
            watch = self._latest().versions.get(versions.name)
            if watch is not None:
                yield watch.standing(versions.name, self._plan.version_settings(versions, app))

    def _latest(self) -> EvaluatorWatch:
        return min(self._evaluators.values(), key=lambda watch: watch.idle, default=EvaluatorWatch())

    # One score

    def _score(self, watch: EvaluatorWatch, series: Series, score: float, record: ScoreRecord) -> list[Alert]:
        about = Watched(series, self._plan.settings(series), record.fingerprint)
        known = watch.series.get(series)
        if known is None and not self._has_place(watch, series):
            return []
        alerts: list[Alert | None] = []
        if known is None or not known.can_go_on(about.settings):
            if known is not None:
                alerts.append(known.withdraw(about, at=record.at, cause=Cause.EVALUATOR_CHANGED))
            known = watch.series[series] = SeriesWatch()
        event = known.observe(about, score, record)
        if event is not None:
            suspects = () if event.kind is Kind.CLEARED else self._suspects(watch)
            alerts.append(known.announce(about, event, suspects))
        return [alert for alert in alerts if alert is not None]

    def _has_place(self, watch: EvaluatorWatch, series: Series) -> bool:
        if series.attribute is None:
            return len(watch.series) < _MOST_SERIES
        return sum(known.attribute == series.attribute for known in watch.series) < self._plan.top

    def _suspects(self, watch: EvaluatorWatch) -> list[Suspect]:
        found = [
            each.suspect(series.dimension, self._plan.settings(series))
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
            series = Series(app=record.app, dimension=COMPOSITE, attribute="versions", value=versions.name)
            known = watch.versions.setdefault(versions.name, VersionWatch())
            alerts.append(known.observe(series, self._plan.version_settings(versions, record.app), side, score, record))
        return [alert for alert in alerts if alert is not None]

    # Evaluators that come and go

    def _retire(self, record: ScoreRecord) -> list[Alert]:
        """Counts what others are not asked for; those that have not been asked for long are given up."""
        for fingerprint, watch in self._evaluators.items():
            watch.idle = 0 if fingerprint == record.fingerprint else watch.idle + 1
        by_use = sorted(self._evaluators, key=lambda fingerprint: self._evaluators[fingerprint].idle)
        room = _MOST_EVALUATORS if record.fingerprint in self._evaluators else _MOST_EVALUATORS - 1
        gone = [
            fingerprint
            for place, fingerprint in enumerate(by_use)
            if place >= room or self._evaluators[fingerprint].idle >= _RETIRED_AFTER
        ]
        return [alert for fingerprint in gone for alert in self._given_up(fingerprint, record.at)]

    def _given_up(self, fingerprint: str, at: float) -> list[Alert]:
        watch = self._evaluators.pop(fingerprint)
        alerts = [self._withdrawn(watch, each, fingerprint, at, Cause.EVALUATOR_CHANGED) for each in watch.series]
        return [alert for alert in alerts if alert is not None]

    def _withdrawn(
        self, watch: EvaluatorWatch, series: Series, fingerprint: str, at: float, cause: Cause
    ) -> Alert | None:
        about = Watched(series, self._plan.settings(series), fingerprint)
        return watch.series[series].withdraw(about, at=at, cause=cause)

    # What is kept

    def as_data(self) -> dict[str, Any]:
        return {
            "included": self.included.as_data(),
            "evaluators": {fingerprint: watch.as_data() for fingerprint, watch in self._evaluators.items()},
        }

    @classmethod
    def from_data(cls, plan: WatchPlan, data: dict[str, Any]) -> Self:
        found = cls(plan)
        found.included = Inclusion.from_data(data["included"])
        found._evaluators = {
            fingerprint: EvaluatorWatch.from_data(stored) for fingerprint, stored in data["evaluators"].items()
        }
        return found
