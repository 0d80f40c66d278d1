"""Watches the judges' verdicts on the canaries, to see whether the judges changed."""

from collections import Counter
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Self

from stream.monitor.alerts.alert import Alert, Cause, Series, Subject
from stream.monitor.alerts.plan import WatchPlan
from stream.monitor.alerts.score_record import ScoreRecord
from stream.monitor.alerts.watch.inclusion import Inclusion
from stream.monitor.alerts.watch.retirement import retired
from stream.monitor.alerts.watch.series import SeriesWatch, Watched
from stream.monitor.detection import EventKind, SeriesReading, agreement
from stream.records.canaries import CANARIES_APP

_MOST_EVALUATORS = 3
# What is expected of a canary is what most of so many verdicts were: one alone may be the rare one.
_FIRST = 5
# Judges are what they were when so many of the canaries get the verdicts that they used to.
_SAME = 0.95
_DIGEST_BYTES = 5


@dataclass(slots=True)
class _Expected:
    """What a canary's verdict is to be: what most of the first ones were."""

    first: list[str] = field(default_factory=list)
    """Until it is settled."""
    verdict: str | None = None

    def learn(self, verdict: str) -> None:
        self.first.append(verdict)
        if len(self.first) >= _FIRST:
            [(self.verdict, _times)] = Counter(self.first).most_common(1)
            self.first = []


@dataclass(slots=True)
class _Criterion:
    """What one evaluator says of the canaries by one criterion."""

    expected: dict[str, _Expected] = field(default_factory=dict)
    """By canary; of what the judges are like now."""
    original: dict[str, str] = field(default_factory=dict)
    """The verdicts before the judges changed, if they have."""
    watch: SeriesWatch = field(default_factory=SeriesWatch)
    """Whether the canaries get it again."""

    def change(self) -> None:
        """From now on, what the judges say now is expected."""
        if not self.original:
            known = ((canary, each.verdict) for canary, each in self.expected.items())
            self.original = {canary: verdict for canary, verdict in known if verdict is not None}
        self.expected = {}

    def look_back(self) -> None:
        """Judges that say again what they said before they changed have not changed."""
        if not self.original:
            return
        now = {canary: self.expected[canary].verdict for canary in self.original if canary in self.expected}
        same = sum(verdict == self.original[canary] for canary, verdict in now.items())
        if None not in now.values() and same >= _SAME * len(self.original):
            self.original = {}


@dataclass(slots=True)
class _EvaluatorVerdicts:
    """What one evaluator says of the canaries."""

    idle: int = 0
    """Canaries since, which others judged."""
    criteria: dict[str, _Criterion] = field(default_factory=dict)


def _digest(text: str) -> str:
    """Short enough for a thousand canaries, long enough to tell them apart."""
    return blake2b(text.encode(errors="replace"), digest_size=_DIGEST_BYTES).hexdigest()


class CanaryWatch:
    """What the judges say of the canaries, for each evaluator."""

    def __init__(self, plan: WatchPlan) -> None:
        self._settings = plan.canary_settings()
        self._evaluators: dict[str, _EvaluatorVerdicts] = {}
        self.included = Inclusion()

    def observe(self, record: ScoreRecord) -> list[Alert]:
        """Takes the next canary's verdicts. After "the judges have changed", what they say now is what is expected."""
        if not self.included.add(record) or record.canary is None:
            return []
        alerts = self._retire(record)
        if record.fingerprint not in self._evaluators and len(self._evaluators) >= _MOST_EVALUATORS:
            return alerts
        judged = self._evaluators.setdefault(record.fingerprint, _EvaluatorVerdicts())
        for dimension, verdict in record.verdicts.items():
            criterion = judged.criteria.setdefault(dimension, _Criterion())
            alerts += self._verdict(criterion, dimension, verdict, record)
        return alerts

    def _verdict(self, criterion: _Criterion, dimension: str, verdict: str, record: ScoreRecord) -> list[Alert]:
        said, expected = _digest(verdict), criterion.expected.setdefault(_digest(record.canary or ""), _Expected())
        if expected.verdict is None:
            expected.learn(said)
            criterion.look_back()
            return []
        about = self._about(dimension, record.fingerprint)
        event = criterion.watch.observe(about, agreement(said, expected.verdict), record)
        if event is None:
            return []
        if event.kind is EventKind.RAISED:
            criterion.change()
        return [criterion.watch.announce(about, event)]

    def _retire(self, record: ScoreRecord) -> list[Alert]:
        """Evaluators that are no longer asked are given up, and with them their alerts."""
        alerts = [
            criterion.watch.withdraw(self._about(dimension, fingerprint), at=record.at, cause=Cause.EVALUATOR_CHANGED)
            for fingerprint in retired(self._evaluators, record.fingerprint)
            for dimension, criterion in self._evaluators.pop(fingerprint).criteria.items()
        ]
        return [alert for alert in alerts if alert is not None]

    def changed(self, fingerprint: str) -> frozenset[str]:
        """The dimensions in which these judges are no longer what they were at first."""
        judged = self._evaluators.get(fingerprint, _EvaluatorVerdicts())
        return frozenset(name for name, criterion in judged.criteria.items() if criterion.original)

    def shown(self) -> dict[str, SeriesReading]:
        """How steady the latest evaluator's verdicts are, by dimension; that of one with an alert, if there is one."""
        found: dict[str, SeriesWatch] = {}
        for judged in sorted(self._evaluators.values(), key=lambda each: -each.idle):
            for name, criterion in judged.criteria.items():
                if name not in found or found[name].raised is None:
                    found[name] = criterion.watch
        return {name: watch.reading(self._settings) for name, watch in found.items()}

    def forget_examples(self) -> None:
        """Gives up the interactions that alerts name."""
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
                }
                for fingerprint, judged in self._evaluators.items()
            },
        }

    @classmethod
    def from_data(cls, plan: WatchPlan, data: dict[str, Any]) -> Self:
        found = cls(plan)
        found.included = Inclusion.from_data(data["included"])
        for fingerprint, stored in data["evaluators"].items():
            criteria = {name: _criterion_of(criterion) for name, criterion in stored["criteria"].items()}
            found._evaluators[fingerprint] = _EvaluatorVerdicts(idle=stored["idle"], criteria=criteria)
        return found

    def _about(self, dimension: str, fingerprint: str) -> Watched:
        return Watched(Series(app=CANARIES_APP, dimension=dimension), self._settings, fingerprint, Subject.JUDGES)


def _data_of(criterion: _Criterion) -> dict[str, Any]:
    return {
        "expected": {canary: each.verdict or each.first for canary, each in criterion.expected.items()},
        "original": criterion.original,
        "watch": criterion.watch.as_data(),
    }


def _criterion_of(data: dict[str, Any]) -> _Criterion:
    expected = {
        canary: _Expected(verdict=known) if isinstance(known, str) else _Expected(first=known)
        for canary, known in data["expected"].items()
    }
    return _Criterion(expected=expected, original=data["original"], watch=SeriesWatch.from_data(data["watch"]))
