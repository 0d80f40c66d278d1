"""How well each judge of an app agrees with people, on the labelled answers of the latest days."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sinks.statistics.judge_quality import JudgeCriterion, JudgeQuality, judge_quality
from stream.monitor.alerts.labels.judged_days import day_of
from stream.monitor.alerts.labels.memory import ScoredAnswer


class _LabelledVerdict(NamedTuple):
    day: int
    score: float
    label: float


@dataclass(slots=True)
class JudgePairs:
    """The scores of the judges of an app, each with the label of its answer."""

    _pairs: dict[JudgeCriterion, list[_LabelledVerdict]] = field(default_factory=lambda: defaultdict(list))
    _measured: tuple[int, dict[JudgeCriterion, JudgeQuality]] | None = None
    """The last result, with the first day that it covers."""

    def add(self, answer: ScoredAnswer, criterion: str, label: float) -> None:
        for judge, score in answer.judges.get(criterion, {}).items():
            self._pairs[JudgeCriterion(judge, criterion)].append(_LabelledVerdict(day_of(answer.at), score, label))

    def measure(self, *, now: float, window: int) -> Mapping[JudgeCriterion, JudgeQuality]:
        """Measure every judge on the answers of the latest `window` days, as `streamjury labels judges` does.

        All labels of reviewers count, whether the answer was chosen at random or not.
        """
        since = day_of(now) - window + 1
        if self._measured is None or self._measured[0] != since:
            recent = {key: _recent(pairs, since) for key, pairs in sorted(self._pairs.items())}
            self._measured = since, {key: judge_quality(pairs) for key, pairs in recent.items() if pairs}
        return self._measured[1]


def _recent(pairs: Sequence[_LabelledVerdict], since: int) -> list[tuple[float, float]]:
    return [(pair.score, pair.label) for pair in pairs if pair.day >= since]
