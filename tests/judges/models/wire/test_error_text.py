"""Errors of endpoints as they are logged and published: short, without the prompt and without personal data."""

import asyncio
import json
import logging

import pytest

from judges.criteria.catalogue import load_catalogue
from judges.llm.methods.direct import DirectJudge
from judges.models import OpenAIModel
from judges.models.redaction import Redactor
from judges.models.wire.error_text import MAX_CHARS, make_publishable
from judges.values.interaction import Interaction, case_of
from tests.parts.endpoints.judge_endpoint import Body, JudgeEndpoint, Response, error_response

CLARITY = load_catalogue()["clarity"]
QUESTION = "My test came back positive, should I tell my employer about it?"
RUSSIAN = "Мой анализ оказался положительным"


def publishable(text: str, *prompt: str) -> str:
    return make_publishable(text, prompt, lambda line: Redactor().redact([line]).texts[0])


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("The model is overloaded.", "The model is overloaded."),
        (f"Invalid content: '{QUESTION}' is too long", "Invalid content: '…' is too long"),
        (f"bad input {json.dumps({'input': RUSSIAN})}", 'bad input {"input": "…"}'),
        (json.dumps({"input": f"a\n{QUESTION[:30]}\nb"}), '{"input": "a … b"}'),
        ("тут: Мой анализ  оказался\nположи…", "тут: ……"),
        ("no such user: bo@example.com", "no such user: [EMAIL_1]"),
        ("token\x00 sk-proj-Zk3J9x2mQ8vT5wY7bN4c", "token [SECRET_1]"),
    ],
)
def test_a_line_holds_neither_the_prompt_nor_personal_data(text: str, line: str) -> None:
    assert publishable(text, "Judge.", f"### question\n{QUESTION}\n### answer\n{RUSSIAN}") == line


def test_a_line_is_cut_after_values_were_found() -> None:
    text = "x" * (MAX_CHARS - 8) + " 4111 1111 1111 1111 and so on"
    line = publishable(text)
    assert "4111" not in line
    assert len(line) == MAX_CHARS + 1
    assert len(publishable("word " * 100_000)) == MAX_CHARS + 1


@pytest.mark.parametrize("status", [400, 503])
@pytest.mark.parametrize("redacts", [True, False])
def test_user_text_in_an_error_reaches_neither_logs_nor_verdicts(
    status: int, redacts: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def quote_input(body: Body) -> Response:
        return error_response(status, f"cannot process: {body['messages'][-1]['content']} for ann@example.com")

    caplog.set_level(logging.DEBUG)
    case = case_of(Interaction(id="1", question=QUESTION, answer="Write to ann@example.com."))
    with JudgeEndpoint(quote_input) as endpoint:
        model = OpenAIModel("m", base_url=endpoint.base_url, redactor=Redactor() if redacts else None)
        judge = DirectJudge(model)

        async def judge_often() -> list[str | None]:
            verdicts = [await judge.judge(case, CLARITY) for _ in range(6)]
            await judge.aclose()
            return [verdict.detail for verdict in verdicts]

        details = asyncio.run(judge_often())
    everything = "\n".join([*caplog.messages, *map(str, details)])
    assert "cannot process" in everything
    assert "positive" not in everything
    assert "ann@example.com" not in everything
