"""Watches the judges' verdicts on the canaries, to see whether the judges changed."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Self

from sinks.base import COMPOSITE
from stream.monitor.alerts.alert import Alert, Cause, Series, Subject
from stream.monitor.alerts.plan import WatchPlan
from stream.monitor.alerts.score_record import ScoreRecord
from stream.monitor.alerts.watch.inclusion import Inclusion
from stream.monitor.alerts.watch.retirement import find_retired
from stream.monitor.alerts.watch.series import SeriesWatch, Watched
from stream.monitor.detection import EventKind, SeriesReading, agreement
from stream.monitor.detection.attribution import AttributionState, observe_anchor
from stream.records.canaries import CANARIES_APP, MOST_CANARIES

_MOST_EVALUATORS = 3
# The expected verdict is the most frequent of this many: a single one may be an exception.
_FIRST = 5
# Judges count as unchanged if this share of the canaries gets the original verdicts again.
_SAME = 0.95
_DIGEST_BYTES = 5
# Criteria by which a canary is labelled.
_MOST_LABELS = 32


@dataclass(slots=True)
class _Expected:
    """The expected verdict on a canary: the most frequent of the first ones."""

    first: list[str] = field(default_factory=list)
    """The first verdicts, until the expected one is determined."""
    verdict: str | None = None

    def learn(self, verdict: str) -> None:
        self.first.append(verdict)
        if len(self.first) >= _FIRST:
            [(self.verdict, _times)] = Counter(self.first).most_common(1)
            self.first = []


@dataclass(slots=True)
class _Criterion:
    """The verdicts of one evaluator on the canaries, by one criterion."""

    expected: dict[str, _Expected] = field(default_factory=dict)
    """Verdicts expected of the judges as they are now, by canary."""
    original: dict[str, str] = field(default_factory=dict)
    """The verdicts before the judges changed, if they have."""
    watch: SeriesWatch = field(default_factory=SeriesWatch)
    """Watches whether the canaries keep getting the expected verdicts."""

    def change(self) -> None:
        """Learn the expected verdicts again after the judges changed."""
        if not self.original:
            before = ((canary, expected.verdict) for canary, expected in self.expected.items())
            self.original = {canary: verdict for canary, verdict in before if verdict is not None}
        self.expected = {}

    def look_back(self) -> None:
        """Forget the change if the judges give their original verdicts again."""
        if not self.original:
            return
        now = {canary: self.expected[canary].verdict for canary in self.original if canary in self.expected}
        same = sum(verdict == self.original[canary] for canary, verdict in now.items())
        if None not in now.values() and same >= _SAME * len(self.original):
            self.original = {}


@dataclass(slots=True)
class _EvaluatorVerdicts:
    """The verdicts of one evaluator on the canaries."""

    idle: int = 0
    """Canaries that others judged since its last one."""
    criteria: dict[str, _Criterion] = field(default_factory=dict)
    anchors: dict[str, AttributionState] = field(default_factory=dict)
    """The gaps between scores and labels, by criterion, or for the composite."""


def _digest(text: str) -> str:
    """Shorten a text: a thousand canaries must fit into a state and remain distinct."""
    return blake2b(text.encode(errors="replace"), digest_size=_DIGEST_BYTES).hexdigest()


class CanaryWatch:
    """Watches the judges' verdicts on the canaries, for each evaluator."""

    def __init__(self, plan: WatchPlan) -> None:
        self._settings, self._attribution = plan.canary_settings(), plan.attribution
        self._labels: dict[str, dict[str, float]] = {}
        """The scores that people gave to canaries, by criterion."""
        self._evaluators: dict[str, _EvaluatorVerdicts] = {}
        self.included = Inclusion()

    def observe(self, record: ScoreRecord) -> list[Alert]:
        """Take the verdicts on a canary. After an alert, the judges' new verdicts become the expected ones."""
        if not self.included.add(record) or record.canary is None:
            return []
        alerts = self._retire(record)
        if record.fingerprint not in self._evaluators and len(self._evaluators) >= _MOST_EVALUATORS:
            return alerts
        judged = self._evaluators.setdefault(record.fingerprint, _EvaluatorVerdicts())
        for dimension, verdict in record.verdicts.items():
            criterion = judged.criteria.setdefault(dimension, _Criterion())
            alerts += self._verdict(criterion, dimension, verdict, record)
        self._observe_anchor(judged, record)
        for change in alerts:
            if change.kind is EventKind.RAISED:
                # Usual gaps are learnt again, as the expected verdicts are.
                for name in {change.series.dimension, COMPOSITE} & judged.anchors.keys():
                    judged.anchors[name] = AttributionState(changed_at=record.at)
        return alerts

    def _observe_anchor(self, judged: _EvaluatorVerdicts, record: ScoreRecord) -> None:
        canary = _digest(record.canary or "")
        for criterion, label in self._labels.get(canary, {}).items():
            score = record.scores.get(criterion)
            if score is not None:
                state = judged.anchors.get(criterion, AttributionState())
                judged.anchors[criterion] = observe_anchor(state, self._attribution, canary, score, label, at=record.at)

    def label(self, canary: str, scores: Mapping[str, float]) -> bool:
        """Take the scores that people gave a canary, by criterion; return whether they are others than before."""
        digest = _digest(canary)
        known = self._labels.pop(digest, {})
        if scores and len(self._labels) < MOST_CANARIES:
            self._labels[digest] = dict(list(scores.items())[:_MOST_LABELS])
        return known != self._labels.get(digest, {})

    def anchors_of(self, fingerprint: str, criteria: Collection[str] | None) -> list[AttributionState]:
        """Return the gaps of labelled canaries by these criteria, or by all."""
        judged = self._evaluators.get(fingerprint, _EvaluatorVerdicts())
        return [state for name, state in judged.anchors.items() if criteria is None or name in criteria]

    def _verdict(self, criterion: _Criterion, dimension: str, verdict: str, record: ScoreRecord) -> list[Alert]:
        digest, expected = _digest(verdict), criterion.expected.setdefault(_digest(record.canary or ""), _Expected())
        if expected.verdict is None:
            expected.learn(digest)
            criterion.look_back()
            return []
        about = self._about(dimension, record.fingerprint)
        event = criterion.watch.observe(about, agreement(digest, expected.verdict), record)
        if event is None:
            return []
        if event.kind is EventKind.RAISED:
            criterion.change()
        return [criterion.watch.announce(about, event)]

    def _retire(self, record: ScoreRecord) -> list[Alert]:
        """Remove evaluators that are no longer used, and clear their alerts."""
        alerts = [
            criterion.watch.withdraw(self._about(dimension, fingerprint), at=record.at, cause=Cause.EVALUATOR_CHANGED)
            for fingerprint in find_retired(self._evaluators, record.fingerprint)
            for dimension, criterion in self._evaluators.pop(fingerprint).criteria.items()
        ]
        return [alert for alert in alerts if alert is not None]

    def changed_dimensions(self, fingerprint: str) -> frozenset[str]:
        """Return the dimensions in which these judges differ from their first verdicts."""
        judged = self._evaluators.get(fingerprint, _EvaluatorVerdicts())
        return frozenset(name for name, criterion in judged.criteria.items() if criterion.original)

    def readings(self) -> dict[str, SeriesReading]:
        """Return how steady the verdicts are, by dimension: of an evaluator with an alert, else of the latest one."""
        watches: dict[str, SeriesWatch] = {}
        for judged in sorted(self._evaluators.values(), key=lambda evaluator: -evaluator.idle):
            for name, criterion in judged.criteria.items():
                if name not in watches or watches[name].raised is None:
                    watches[name] = criterion.watch
        return {name: watch.reading(self._settings) for name, watch in watches.items()}

    def forget_examples(self) -> None:
        """Drop the examples of alerts."""
        for judged in self._evaluators.values():
            for criterion in judged.criteria.values():
                criterion.watch.lowest = []

    def as_data(self) -> dict[str, Any]:
        return {
            "included": self.included.as_data(),
            "evaluators": {
                fingerprint: {
                    "idle": judged.idle,
                    "criteria": {name: _data_of(criterion) for name, criterion in judged.criteria.items()},
                    "anchors": {name: state.as_data() for name, state in judged.anchors.items()},
                }
                for fingerprint, judged in self._evaluators.items()
            },
            "labels": self._labels,
        }

    @classmethod
    def from_data(cls, plan: WatchPlan, data: dict[str, Any]) -> Self:
        watch = cls(plan)
        watch.included = Inclusion.from_data(data["included"])
        for fingerprint, stored in data["evaluators"].items():
            criteria = {name: _criterion_of(criterion) for name, criterion in stored["criteria"].items()}
            anchors = {name: AttributionState.from_data(state) for name, state in stored["anchors"].items()}
            watch._evaluators[fingerprint] = _EvaluatorVerdicts(idle=stored["idle"], criteria=criteria, anchors=anchors)
        watch._labels = data["labels"]
        return watch

    def _about(self, dimension: str, fingerprint: str) -> Watched:
        return Watched(Series(app=CANARIES_APP, dimension=dimension), self._settings, fingerprint, Subject.JUDGES)


def _data_of(criterion: _Criterion) -> dict[str, Any]:
    return {
        "expected": {canary: expected.verdict or expected.first for canary, expected in criterion.expected.items()},
        "original": criterion.original,
        "watch": criterion.watch.as_data(),
    }


def _criterion_of(data: dict[str, Any]) -> _Criterion:
    expected = {
        canary: _Expected(verdict=stored) if isinstance(stored, str) else _Expected(first=stored)
        for canary, stored in data["expected"].items()
    }
    return _Criterion(expected=expected, original=data["original"], watch=SeriesWatch.from_data(data["watch"]))
