"""Savings: which calls are left out as the money runs low, in a configured order; the safety lane is exempt."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from judges.runtime.conditions import NO_SAVINGS, Savings
from judges.values.evaluation import MIN_PROBABILITY, Sampling
from stream.config.sections.budgets import MIN_KEEP, BudgetsConfig
from stream.records.decision import Cohort


class SavingStep(StrEnum):
    """What can be left out."""

    SAMPLES = "samples"
    """Judges that take several samples take one."""

    RESERVES = "reserves"
    """A judge that fails is not replaced."""

    CASCADE = "cascade"
    """The cheapest judges are asked first, and the whole panel only where they are in doubt."""

    SAMPLING = "sampling"
    """Fewer records are judged: at half the threshold a half of them, at a quarter a quarter, and so on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavingMeasure:
    """A step, and the share of the budget below which it is taken."""

    step: SavingStep
    below: float


def measures_of(config: BudgetsConfig) -> tuple[SavingMeasure, ...]:
    """The configured measures, in their order."""
    return tuple(SavingMeasure(step=SavingStep(measure.step), below=measure.below) for measure in config.degrade)


@dataclass(frozen=True, slots=True, kw_only=True)
class SavingPlan:
    """What to leave out for one record."""

    savings: Savings = NO_SAVINGS
    keep_share: float = 1.0
    """The probability with which a record is kept; the recorded probability of inclusion is multiplied by it."""


NO_PLAN = SavingPlan()


def plan_savings(left: float, measures: Sequence[SavingMeasure]) -> SavingPlan:
    """What the share that is left allows."""
    taken = {measure.step: measure.below for measure in measures if left < measure.below}
    savings = Savings(
        samples=SavingStep.SAMPLES in taken, reserves=SavingStep.RESERVES in taken, cascade=SavingStep.CASCADE in taken
    )
    keep = _keep_share(left / taken[SavingStep.SAMPLING]) if SavingStep.SAMPLING in taken else 1.0
    return SavingPlan(savings=savings, keep_share=keep)


def _keep_share(part: float) -> float:
    """The power of two next below, so that the probability does not change with every record."""
    return max(MIN_KEEP, 2.0 ** (math.ceil(math.log2(part)) - 1)) if part > MIN_KEEP else MIN_KEEP


class Thinning:
    """Who is kept: by the id and the salt alone, so replays decide alike, and a larger share keeps all of a smaller.

    The draw has nothing to do with the sampler's, or those that the sampler chose would all be kept.
    """

    def __init__(self, salt: str) -> None:
        self._cohort = Cohort(f"{salt}/budget")

    def keeps(self, record_id: str | bytes, share: float) -> bool:
        return share >= 1.0 or self._cohort.draw(record_id) < share


def thinned(sampling: Sampling, share: float) -> Sampling:
    """How a record was chosen that was kept with this probability after it was."""
    if share >= 1.0:
        return sampling
    return sampling.model_copy(update={"probability": max(MIN_PROBABILITY, sampling.probability * share)})
