"""The APIs against examples of their documented formats: requests, answers and errors."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.models.base import ChatMessage, Completion, Token
from judges.models.wire.anthropic import AnthropicWire
from judges.models.wire.base import FORMS, Feature, ModelRequest, Wire
from judges.models.wire.failures import Refusal, refusal_in
from judges.models.wire.ollama import OllamaWire
from judges.models.wire.openai import OpenAIWire
from judges.models.wire.refusals import Refusals

EXAMPLES = {path.stem: json.loads(path.read_text()) for path in (Path(__file__).parent / "examples").glob("*.json")}
WIRES: Mapping[str, Wire] = {"openai": OpenAIWire(), "anthropic": AnthropicWire(), "ollama": OllamaWire()}
ASK = (ChatMessage(role="system", content="Judge."), ChatMessage(role="user", content="Is it so?"))


def examples(key: str) -> list[str]:
    names = sorted(name for name, example in EXAMPLES.items() if key in example)
    assert names
    return names


def request_of(api: str, **changes: Any) -> ModelRequest:
    """Return a request with every feature of the API, in its strongest form."""
    features = WIRES[api].features
    full = ModelRequest(
        model="m",
        messages=ASK,
        max_tokens=512,
        temperature=0.0,
        seed=7 if "seed" in features else None,
        schema={"type": "object"},
        form=next(form for form in FORMS if form in features),
        likelihoods="likelihoods" in features,
    )
    return replace(full, **changes)


@pytest.mark.parametrize("name", examples("body"))
def test_a_request_is_written_as_documented(name: str) -> None:
    example = EXAMPLES[name]
    wire = WIRES[example["api"]]
    assert wire.body(request_of(example["api"], form=example["form"], likelihoods=False)) == example["body"]
    assert wire.path == example["path"]
    assert dict(wire.headers("KEY")) == example["headers"]
    assert "KEY" not in str(wire.headers(None))


@pytest.mark.parametrize("name", examples("completion"))
def test_a_documented_answer_is_read(name: str) -> None:
    expected = dict(EXAMPLES[name]["completion"])
    expected["tokens"] = tuple(Token(**token) for token in expected.get("tokens", ()))
    assert WIRES[EXAMPLES[name]["api"]].completion(EXAMPLES[name]["answer"]) == Completion(**expected)


@pytest.mark.parametrize("name", examples("refuses"))
def test_a_documented_error_says_what_is_refused(name: str) -> None:
    example = EXAMPLES[name]
    refusal = refusal_in(json.dumps(example["answer"]), request_of(example["api"]))
    assert refusal == Refusal(feature=example["refuses"], of_schema=example.get("of_schema", False))


@pytest.mark.parametrize("name", examples("refuses"))
def test_a_feature_that_was_not_requested_is_not_the_refused_one(name: str) -> None:
    plain = request_of(
        EXAMPLES[name]["api"], temperature=None, seed=None, form=None, likelihoods=False, old_limit=False
    )
    assert refusal_in(json.dumps(EXAMPLES[name]["answer"]), plain) is None


def test_an_error_that_quotes_the_whole_request_is_about_the_first_name_in_it() -> None:
    message = 'temperature must be 1; got {"response_format": {}, "seed": 7, "temperature": 0, "tools": []}'
    refusal = refusal_in(json.dumps({"error": {"message": message}}), request_of("openai"))
    assert refusal == Refusal(feature="temperature", of_schema=False)


@pytest.mark.parametrize("api", WIRES)
@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        {},
        "text",
        {"error": "x"},
        {"choices": []},
        {"content": "text"},
        {"message": None},
        {"message": "text"},
    ],
)
def test_an_invalid_answer_of_the_api_is_none(api: str, answer: object) -> None:
    assert WIRES[api].completion(answer) is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["choices", "message", "content", "text", "type", "tool_calls", "function", "arguments", "usage", "input",
             "function_call", "refusal", "finish_reason",
             "prompt_tokens", "input_tokens", "logprobs", "token", "logprob", "top_logprobs", "stop_reason"]
        ),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@given(inner=json_values)
def test_no_answer_of_whatever_types_raises(inner: Any) -> None:
    for wire in WIRES.values():
        for answer in (
            inner,
            {"choices": [{"message": inner, "logprobs": inner}], "usage": inner},
            {"choices": [{"message": {"content": inner, "tool_calls": inner, "function_call": inner}}]},
            {"content": [inner, {"type": "tool_use", "input": inner}], "usage": inner, "stop_reason": inner},
            {"message": {"content": inner, "tool_calls": inner}, "logprobs": inner, "done_reason": inner},
        ):
            completion = wire.completion(answer)
            if completion is not None:
                (completion.text or "").encode()


def test_anthropic_gets_no_empty_message_and_no_empty_system_prompt() -> None:
    silent = (ChatMessage(role="user", content="Is it so?"), ChatMessage(role="assistant", content=" "), ASK[1])
    body = AnthropicWire().body(request_of("anthropic", messages=silent, temperature=None, form=None))
    assert body == {"model": "m", "max_tokens": 512, "messages": [{"role": "user", "content": "Is it so?"}] * 2}


def test_the_text_of_an_invalid_tool_call_is_the_content() -> None:
    message = {"content": "fine", "tool_calls": [{"function": {"arguments": None}}]}
    completion = OpenAIWire().completion({"choices": [{"message": message}]})
    assert completion is not None
    assert completion.text == "fine"


SCHEMA_OF_ITS_OWN = Refusal(feature="schema", of_schema=True)


class TestRefusals:
    def test_a_refused_schema_leaves_the_others_alone(self) -> None:
        refusals = Refusals()
        refusals.remember([SCHEMA_OF_ITS_OWN], {"type": "foo"})
        assert refusals.of({"type": "foo"}) == {"schema"}
        assert refusals.of({"type": "object"}) == refusals.of(None) == frozenset()

    def test_a_feature_that_is_refused_is_refused_with_every_schema(self) -> None:
        refusals = Refusals()
        refusals.remember([Refusal(feature="schema", of_schema=False)], {"type": "foo"})
        refusals.remember([SCHEMA_OF_ITS_OWN, Refusal(feature="seed", of_schema=True)], None)
        expected: set[Feature] = {"schema", "seed"}
        assert refusals.of({"type": "object"}) == refusals.of(None) == expected

    def test_no_number_of_schemas_fills_the_memory(self) -> None:
        refusals = Refusals()
        for number in range(3000):
            refusals.remember([SCHEMA_OF_ITS_OWN], {"const": number})
        assert refusals.of({"const": 2999}) == {"schema"}
        assert len(refusals._by_schema) <= 1024


@pytest.mark.parametrize(
    ("content", "read"),
    [
        ([{"type": "text", "text": "So."}, {"type": "tool_use", "input": {"verdict": "a"}}], '{"verdict": "a"}'),
        (
            [{"type": "text", "text": '{"verdict": "b"}'}, {"type": "tool_use", "input": {"verdict": "a"}}],
            '{"verdict": "a"}\n{"verdict": "b"}',
        ),
        (
            [{"type": "tool_use", "input": {"verdict": "a"}}, {"type": "tool_use", "input": {"verdict": "b"}}],
            '{"verdict": "a"}\n{"verdict": "b"}',
        ),
        (
            [{"type": "text", "text": '{"verdict": "b"}'}, {"type": "tool_use", "input": '{"verdict": "a"}'}],
            '{"verdict": "a"}\n{"verdict": "b"}',
        ),
    ],
)
def test_every_possible_answer_is_read(content: list[object], read: str) -> None:
    completion = AnthropicWire().completion({"content": content})
    assert completion is not None
    assert completion.text == read


def test_a_tool_call_that_ollama_was_not_asked_for_is_read_beside_the_text() -> None:
    call = {"function": {"name": "verdict", "arguments": {"verdict": "a"}}}
    completion = OllamaWire().completion({"message": {"content": '{"verdict": "b"}', "tool_calls": [call]}})
    assert completion is not None
    assert completion.text == '{"verdict": "a"}\n{"verdict": "b"}'


@pytest.mark.parametrize("reason", ["content_filter", "CONTENT-FILTER", "contentFilter", "content_filter: SAFETY"])
def test_a_filter_is_recognised_in_every_spelling(reason: str) -> None:
    answers: Mapping[str, object] = {
        "openai": {"choices": [{"message": {"content": "fine"}, "finish_reason": reason}]},
        "anthropic": {"content": [{"type": "text", "text": "fine"}], "stop_reason": reason},
        "ollama": {"message": {"content": "fine"}, "done_reason": reason},
    }
    completions = [WIRES[api].completion(answer) for api, answer in answers.items()]
    assert [completion and completion.finish_reason for completion in completions] == ["content_filter"] * 3


@pytest.mark.parametrize("api", ["openai", "anthropic"])
def test_a_part_that_refuses_makes_the_answer_a_refusal(api: str) -> None:
    content = [{"type": "text", "text": "fine"}, {"type": "refusal", "refusal": "I can't."}]
    completion = WIRES[api].completion({"choices": [{"message": {"content": content}}], "content": content})
    assert completion is not None
    assert completion.finish_reason == "refusal"
