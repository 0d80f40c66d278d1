"""Evaluates with retries while judges cannot be reached, for work that has the time: history and files."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from judges.evaluator import Evaluator, Submission
from judges.shortfall import retry_reason
from judges.values.evaluation import Evaluation, SafetyNotice

GIVE_UP_AFTER = 20
"""So many in a row that all attempts were in vain for: the judges are away, and the rest would fare no better."""


@dataclass(slots=True, kw_only=True)
class Bill:
    """What all attempts cost, also those before one that failed; None while no cost is known."""

    usd: float | None = None

    def add(self, usd: float | None) -> None:
        if usd is not None:
            self.usd = (self.usd or 0.0) + usd


async def evaluate_with_retries(
    evaluator: Evaluator, submission: Submission, *, deadline: float | None, pauses: Sequence[float], bill: Bill
) -> Evaluation:
    """The first attempt that another one would not mend, or the last; one more than there are pauses at most.

    What is judged keeps its place meanwhile, so that an outage slows all down instead of wasting them.
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
    """Nobody is to be called for what was said long ago; the evaluation tells of it."""
