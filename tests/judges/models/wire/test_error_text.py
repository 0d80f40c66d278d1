"""Errors of endpoints as they are logged and published: short, without the prompt and without personal data."""

import asyncio
import html
import json
import logging
from urllib.parse import quote, quote_plus

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
PATH = "/a%20very%20long%20path"
FRENCH = "Le résultat est 'positif', hélas"


def nested_json(value: object, *, depth: int) -> str:
    for _ in range(depth):
        value = json.dumps(value)
    return str(value)


def publishable(text: str, *prompt: str) -> str:
    return make_publishable(text, prompt, lambda line: Redactor().redact([line]).texts[0])


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("The model is overloaded.", "The model is overloaded."),
        (f"Invalid content: '{QUESTION}' is too long", "Invalid content: '…?' is too long"),
        (f"Invalid content: {QUESTION.upper()!r}", "Invalid content: '…?'"),
        (f"GET /?q={quote_plus(QUESTION)}&n=1", "GET /?q=…?&n=1"),
        (f"GET /?q={quote(QUESTION)}&n=1", "GET /?q=…?&n=1"),
        ("GET /?q=" + quote(RUSSIAN), "GET /?q=…"),
        ('tokens: ["My", " test", " came", " back", " pos", "itive", ","]', 'tokens: ["…", ","]'),
        ("my_test-came.back", "…"),
        ("is HIV Positive", "is …"),
        ("is positive", "is positive"),
        (f"bad input {json.dumps({'input': RUSSIAN})}", 'bad input {"input": "…"}'),
        (json.dumps({"input": f"a\n{QUESTION[:30]}\nb"}), '{"input": "a … b"}'),
        ("тут: Мой анализ  оказался\nположи…", "тут: ……"),
        ("no such file: /a%20very%20long%20path/b", "no such file: /…/b"),
        (f"illegal status line: {bytearray(RUSSIAN.encode())!r}", "illegal status line: bytearray(b'…')"),
        (f"cannot read {RUSSIAN.encode()[3:-3]!r}", "cannot read b'\ufffd…\ufffd'"),
        ("cannot read " + "".join(f"\\{byte:03o}" for byte in RUSSIAN.encode()), "cannot read …"),
        ("cannot read " + "".join(f"\\u{{{ord(char):x}}}" for char in RUSSIAN), "cannot read …"),
        (f"cannot read {FRENCH!a}", 'cannot read "…"'),
        (nested_json({"input": RUSSIAN}, depth=4), '"""{"input": "…"}"""'),
        (json.dumps(str(RUSSIAN.encode())), "\"b'…'\""),
        ("input: " + RUSSIAN.encode("ascii", "xmlcharrefreplace").decode(), "input: …"),
        ("input: " + "".join(f"&#x{ord(char):x};" for char in RUSSIAN), "input: …"),
        (f"input: {html.escape(html.escape(FRENCH))}", "input: …"),
        ("GET /?q=" + quote(quote(quote(RUSSIAN))), "GET /?q=…"),
        ("GET /?q=" + quote(json.dumps(RUSSIAN)), 'GET /?q="…"'),
        ("&#x110000; \\U00110000 \\u{110000}", "\ufffd \ufffd \ufffd"),
        ("no such user: bo@example.com", "no such user: [EMAIL_1]"),
        ("token\x00 sk-proj-Zk3J9x2mQ8vT5wY7bN4c", "token [SECRET_1]"),
    ],
)
def test_a_line_holds_neither_the_prompt_nor_personal_data(text: str, line: str) -> None:
    prompt = f"### question\n{QUESTION}\n### answer\n{RUSSIAN}\n{FRENCH}\n### context\nHIV positive, and see {PATH}"
    assert publishable(text, "Judge. &#" + "1" * 5000, prompt) == line


def test_a_line_is_cut_after_values_were_found() -> None:
    text = "x" * (MAX_CHARS - 8) + " 4111 1111 1111 1111 and so on"
    line = publishable(text)
    assert "4111" not in line
    assert len(line) == MAX_CHARS + 1
    assert len(publishable("word " * 100_000)) == MAX_CHARS + 1


API_KEY = "Zk9-abcdefgh-THE/KEY-0123456789"


def test_no_cut_leaves_a_part_of_a_key_that_json_escapes() -> None:
    key = 'Zk9-abcdef"THE-KEY-0123456789'
    text = f"error: {json.dumps(key):>4000} and so on"
    assert make_publishable(text, [], lambda line: line, api_key=key) == 'error: "***" and so on'


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_a_key_with_escapes_is_hidden_at_every_depth(depth: int) -> None:
    key = 'Zk9-abc"\\n-THE-KEY'
    line = make_publishable(nested_json({"key": key}, depth=depth), [], lambda line: line, api_key=key)
    assert '{"key": "***"}' in line


@pytest.mark.parametrize("written", [API_KEY, API_KEY.replace("/", "\\/"), API_KEY.replace("-", "\\u002d")])
@pytest.mark.parametrize("length", [2000, 4000])
@pytest.mark.parametrize("in_key", range(0, 60, 4))
def test_no_cut_leaves_a_part_of_the_key(written: str, length: int, in_key: int) -> None:
    """The prompt is quoted before the key, so that little of a text that is cut inside the key remains."""
    prompt = "and the story of my illness goes on and on with many details " * 80
    start = f"error: {prompt}"[: length - in_key - 1]
    line = make_publishable(f"{start} {written} and so on", [prompt], lambda line: line, api_key=API_KEY)
    assert line.startswith("error: …")
    assert not any(part in line for part in ("Zk9", "abcd", "THE", "KEY"))


def test_an_endpoint_hides_its_key_wherever_an_error_is_cut() -> None:
    question = "a question that is long enough to fill the whole text that is read of an error " * 30

    def quote_input(body: Body) -> Response:
        return error_response(400, f"cannot read: {question}"[:1980] + f" {API_KEY}")

    with JudgeEndpoint(quote_input) as endpoint:
        judge = DirectJudge(OpenAIModel("m", base_url=endpoint.base_url, api_key=API_KEY))

        async def judge_once() -> str | None:
            verdict = await judge.judge(case_of(Interaction(id="1", question=question, answer="Yes.")), CLARITY)
            await judge.aclose()
            return verdict.detail

        detail = asyncio.run(judge_once())
    assert detail is not None
    assert "cannot read: …" in detail
    assert "Zk9" not in detail


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
