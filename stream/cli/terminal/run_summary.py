"""The summary of a run: records read, their outcomes and scores, in figures that add up."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from judges.values.evaluation import CompositeStatus, Evaluation, Status
from sinks.base import UNKNOWN, Sink
from sinks.metrics import Outcome, PipelineMetrics, Stage
from sinks.reports.formatting import many, percent
from sinks.text import printable
from stream.config.names import CANARY

REGIME_TAG = "regime"
# Outcomes of sampled records that a worker settles without judging them.
_NOT_JUDGED = (Outcome.DEADLETTER, Outcome.REPEATED, Outcome.SAMPLED_OUT)


@dataclass(slots=True)
class _Group:
    scored: int = 0
    unscored: int = 0
    unsafe: int = 0
    weighted: float = 0.0
    weight: float = 0.0

    def add(self, evaluation: Evaluation) -> None:
        score = evaluation.composite.score
        self.unsafe += evaluation.composite.status is CompositeStatus.UNSAFE
        if score is None:
            self.unscored += 1
            return
        weight = 1.0 / evaluation.sampling.probability
        self.scored += 1
        self.weighted += weight * score
        self.weight += weight

    @property
    def mean(self) -> float | None:
        return round(self.weighted / self.weight, 4) if self.weight else None

    def figures(self) -> dict[str, object]:
        return {
            "scored": self.scored,
            "unscored": self.unscored,
            "unsafe": self.unsafe,
            "composite_mean": self.mean,
        }


@dataclass(slots=True)
class _Verdicts:
    """Verdicts given and missing on one criterion, weighted by the sampling."""

    given: float = 0.0
    missing: float = 0.0

    def add(self, status: Status, weight: float) -> None:
        self.given += weight if status is Status.SCORED else 0.0
        self.missing += weight if status is Status.INSUFFICIENT else 0.0

    @property
    def coverage(self) -> float | None:
        """Share of verdicts that were given; None if the criterion applied to no record."""
        due = self.given + self.missing
        return round(self.given / due, 4) if due else None


class RunSummary(Sink):
    """A sink that sums evaluations by app, and by the regime that generated traffic is tagged with.

    The worker passes it the evaluations that were committed. The monitor receives them later, or not at all if the run
    ends before, and also receives evaluations of other processes.
    """

    name = "summary"

    def __init__(self) -> None:
        self._all = _Group()
        self._by_app: dict[str, _Group] = defaultdict(_Group)
        self._by_regime: dict[str, _Group] = defaultdict(_Group)
        self._verdicts: dict[str, _Verdicts] = defaultdict(_Verdicts)

    def write(self, evaluations: Sequence[Evaluation], /) -> None:
        for evaluation in evaluations:
            self._add(evaluation)

    def _add(self, item: Evaluation) -> None:
        if item.sampling.lane == CANARY:  # not real traffic
            return
        self._all.add(item)
        self._by_app[item.app or UNKNOWN].add(item)
        regime = item.tags.get(REGIME_TAG)
        if regime is not None:
            self._by_regime[str(regime)].add(item)
        for name, dimension in item.dimensions.items():
            self._verdicts[name].add(dimension.status, 1.0 / item.sampling.probability)

    def left(self, metrics: PipelineMetrics) -> int:
        """Return the number of records sampled but not judged here: waiting on a topic, or with another worker."""
        settled = sum(metrics.read_count(Stage.WORKER, outcome) for outcome in _NOT_JUDGED)
        judged = self._all.scored + self._all.unscored
        return max(0, metrics.read_count(Stage.SAMPLER, Outcome.SAMPLED) - judged - settled)

    @property
    def coverage(self) -> dict[str, float | None]:
        """The share of verdicts that were given, by criterion; None if it applied to no record."""
        return {name: verdicts.coverage for name, verdicts in self._verdicts.items()}

    def figures(self, metrics: PipelineMetrics) -> dict[str, object]:
        """Return one JSON object; all figures were read_count at commit."""
        dead = {stage.value: metrics.read_count(stage, Outcome.DEADLETTER) for stage in (Stage.SAMPLER, Stage.WORKER)}
        sampler = (Outcome.CONSUMED, Outcome.FILTERED, Outcome.SAMPLED_OUT, Outcome.SHED, Outcome.SAMPLED)
        return {
            **{outcome.value: metrics.read_count(Stage.SAMPLER, outcome) for outcome in sampler},
            "scored": self._all.scored,
            "unscored": self._all.unscored,
            "duplicates": metrics.read_count(Stage.WORKER, Outcome.REPEATED),
            "skipped": metrics.read_count(Stage.WORKER, Outcome.SAMPLED_OUT),
            "left": self.left(metrics),
            "deadletter": sum(dead.values()),
            "deadletter_by_stage": dead,
            "composite_mean": self._all.mean,
            "coverage": self.coverage,
            "by_app": {name: group.figures() for name, group in sorted(self._by_app.items())},
            "by_regime": {name: group.figures() for name, group in sorted(self._by_regime.items())},
        }


def summary_text(figures: Mapping[str, Any], coverage: Mapping[str, float | None]) -> str:
    """Return the figures in words, as two sums, with a warning for each criterion without any verdict."""
    dead = figures["deadletter_by_stage"]
    consumed = _sum(figures, ("filtered", "sampled_out", "shed", "sampled"), dead[Stage.SAMPLER])
    sampled = _sum(figures, ("scored", "unscored", "duplicates", "skipped"), dead[Stage.WORKER], figures["left"])
    mean = "–" if figures["composite_mean"] is None else figures["composite_mean"]
    sums = [f"{figures['consumed']} consumed: {consumed}", f"{figures['sampled']} sampled: {sampled}"]
    shares = ", ".join(f"{printable(name)} {percent(share)}" for name, share in coverage.items())
    warnings = [
        f"warning: {printable(name)} has no verdicts: it does not count in the composites"
        for name, share in coverage.items()
        if share == 0.0
    ]
    return "\n".join([*sums, f"mean composite {mean}", *([f"coverage: {shares}"] if shares else []), *warnings])


def _sum(figures: Mapping[str, Any], names: Sequence[str], dead_letters: int, left: int = 0) -> str:
    """List the parts of a sum; those that are rare are named only if they occur."""
    rare = {"shed", "duplicates", "skipped"}
    parts = [f"{figures[name]} {name.replace('_', ' ')}" for name in names if figures[name] or name not in rare]
    if dead_letters:
        parts.append(many(dead_letters, "dead letter"))
    if left:
        parts.append(f"{left} not judged before the end")
    return ", ".join(parts)
