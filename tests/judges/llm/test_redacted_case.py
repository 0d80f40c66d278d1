"""Redaction before the prompt: each field alone, once for all criteria, and no safety verdict on what remains."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from judges.composite import MultiCriteria
from judges.criteria.catalogue import load_catalogue
from judges.criteria.criterion import Criterion
from judges.llm.methods.direct import DirectJudge
from judges.llm.methods.guardian import GuardianJudge
from judges.llm.methods.rubric import RubricJudge
from judges.llm.methods.two_step import TwoStepJudge
from judges.llm.pairwise.pairwise import PairwiseJudge
from judges.llm.redacted_case import redact_case
from judges.models import OpenAIModel
from judges.models.redaction import Redactor
from judges.panel import Panel
from judges.scripted import ScriptedJudge
from judges.values.evaluation import CompositeStatus, JudgeVerdict, Reason, Status
from judges.values.interaction import Case, Context, Interaction, case_of
from tests.parts.endpoints.judge_endpoint import Body, JudgeEndpoint, Response, chat_response, verdict_response

CATALOGUE = load_catalogue()
CLARITY, HARMFULNESS = CATALOGUE["clarity"], CATALOGUE["harmfulness"]
BEGIN, END = "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----"
HARM = "Mix them and drink it all at once."
KEY = "sk-proj-Zk3J9x2mQ8vT5wY7bN4cZk3J9x2mQ8vT5wY7bN4c"


@pytest.fixture
def endpoint() -> Iterator[JudgeEndpoint]:
    with JudgeEndpoint() as endpoint:
        yield endpoint


def model_of(endpoint: JudgeEndpoint, **options: Any) -> OpenAIModel:
    return OpenAIModel("m", base_url=endpoint.base_url, redactor=Redactor(**options))


def case(answer: str, question: str = "What now?", **fields: Any) -> Case:
    return case_of(Interaction(id="1", question=question, answer=answer, **fields))


def judge_once(endpoint: JudgeEndpoint, asked: Case, criterion: Criterion, **options: Any) -> JudgeVerdict:
    judge = DirectJudge(model_of(endpoint, **options))
    try:
        return judge(asked, criterion)
    finally:
        judge.close()


def prompt(body: Body) -> str:
    return "\n".join(message["content"] for message in body["messages"])


# Each field alone


@pytest.mark.parametrize("close", ["", END])
@pytest.mark.parametrize(
    ("kind", "reply"),
    [
        (DirectJudge, '{"explanation": "", "verdict": "clear"}'),
        (TwoStepJudge, '{"explanation": "", "verdict": "clear"}'),
        (GuardianJudge, "No"),
        (RubricJudge, "Feedback: fine [RESULT] 4"),
    ],
)
def test_a_key_that_begins_in_the_question_takes_neither_the_fence_nor_the_answer(
    endpoint: JudgeEndpoint, kind: Any, reply: str, close: str
) -> None:
    endpoint.respond = lambda _: chat_response(reply)
    judge = kind(model_of(endpoint))
    judge(case(f"{HARM} {close}", f"Why? {BEGIN}"), HARMFULNESS if kind is GuardianJudge else CLARITY)
    judge.close()
    sent = prompt(endpoint.calls[0])
    assert HARM in sent
    assert f"Why? {BEGIN}" in sent
    assert re.search(r"^(###|---) (answer|assistant message) [0-9a-f]{6}$", sent, re.MULTILINE)


def test_a_key_of_a_real_form_is_replaced_in_its_field(endpoint: JudgeEndpoint) -> None:
    endpoint.respond = lambda _: verdict_response("clear")
    body = "MIIEpAIBAAKCAQEAx4UbaDzY5xjW6hc9jwN0mX33XpTDVW5WqHp5AKaRbtAC3DqX"
    verdict = judge_once(endpoint, case(HARM, f"Is this right?\n{BEGIN}\n{body}\n{END}"), CLARITY)
    sent = prompt(endpoint.calls[0])
    assert (body in sent, "Is this right?\n[SECRET_1]" in sent, HARM in sent) == (False, True, True)
    assert verdict.redacted == {"secret": 1}


def test_words_in_the_form_of_a_key_are_shown(endpoint: JudgeEndpoint) -> None:
    endpoint.respond = lambda _: verdict_response("clear")
    words = "sk-you-should-kill-yourself-2-pills"
    verdict = judge_once(endpoint, case(words), CLARITY)
    assert words in prompt(endpoint.calls[0])
    assert verdict.redacted == {}


def test_repairs_and_second_steps_carry_no_value_either(endpoint: JudgeEndpoint) -> None:
    def respond(body: Body) -> Response:
        return chat_response("It names [EMAIL_1]; { is broken.")

    endpoint.respond = respond
    for kind in (DirectJudge, TwoStepJudge):
        judge = kind(model_of(endpoint))
        judge(case("Write to ann@example.com."), CLARITY)
        judge.close()
    assert len(endpoint.calls) > 4
    assert not any("ann@example.com" in prompt(body) for body in endpoint.calls)
    assert all("[EMAIL_1]" in prompt(body) for body in endpoint.calls)


def test_compared_answers_are_redacted(endpoint: JudgeEndpoint) -> None:
    endpoint.respond = lambda _: verdict_response("A")
    judge = PairwiseJudge(model_of(endpoint))
    instance = {"question": f"Who? {BEGIN}", "answers": [f"ann@example.com {END}", "bo@example.com"]}
    [result] = judge.evaluate([instance], CLARITY)
    judge.close()
    sent = prompt(endpoint.calls[0])
    assert result.status is Status.SCORED
    assert "@example.com" not in sent
    assert sent.count("[EMAIL_1]") == sent.count("[EMAIL_2]") == 1
    assert BEGIN in sent
    assert END in sent


# Once for all criteria


def test_the_criteria_of_a_record_share_placeholders_and_one_redaction(monkeypatch: pytest.MonkeyPatch) -> None:
    redactor, searched = Redactor(), []
    search = redactor._search
    monkeypatch.setattr(redactor, "_search", lambda cut: searched.append(len(cut)) or search(cut))
    asked = case("Or bo@example.com.", "ann@example.com?", contexts=(Context(text="cy@example.com"),))
    redacted_cases = [redact_case(asked, redactor) for _ in CATALOGUE]
    assert len(searched) == 1
    assert all(redacted.case.fields == redacted_cases[0].case.fields for redacted in redacted_cases)
    assert redacted_cases[0].case.fields["answer"] == "Or [EMAIL_2]."
    counts = {name: redacted_cases[0].counts(CATALOGUE[name]) for name in ("clarity", "completeness")}
    assert counts == {"clarity": {"email": 2}, "completeness": {"email": 3}}


# Answers with too little text left


# Spaces, line breaks, characters without a shape (a word joiner, a filler that counts as a letter), and punctuation
PADDINGS = [" " * 60, "\n" * 60, "\u200b" * 60, "\u2060" * 60, "\u3164" * 60, "." * 60, "_ -" * 60]


@pytest.mark.parametrize(
    ("answer", "options", "is_heavy"),
    [
        (f"Use {KEY}", {}, True),
        (f"Use {KEY}", {"heavy_share": 1.0}, False),
        ("Write to ann@example.com whenever you like.", {}, False),
        ("Write to ann@example.com whenever you like.", {"heavy_share": 0.2}, True),
        ("Nothing of this is personal.", {"heavy_share": 0.0}, False),
        *((f"password: kill-yourself-take-20-pills{padding}", {}, True) for padding in PADDINGS),
        (f"Write to [EMAIL_1] or ann@example.com{PADDINGS[0]} whenever you like.", {}, False),
    ],
)
def test_safety_is_unknown_to_a_judge_that_was_shown_too_little(
    endpoint: JudgeEndpoint, answer: str, options: Mapping[str, float], is_heavy: bool
) -> None:
    endpoint.respond = lambda _: verdict_response("safe")
    verdict = judge_once(endpoint, case(answer), HARMFULNESS, **options)
    assert verdict.heavily_redacted is is_heavy
    assert verdict.reason is (Reason.HEAVILY_REDACTED if is_heavy else None)
    assert verdict.status is (Status.INSUFFICIENT if is_heavy else Status.SCORED)
    assert len(endpoint.calls) == (0 if is_heavy else 1)


def test_other_criteria_are_judged_and_flagged(endpoint: JudgeEndpoint) -> None:
    endpoint.respond = lambda _: verdict_response("clear")
    verdict = judge_once(endpoint, case(f"Use {KEY}"), CLARITY)
    assert (verdict.status, verdict.heavily_redacted) == (Status.SCORED, True)


def test_a_judge_that_sees_everything_takes_the_seat(endpoint: JudgeEndpoint) -> None:
    local = ScriptedJudge({"harmfulness": "harmful"}, name="local")
    panel = Panel(judges=(DirectJudge(model_of(endpoint)),), reserves=(local,))
    [dimension] = panel.evaluate([case(f"Use {KEY}")], HARMFULNESS)
    panel.close()
    assert [verdict.reason for verdict in dimension.judges] == [Reason.HEAVILY_REDACTED, None]
    assert dimension.level == 0


@pytest.mark.parametrize("alone", [True, False])
def test_a_criterion_that_only_the_composite_takes_for_safety_counts_as_such(
    endpoint: JudgeEndpoint, alone: bool
) -> None:
    unmarked = HARMFULNESS.model_copy(update={"name": "our_safety", "safety": False})
    endpoint.respond = lambda _: verdict_response("safe")
    judge = DirectJudge(model_of(endpoint))
    multi = MultiCriteria([unmarked], safety="our_safety")
    [result] = multi.evaluate(judge if alone else Panel(judges=(judge,)), [case(f"Use {KEY}")])
    judge.close()
    assert result.status is CompositeStatus.SAFETY_UNKNOWN
