"""Criterion parts: how much of a change of the composite comes from each criterion, by the configured weights.

A record's composite is Σ s·x, unless a rule overrides it (safety, a required criterion). x is the value of a criterion,
and s its share of the weights of the criteria with a verdict. A criterion's part is s·(x − target), and the change of
this part is its contribution. The effect of the rules is a separate part. All parts together are the composite minus
its target, so their changes add up to that of the composite.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from judges.composite import MultiCriteria
from judges.values.evaluation import Evaluation
from stream.monitor.explain.contributions import CONFIDENCE, MeanChange, mean_change
from stream.monitor.explain.sums import Pair, Period

RULES = "(rules)"
"""The name of the part that the rules for safety and required criteria add or take away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CriterionPart:
    """The contribution of a criterion to the change of the composite."""

    name: str
    weight: float
    """Its usual share of the composite."""
    contribution: MeanChange
    excess: MeanChange
    """Contribution beyond its weight."""


class PartSums:
    """Takes evaluations that have a composite."""

    def __init__(self, composition: MultiCriteria, target: float) -> None:
        self._items = {name: item for name, item in composition.items.items() if item.weight > 0.0}
        self._criteria = frozenset(composition.items)
        self._target = target
        total = sum(item.weight for item in self._items.values())
        self._usual = {name: item.weight / total for name, item in self._items.items()} | {RULES: 0.0}
        self._own = {name: Pair() for name in self._usual}
        self._beyond = {name: Pair() for name in self._usual}
        self.strangers = 0
        """Number of evaluations with other criteria than the configuration."""

    def add(self, evaluation: Evaluation, composite: float, period: Period, weight: float) -> None:
        parts = self._parts(evaluation, composite)
        if parts is None:
            self.strangers += 1
            return
        for name, part in parts.items():
            self._own[name].add(period, part, weight)
            self._beyond[name].add(period, part - self._usual[name] * composite, weight)

    def result(self) -> tuple[CriterionPart, ...]:
        """Return the parts, most harmful first; empty without a comparison or with evaluations by other criteria."""
        if self.strangers:
            return ()
        confidence = 1.0 - (1.0 - CONFIDENCE) / len(self._usual)
        parts = []
        for name, usual in self._usual.items():
            scale = usual or 1.0
            contribution = mean_change(self._own[name], scale=scale)
            excess = mean_change(self._beyond[name], scale=scale, confidence=confidence)
            if contribution is not None and excess is not None and (usual or self._is_used(name)):
                parts.append(CriterionPart(name=name, weight=usual, contribution=contribution, excess=excess))
        return tuple(sorted(parts, key=lambda part: part.contribution.value))

    def _is_used(self, name: str) -> bool:
        return any(sums.squares_xx > 0.0 for sums in (self._own[name].before, self._own[name].since))

    def _parts(self, evaluation: Evaluation, composite: float) -> Mapping[str, float] | None:
        # Criteria without weight, such as those of the contexts, change no composite: an earlier version lacks them.
        if not self._items.keys() <= set(evaluation.evaluator.criteria) <= self._criteria:
            return None
        counts = {name: item.part(evaluation.dimensions.get(name)) for name, item in self._items.items()}
        total = sum(self._items[name].weight for name, count in counts.items() if count is not None)
        if total <= 0.0:
            return None
        parts = {
            name: 0.0 if count is None else self._items[name].weight / total * (count - self._target)
            for name, count in counts.items()
        }
        rules = composite - self._target - sum(parts.values())
        # A remainder from rounding is not a rule.
        return {**parts, RULES: 0.0 if abs(rules) < 1e-6 else rules}
