"""The judges' verdicts on the canaries: have the judges changed."""

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Self

from stream.alarms.alert import Alert, Series, Subject
from stream.alarms.inclusion import Inclusion
from stream.alarms.plan import WatchPlan
from stream.alarms.scores import ScoreRecord
from stream.alarms.serieswatch import SeriesWatch, Watched
from stream.canaries import CANARIES_APP
from stream.detection import Kind, Reading, agreement

_MOST_EVALUATORS = 3
_DIGEST_BYTES = 5


@dataclass(slots=True)
class _Judged:
    """What one evaluator says of the canaries."""

    expected: dict[str, dict[str, str]] = field(default_factory=dict)
    """The verdict that each canary got at first, by dimension and canary; all of them in short."""
    series: dict[str, SeriesWatch] = field(default_factory=dict)
    """Whether they get it again, by dimension."""
    changed: set[str] = field(default_factory=set)
    """The dimensions in which it has become another one."""


def _digest(text: str) -> str:
    """Short enough for a thousand canaries, long enough to tell them apart."""
    return blake2b(text.encode(), digest_size=_DIGEST_BYTES).hexdigest()


class CanaryWatch:
    """What the judges say of the canaries, for each evaluator."""

    def __init__(self, plan: WatchPlan) -> None:
        self._settings = plan.canary_settings()
        self._evaluators: dict[str, _Judged] = {}
        self.included = Inclusion()

    def observe(self, record: ScoreRecord) -> list[Alert]:
        """Takes the next canary's verdicts. After "the judges have changed", what they say now is what is expected."""
        if not self.included.add(record) or record.canary is None:
            return []
        judged = self._evaluators.pop(record.fingerprint, None) or _Judged()
        self._evaluators[record.fingerprint] = judged  # the last one is the latest
        if len(self._evaluators) > _MOST_EVALUATORS:
            del self._evaluators[next(iter(self._evaluators))]
        alerts = []
        for dimension, verdict in record.verdicts.items():
            said = _digest(verdict)
            expected = judged.expected.setdefault(dimension, {}).setdefault(_digest(record.canary), said)
            about = self._about(dimension, record.fingerprint)
            watch = judged.series.setdefault(dimension, SeriesWatch())
            event = watch.observe(about, agreement(said, expected), record)
            if event is not None:
                alerts.append(watch.announce(about, event))
                if event.kind is Kind.RAISED:
                    judged.expected[dimension] = {}
                    judged.changed.add(dimension)
        return alerts

    def changed(self, fingerprint: str) -> frozenset[str]:
        """The dimensions in which these judges are no longer what they were at first."""
        judged = self._evaluators.get(fingerprint)
        return frozenset() if judged is None else frozenset(judged.changed)

    def shown(self) -> dict[str, Reading]:
        """How steady the latest evaluator's verdicts are, by dimension."""
        latest = next(reversed(self._evaluators.values()), _Judged())
        return {name: watch.reading(self._settings) for name, watch in latest.series.items()}

    def as_data(self) -> dict[str, Any]:
        return {
            "included": self.included.as_data(),
            "evaluators": {
                fingerprint: {
                    "expected": judged.expected,
                    "changed": sorted(judged.changed),
                    "series": {name: watch.as_data() for name, watch in judged.series.items()},
                }
                for fingerprint, judged in self._evaluators.items()
            },
        }

    @classmethod
    def from_data(cls, plan: WatchPlan, data: dict[str, Any]) -> Self:
        found = cls(plan)
        found.included = Inclusion.from_data(data["included"])
        for fingerprint, stored in data["evaluators"].items():
            found._evaluators[fingerprint] = _Judged(
                expected=stored["expected"],
                changed=set(stored["changed"]),
                series={name: SeriesWatch.from_data(watch) for name, watch in stored["series"].items()},
            )
        return found

    def _about(self, dimension: str, fingerprint: str) -> Watched:
        return Watched(Series(app=CANARIES_APP, dimension=dimension), self._settings, fingerprint, Subject.JUDGES)
