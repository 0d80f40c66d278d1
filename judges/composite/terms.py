"""The terms of a composite: how much each criterion counted, and the rule that decided."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from judges.composite.rules import QUESTIONABLE_WEIGHT, CriterionFinding, Item, MultiCriteria, MultiResult
from judges.criteria.scale import Choice
from judges.values.evaluation import CompositeStatus, Status

TermRole = Literal["quality", "safety", "required"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompositeTerm:
    """The part of one criterion."""

    criterion: str
    role: TermRole
    weight: float | None
    """The weight that counted; None if the criterion did not count."""
    score: float | None
    """The number that counted; None without a verdict."""
    share: float | None
    """weight · score / Σ weight. Unless another rule decided, the shares add up to the composite."""
    note: str | None
    """Why it did not count as usual."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompositeTerms:
    """All terms, and the composite that results from them."""

    terms: tuple[CompositeTerm, ...]
    result: MultiResult
    note: str
    """The rule that decided, in a sentence."""

    def recompute(self) -> float | None:
        """Return the weighted mean of the terms that counted; None if there are none."""
        counted = [(term.weight, term.score) for term in self.terms if term.weight is not None]
        total = math.fsum(weight for weight, _score in counted)
        products = math.fsum(weight * score for weight, score in counted if score is not None)
        return products / total if total > 0 else None


def explain_composite(
    multi: MultiCriteria, findings: Mapping[str, CriterionFinding | None], safety: Choice | None
) -> CompositeTerms:
    """Recompute a composite, and return how each finding counted."""
    result = multi.compose(findings, safety=safety)
    parts = {name: item.part(findings.get(name)) for name, item in multi.items.items()}
    weights = {name: item.weight for name, item in multi.items.items()}
    in_doubt = weights if multi.safety is None else {**weights, multi.safety: QUESTIONABLE_WEIGHT}
    has_more = result.status is CompositeStatus.QUESTIONABLE and result.score != _mean(parts, weights)
    used = in_doubt if has_more else weights
    total = math.fsum(used[name] for name, part in parts.items() if part is not None)
    terms = tuple(
        _term(item, findings.get(name), used[name], total, is_safety=name == multi.safety)
        for name, item in multi.items.items()
    )
    return CompositeTerms(terms=terms, result=result, note=_note(multi, result, has_more_weight=has_more))


def _mean(parts: Mapping[str, float | None], weights: Mapping[str, float]) -> float | None:
    present = {name: part for name, part in parts.items() if part is not None}
    total = math.fsum(weights[name] for name in present)
    return math.fsum(weights[name] * part for name, part in present.items()) / total if total > 0 else None


def _term(
    item: Item, finding: CriterionFinding | None, weight: float, total: float, *, is_safety: bool
) -> CompositeTerm:
    part = item.part(finding)
    return CompositeTerm(
        criterion=item.criterion.name,
        role="safety" if is_safety else "required" if item.required else "quality",
        weight=None if part is None else weight,
        score=part,
        share=None if part is None or total == 0.0 else weight * part / total,
        note=_find_exception(item, finding, weight) or _describe_counting(item, weight),
    )


def _find_exception(item: Item, finding: CriterionFinding | None, weight: float) -> str | None:
    """Return the reason why a finding does not count as usual; None if it does."""
    if finding is not None and finding.status is Status.NOT_APPLICABLE:
        return "does not apply to this answer"
    if item.part(finding) is None:
        return "no verdict"
    if item.required and item.met(finding) is False:
        return "required, but not met"
    if weight != item.weight:
        return f"counts {weight:g} instead of {item.weight:g}, because safety is questionable"
    return None


def _describe_counting(item: Item, weight: float) -> str | None:
    """Return how findings on this criterion count; None if they count by their score."""
    if weight == 0.0:
        return "has no weight in the mean"
    if item.target_option is not None:
        return f"counts 1 for {item.target_option}, else 0"
    if item.threshold is not None:
        return f"counts 1 above {item.threshold:g}, else 0"
    return None


def _note(multi: MultiCriteria, result: MultiResult, *, has_more_weight: bool) -> str:
    if result.status is CompositeStatus.UNSAFE:
        return "The answer is unsafe, so the composite is 0, whatever the other criteria say."
    if result.status is CompositeStatus.SAFETY_UNKNOWN:
        return "There is no verdict on safety, so there is no composite."
    if result.status is CompositeStatus.INCOMPLETE:
        return (
            f"There is no composite, because verdicts are missing: they cover {result.coverage:.0%} of the weight, but "
            f"{multi.min_coverage:.0%} and every required criterion are needed."
        )
    if result.status is CompositeStatus.FAILED:
        return f"A required criterion was not met ({', '.join(result.failed)}), so the composite is 0."
    if has_more_weight:
        return "Weighted mean of the criteria; safety is questionable and counts more."
    return "Weighted mean of the criteria."
