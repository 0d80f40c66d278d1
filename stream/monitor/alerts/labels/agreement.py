"""How well each judge of an app agrees with people, on the labelled answers of the latest days."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from sinks.statistics.judge_quality import JudgeCriterion, JudgeQuality, JudgeSlice, judge_quality
from stream.monitor.alerts.labels.judged_days import day_of
from stream.monitor.alerts.labels.memory import ScoredAnswer

MIN_SLICE_LABELS = 30
"""A family or language with fewer labels is not shown: its figures would be noise, and each has series."""


class _LabelledVerdict(NamedTuple):
    answer: ScoredAnswer
    score: float
    label: float


@dataclass(slots=True)
class JudgePairs:
    """The scores of the judges of an app, each with the label of its answer."""

    _pairs: dict[JudgeCriterion, list[_LabelledVerdict]] = field(default_factory=lambda: defaultdict(list))
    _measured: tuple[int, dict[JudgeCriterion, JudgeQuality]] | None = None
    """The last result, with the first day that it covers."""
    _sliced: tuple[int, dict[JudgeSlice, JudgeQuality]] | None = None
    """The same for slices."""

    def add(self, answer: ScoredAnswer, criterion: str, label: float) -> None:
        for judge, score in answer.judges.get(criterion, {}).items():
            self._pairs[JudgeCriterion(judge, criterion)].append(_LabelledVerdict(answer, score, label))

    def measure(self, *, now: float, window: int) -> Mapping[JudgeCriterion, JudgeQuality]:
        """Measure every judge on the answers of the latest `window` days, as `streamjury labels judges` does.

        All labels of reviewers count, whether the answer was chosen at random or not.
        """
        since = day_of(now) - window + 1
        if self._measured is None or self._measured[0] != since:
            recent = {key: _pairs_of(_recent(verdicts, since)) for key, verdicts in sorted(self._pairs.items())}
            self._measured = since, {key: judge_quality(pairs) for key, pairs in recent.items() if pairs}
        return self._measured[1]

    def measure_slices(
        self, *, now: float, window: int, least: int = MIN_SLICE_LABELS
    ) -> Mapping[JudgeSlice, JudgeQuality]:
        """Measure every judge on each model family and each language, as `streamjury labels judges --by` does.

        Slices with fewer than `least` labels are left out, and so are answers whose attributes were not recorded.
        """
        since = day_of(now) - window + 1
        if self._sliced is None or self._sliced[0] != since:
            slices: dict[JudgeSlice, list[_LabelledVerdict]] = defaultdict(list)
            for key, verdicts in self._pairs.items():
                for verdict in _recent(verdicts, since):
                    for attribute, value in _attributes(verdict.answer):
                        slices[JudgeSlice(*key, attribute, value)].append(verdict)
            self._sliced = since, {key: judge_quality(_pairs_of(found)) for key, found in sorted(slices.items())}
        return {key: quality for key, quality in self._sliced[1].items() if quality.labels >= least}


def _recent(verdicts: Iterable[_LabelledVerdict], since: int) -> list[_LabelledVerdict]:
    return [verdict for verdict in verdicts if day_of(verdict.answer.at) >= since]


def _pairs_of(verdicts: Iterable[_LabelledVerdict]) -> list[tuple[float, float]]:
    return [(verdict.score, verdict.label) for verdict in verdicts]


def _attributes(answer: ScoredAnswer) -> Iterator[tuple[str, str]]:
    if answer.family is not None:
        yield "family", answer.family
    if answer.language is not None:
        yield "language", answer.language
