"""Attempts at one record while its judges cannot be reached: how many, what they cost, and when they are no use."""

import asyncio
from collections.abc import Iterable

import pytest

from judges.composite import Item, MultiCriteria
from judges.criteria.catalogue import load_catalogue
from judges.criteria.criterion import SAFETY_DIMENSION, Criterion
from judges.evaluator import Evaluator, Submission
from judges.judge import unscored_verdict
from judges.panel import Panel
from judges.scripted import Answer, ScriptedJudge
from judges.values.evaluation import CompositeStatus, Evaluation, JudgeVerdict, Reason, Samples, Sampling, Status
from judges.values.interaction import Case, Interaction
from stream.jobs.patient_evaluation import Bill, evaluate_with_retries

SAFETY = load_catalogue("rag")[SAFETY_DIMENSION]
SUBMISSION = Submission(interaction=Interaction(id="a", question="Is it open?", answer="It is."), sampling=Sampling())
SAFE = JudgeVerdict(
    judge="scripted", status=Status.SCORED, score=1.0, level=2, samples=Samples(requested=1, valid=1), cost_usd=0.25
)
HARMFUL = SAFE.model_copy(update={"score": 0.0, "level": 0})


def away(cost_usd: float | None = None) -> JudgeVerdict:
    verdict = unscored_verdict("scripted", Reason.UNAVAILABLE, "away", samples=Samples(requested=1, error=1))
    return verdict.model_copy(update={"cost_usd": cost_usd})


class Attempts:
    """One answer for each attempt, in turn."""

    def __init__(self, answers: Iterable[Answer]) -> None:
        self._answers = iter(answers)
        self.made = 0

    def __call__(self, _case: Case, _criterion: Criterion) -> Answer:
        self.made += 1
        return next(self._answers)


def evaluated(attempts: Attempts, *, pauses: int, bill: Bill | None = None) -> Evaluation:
    multi = MultiCriteria([Item(criterion=SAFETY, weight=1.0)], safety=SAFETY_DIMENSION)
    evaluator = Evaluator(multi, Panel(judges=[ScriptedJudge(attempts)]), version="test")
    work = evaluate_with_retries(evaluator, SUBMISSION, deadline=5.0, pauses=(0.0,) * pauses, bill=bill or Bill())
    return asyncio.run(work)


def test_a_short_outage_is_waited_for_and_all_attempts_are_paid() -> None:
    attempts, bill = Attempts([away(0.5), away(), SAFE]), Bill()
    found = evaluated(attempts, pauses=3, bill=bill)
    assert (attempts.made, found.composite.status) == (3, CompositeStatus.OK)
    assert (found.cost_usd, bill.usd) == (0.25, 0.75)


def test_after_the_last_pause_there_is_one_more_attempt_and_no_other() -> None:
    attempts = Attempts([away()] * 9)
    assert evaluated(attempts, pauses=2).composite.status is CompositeStatus.SAFETY_UNKNOWN
    assert attempts.made == 3


def test_without_pauses_there_is_one_attempt() -> None:
    attempts = Attempts([away()] * 9)
    evaluated(attempts, pauses=0)
    assert attempts.made == 1


@pytest.mark.parametrize("answer", [SAFE, HARMFUL, Reason.INVALID_OUTPUT])
def test_what_another_attempt_would_not_mend_is_not_tried_again(answer: Answer) -> None:
    attempts = Attempts([answer] * 9)
    evaluated(attempts, pauses=3)
    assert attempts.made == 1


@pytest.mark.parametrize("safety", [SAFE, HARMFUL])
@pytest.mark.parametrize(("reason", "made"), [(Reason.UNAVAILABLE, 3), (Reason.TIMEOUT, 3), (Reason.INVALID_OUTPUT, 1)])
def test_one_dimension_whose_judge_is_away_is_tried_again_like_all(
    safety: JudgeVerdict, reason: Reason, made: int
) -> None:
    asked = 0

    def answer(_case: Case, criterion: Criterion) -> Answer:
        nonlocal asked
        asked += criterion.name == "clarity"
        return safety if criterion.name == SAFETY_DIMENSION else reason

    multi = MultiCriteria([SAFETY, load_catalogue("rag")["clarity"]], safety=SAFETY_DIMENSION)
    evaluator = Evaluator(multi, Panel(judges=[ScriptedJudge(answer)]), version="test")
    found = asyncio.run(evaluate_with_retries(evaluator, SUBMISSION, deadline=5.0, pauses=(0.0, 0.0), bill=Bill()))
    assert asked == made
    expected = CompositeStatus.INCOMPLETE if safety is SAFE else CompositeStatus.UNSAFE
    assert (found.composite.status, found.composite.coverage) == (expected, 0.0)


def test_a_pause_is_as_long_as_it_is_told() -> None:
    async def timed() -> float:
        multi = MultiCriteria([Item(criterion=SAFETY, weight=1.0)], safety=SAFETY_DIMENSION)
        evaluator = Evaluator(multi, Panel(judges=[ScriptedJudge(Attempts([away(), SAFE]))]), version="test")
        loop = asyncio.get_running_loop()
        begun = loop.time()
        await evaluate_with_retries(evaluator, SUBMISSION, deadline=5.0, pauses=(0.1, 9.0), bill=Bill())
        return loop.time() - begun

    assert 0.1 <= asyncio.run(timed()) < 5.0


def test_nothing_known_of_costs_is_not_a_cost_of_nothing() -> None:
    bill = Bill()
    bill.add(None)
    assert bill.usd is None
    bill.add(0.0)
    bill.add(None)
    assert bill.usd == 0.0
