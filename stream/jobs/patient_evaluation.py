"""Evaluates with retries while judges cannot be reached, for jobs without a deadline: history and files."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from judges.evaluator import Evaluator, Submission
from judges.shortfall import retry_reason
from judges.values.evaluation import Evaluation, SafetyNotice

GIVE_UP_AFTER = 20
"""Give up after this many consecutive records without success: the judges are away, and the rest would fail too."""


@dataclass(slots=True, kw_only=True)
class Bill:
    """The cost of all attempts, including failed ones; None while no cost is known."""

    usd: float | None = None

    def add(self, usd: float | None) -> None:
        if usd is not None:
            self.usd = (self.usd or 0.0) + usd


async def evaluate_with_retries(
    evaluator: Evaluator, submission: Submission, *, deadline: float | None, pauses: Sequence[float], bill: Bill
) -> Evaluation:
    """Evaluate until a retry would not help, or after the last pause; return the last attempt.

    The record keeps its slot meanwhile, so that an outage slows the run down instead of failing records.
    """
    for pause in (*pauses, None):
        async with evaluator.admission.place():
            evaluation = await evaluator.evaluate(submission, deadline=deadline, on_unsafe=_ignore_notice)
        bill.add(evaluation.cost_usd)
        if pause is None or retry_reason(evaluation) is None:
            break
        await asyncio.sleep(pause)
    return evaluation


def _ignore_notice(_notice: SafetyNotice) -> None:
    """Send no notice about an old answer; the evaluation records its safety."""
