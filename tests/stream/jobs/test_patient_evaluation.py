"""Retries of one record while its judges cannot be reached: their number, their cost and when to stop."""

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


def unavailable_verdict(cost_usd: float | None = None) -> JudgeVerdict:
    verdict = unscored_verdict("scripted", Reason.UNAVAILABLE, "away", samples=Samples(requested=1, error=1))
    return verdict.model_copy(update={"cost_usd": cost_usd})


class Attempts:
    """Gives one answer per attempt, in turn."""

    def __init__(self, answers: Iterable[Answer]) -> None:
        self._answers = iter(answers)
        self.count = 0

    def __call__(self, _case: Case, _criterion: Criterion) -> Answer:
        self.count += 1
        return next(self._answers)


def evaluate(attempts: Attempts, *, pauses: int, bill: Bill | None = None) -> Evaluation:
    multi = MultiCriteria([Item(criterion=SAFETY, weight=1.0)], safety=SAFETY_DIMENSION)
    evaluator = Evaluator(multi, Panel(judges=[ScriptedJudge(attempts)]), version="test")
    work = evaluate_with_retries(evaluator, SUBMISSION, deadline=600.0, pauses=(0.0,) * pauses, bill=bill or Bill())
    return asyncio.run(work)


def test_a_short_outage_is_waited_out_and_the_cost_includes_all_attempts() -> None:
    attempts, bill = Attempts([unavailable_verdict(0.5), unavailable_verdict(), SAFE]), Bill()
    evaluation = evaluate(attempts, pauses=3, bill=bill)
    assert (attempts.count, evaluation.composite.status) == (3, CompositeStatus.OK)
    assert (evaluation.cost_usd, bill.usd) == (0.25, 0.75)


def test_there_is_exactly_one_attempt_after_the_last_pause() -> None:
    attempts = Attempts([unavailable_verdict()] * 9)
    assert evaluate(attempts, pauses=2).composite.status is CompositeStatus.SAFETY_UNKNOWN
    assert attempts.count == 3


def test_without_pauses_there_is_one_attempt() -> None:
    attempts = Attempts([unavailable_verdict()] * 9)
    evaluate(attempts, pauses=0)
    assert attempts.count == 1


@pytest.mark.parametrize("answer", [SAFE, HARMFUL, Reason.INVALID_OUTPUT])
def test_a_record_is_not_retried_if_that_cannot_help(answer: Answer) -> None:
    attempts = Attempts([answer] * 9)
    evaluate(attempts, pauses=3)
    assert attempts.count == 1


@pytest.mark.parametrize("safety", [SAFE, HARMFUL])
@pytest.mark.parametrize(
    ("reason", "attempts"), [(Reason.UNAVAILABLE, 3), (Reason.TIMEOUT, 3), (Reason.INVALID_OUTPUT, 1)]
)
def test_a_record_is_retried_if_one_judge_is_unavailable(safety: JudgeVerdict, reason: Reason, attempts: int) -> None:
    calls = 0

    def answer(_case: Case, criterion: Criterion) -> Answer:
        nonlocal calls
        calls += criterion.name == "clarity"
        return safety if criterion.name == SAFETY_DIMENSION else reason

    multi = MultiCriteria([SAFETY, load_catalogue("rag")["clarity"]], safety=SAFETY_DIMENSION)
    evaluator = Evaluator(multi, Panel(judges=[ScriptedJudge(answer)]), version="test")
    evaluation = asyncio.run(
        evaluate_with_retries(evaluator, SUBMISSION, deadline=600.0, pauses=(0.0, 0.0), bill=Bill())
    )
    assert calls == attempts
    expected = CompositeStatus.INCOMPLETE if safety is SAFE else CompositeStatus.UNSAFE
    assert (evaluation.composite.status, evaluation.composite.coverage) == (expected, 0.0)


def test_a_pause_lasts_as_long_as_configured() -> None:
    async def measure_seconds() -> float:
        multi = MultiCriteria([Item(criterion=SAFETY, weight=1.0)], safety=SAFETY_DIMENSION)
        evaluator = Evaluator(
            multi, Panel(judges=[ScriptedJudge(Attempts([unavailable_verdict(), SAFE]))]), version="test"
        )
        loop = asyncio.get_running_loop()
        start = loop.time()
        await evaluate_with_retries(evaluator, SUBMISSION, deadline=600.0, pauses=(0.1, 3600.0), bill=Bill())
        return loop.time() - start

    assert 0.1 <= asyncio.run(measure_seconds()) < 600.0


def test_an_unknown_cost_is_not_zero() -> None:
    bill = Bill()
    bill.add(None)
    assert bill.usd is None
    bill.add(0.0)
    bill.add(None)
    assert bill.usd == 0.0
