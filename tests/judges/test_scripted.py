"""The scripted judge: returns scripted verdicts in the form of a real judge."""

import time
from typing import Any

import pytest

from judges.criteria.catalogue import load_catalogue
from judges.criteria.criterion import Criterion
from judges.scripted import Answer, Asked, ScriptedJudge
from judges.values.evaluation import JudgeVerdict, Reason, Samples, Status
from judges.values.interaction import Case

CLARITY = load_catalogue("rag")["clarity"]
FIELDS = {"question": "q", "answer": "a"}


def criterion(scale: dict[str, Any], name: str = "made_up", **more: Any) -> Criterion:
    return Criterion.model_validate(
        {"name": name, "title": "t", "question": "?", "scale": scale, "context": [], **more}
    )


GRADE = criterion({"range": {"min": 1, "max": 5}})
TOPIC = criterion({"options": [{"label": "sport"}, {"label": "politics"}]})
WORSE = criterion({"range": {"min": 0, "max": 10}}, higher_is="worse")


def scripted_verdict(answer: Answer, on: Criterion, fields: Any = None) -> JudgeVerdict:
    [verdict] = ScriptedJudge({on.name: answer}).evaluate([fields or FIELDS], on)
    return verdict


@pytest.mark.parametrize(
    ("answer", "on", "option", "level", "value", "score"),
    [
        (3, CLARITY, "clear", 3, 3, 0.75),
        ("Clear", CLARITY, "clear", 3, 3, 0.75),
        (2.5, GRADE, None, None, 2.5, 0.375),
        (10, WORSE, None, None, 10, 0.0),
        ("sport", TOPIC, "sport", None, None, None),
        ("no", Criterion.of("Is it so?"), "No", None, 0, 0.0),
        (True, Criterion.of("Is it so?"), "Yes", None, 1, 1.0),
    ],
)
def test_an_answer_becomes_the_verdict_of_its_scale(
    answer: Answer, on: Criterion, option: str | None, level: int | None, value: float | None, score: float | None
) -> None:
    verdict = scripted_verdict(answer, on)
    assert verdict.status is Status.SCORED
    assert (verdict.option, verdict.level, verdict.value, verdict.score) == (option, level, value, score)
    assert verdict.samples == Samples(requested=1, valid=1)


def test_the_label_is_in_the_language_of_the_case_and_the_option_is_not() -> None:
    verdict = scripted_verdict(4, CLARITY, {"question": "Почему?", "answer": "Потому что."})
    assert (verdict.option, verdict.label) == ("very clear", "очень ясно")


@pytest.mark.parametrize(
    ("answer", "on"), [("brilliant", CLARITY), (7, CLARITY), (9.0, GRADE), ("3", GRADE), (1, TOPIC)]
)
def test_an_answer_off_the_scale_is_invalid_as_a_models_would_be(answer: Answer, on: Criterion) -> None:
    verdict = scripted_verdict(answer, on)
    assert (verdict.status, verdict.reason, verdict.score) == (Status.INSUFFICIENT, Reason.INVALID_OUTPUT, None)
    assert repr(answer) in (verdict.detail or "")


def test_none_means_that_the_criterion_does_not_apply() -> None:
    assert scripted_verdict(None, CLARITY).status is Status.NOT_APPLICABLE


def test_a_reason_is_the_reason_of_a_failure() -> None:
    verdict = scripted_verdict(Reason.TIMEOUT, CLARITY)
    assert (verdict.status, verdict.reason) == (Status.INSUFFICIENT, Reason.TIMEOUT)


def test_an_exception_is_raised_inside_and_becomes_a_failure() -> None:
    verdict = scripted_verdict(RuntimeError("no power"), CLARITY)
    assert (verdict.status, verdict.reason) == (Status.INSUFFICIENT, Reason.UNAVAILABLE)
    assert "RuntimeError" in (verdict.detail or "")


def test_a_whole_verdict_is_given_as_it_is() -> None:
    whole = JudgeVerdict(judge="x", status=Status.SCORED, score=0.3, level=9, samples=Samples(requested=3, valid=3))
    assert scripted_verdict(whole, CLARITY).level == 9


def test_a_criterion_without_an_answer_is_not_supported() -> None:
    judge = ScriptedJudge({"clarity": 3})
    assert judge.why_not(CLARITY) is None
    assert "no answer on 'made_up', only on clarity" in (judge.why_not(GRADE) or "")
    [verdict] = judge.evaluate(["text"], GRADE)
    assert verdict.reason is Reason.UNSUPPORTED
    assert judge.asked == []


def test_a_function_answers_by_the_case_waiting_or_not() -> None:
    async def slowly(case: Case, _criterion: Criterion) -> Answer:
        return 4 if "clear" in case.text("answer") else 0

    def quickly(case: Case, _criterion: Criterion) -> Answer:
        return 4 if "clear" in case.text("answer") else 0

    for script in (slowly, quickly):
        verdicts = ScriptedJudge(script).evaluate([FIELDS | {"answer": "clear"}, FIELDS], CLARITY)
        assert [verdict.level for verdict in verdicts] == [4, 0]


def test_it_records_its_requests() -> None:
    judge = ScriptedJudge({"clarity": 3, "made_up": 2})
    judge.evaluate([FIELDS], [CLARITY, GRADE])
    assert judge.asked == [Asked("#0", "clarity", False), Asked("#0", "made_up", False)]


def test_it_takes_the_time_it_is_given() -> None:
    started = time.perf_counter()
    ScriptedJudge({"clarity": 3}, delay_seconds=0.05).evaluate([FIELDS], CLARITY)
    assert time.perf_counter() - started >= 0.05


def test_other_scripts_are_other_identities() -> None:
    one, same, other = (ScriptedJudge({"clarity": level}) for level in (3, 3, 4))
    assert one.identity == same.identity != other.identity
    assert ScriptedJudge(lambda _case, _criterion: 1).identity != one.identity
