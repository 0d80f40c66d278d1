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
    """A way to make fewer calls."""

    SAMPLES = "samples"
    """Judges that take several samples take one."""

    RESERVES = "reserves"
    """No reserve judge replaces a failing one."""

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
    """The savings that apply to one record."""

    savings: Savings = NO_SAVINGS
    keep_share: float = 1.0
    """The probability with which a record is kept; the recorded probability of inclusion is multiplied by it."""


NO_PLAN = SavingPlan()


def plan_savings(share_left: float, measures: Sequence[SavingMeasure]) -> SavingPlan:
    """Choose savings by the share of the budget that is left."""
    taken = {measure.step: measure.below for measure in measures if share_left < measure.below}
    savings = Savings(
        samples=SavingStep.SAMPLES in taken, reserves=SavingStep.RESERVES in taken, cascade=SavingStep.CASCADE in taken
    )
    keep = _keep_share(share_left / taken[SavingStep.SAMPLING]) if SavingStep.SAMPLING in taken else 1.0
    return SavingPlan(savings=savings, keep_share=keep)


def _keep_share(part: float) -> float:
    """Return the next lower power of two, so that the probability does not change with every record."""
    return max(MIN_KEEP, 2.0 ** (math.ceil(math.log2(part)) - 1)) if part > MIN_KEEP else MIN_KEEP


class Thinning:
    """Chooses the records to keep, by id and salt alone: replays decide alike, and a larger share keeps a superset.

    The draw is independent of the sampler's; otherwise all records that the sampler chose would be kept.
    """

    def __init__(self, salt: str) -> None:
        self._cohort = Cohort(f"{salt}/budget")

    def keeps(self, record_id: str | bytes, share: float) -> bool:
        return share >= 1.0 or self._cohort.draw(record_id) < share


def thin(sampling: Sampling, share: float) -> Sampling:
    """Return the sampling of a record that was kept with this probability after it was chosen."""
    if share >= 1.0:
        return sampling
    return sampling.model_copy(update={"probability": max(MIN_PROBABILITY, sampling.probability * share)})
