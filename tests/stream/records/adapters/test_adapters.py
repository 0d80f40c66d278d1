"""Adapters: records of other shapes, and errors about missing values."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream.config.sections.input import InputConfig
from stream.errors import RecordError
from stream.records.adapters import make_adapter
from stream.records.reading import InteractionReader, Reading

PATHS = {
    "id": "request.id",
    "question": "request.messages.0.content",
    "answer": "response.text",
    "contexts": "retrieval.documents",
    "history": "request.history",
    "app": "service",
    "tags": "labels",
    "timestamp": "request.at",
}
RECORD: dict[str, Any] = {
    "request": {"id": "r-1", "messages": [{"content": "Why?"}, {"content": "not this"}]},
    "response": {"text": "So."},
}


def mapping(**paths: str) -> InputConfig:
    return InputConfig.model_validate({"adapter": "mapping", "mapping": {**PATHS, **paths}})


def read(record: dict[str, Any], config: InputConfig | None = None) -> Reading:
    return InteractionReader(config or mapping()).read(json.dumps(record).encode())


def with_parts(**parts: Any) -> dict[str, Any]:
    """Return the record with these parts changed, one level deep."""
    changed = {**RECORD}
    for name, value in parts.items():
        before = changed.get(name)
        changed[name] = {**before, **value} if isinstance(before, dict) and isinstance(value, dict) else value
    return changed


def test_the_native_adapter_changes_nothing() -> None:
    document: dict[str, object] = {"id": "1", "unknown": [1, {"a": None}]}
    assert make_adapter(InputConfig()).read(document) is document


def test_dotted_paths_lead_through_objects_and_lists() -> None:
    interaction = read(RECORD).interaction
    assert (interaction.id, interaction.question, interaction.answer) == ("r-1", "Why?", "So.")
    assert (interaction.contexts, interaction.history, interaction.app) == ((), (), None)


def test_numbers_are_keys_of_objects_too() -> None:
    record = with_parts(response={"0": {"1": "by key"}})
    assert read(record, mapping(answer="response.0.1")).interaction.answer == "by key"


@pytest.mark.parametrize(
    ("documents", "texts"),
    [
        (["one", "two"], ["one", "two"]),
        ("one text", ["one text"]),
        ([{"text": "one"}, {"content": "two"}], ["one", "two"]),
        ({"text": "single"}, ["single"]),
        ([{"text": "wins", "content": "loses"}], ["wins"]),
        ([], []),
        (None, []),
    ],
)
def test_contexts_may_be_texts_or_objects_or_a_single_one(documents: object, texts: list[str]) -> None:
    interaction = read(with_parts(retrieval={"documents": documents})).interaction
    assert [context.text for context in interaction.contexts] == texts


@pytest.mark.parametrize(
    ("history", "turns"),
    [
        (["hi"], [("user", "hi")]),
        ([{"role": "assistant", "content": "hello"}], [("assistant", "hello")]),
        ([{"role": "system", "text": "be kind"}], [("system", "be kind")]),
        ([{"content": "no role"}], [("user", "no role")]),
        ([{"text": "no role"}], [("user", "no role")]),
        (None, []),
    ],
)
def test_turns_may_be_texts_or_messages(history: object, turns: list[tuple[str, str]]) -> None:
    interaction = read(with_parts(request={"history": history})).interaction
    assert [(turn.role, turn.text) for turn in interaction.history] == turns


def test_other_fields_of_a_context_are_kept() -> None:
    documents = [{"content": "c", "id": "d-1", "score": 0.5, "url": "https://example.org"}]
    [context] = read(with_parts(retrieval={"documents": documents})).interaction.contexts
    assert (context.text, context.id, context.score) == ("c", "d-1", 0.5)
    assert context.model_extra == {"content": "c", "url": "https://example.org"}


@pytest.mark.parametrize(("identity", "text"), [(17, "17"), (-3, "-3"), ("x", "x")])
def test_a_whole_number_is_a_valid_id(identity: object, text: str) -> None:
    assert read(with_parts(request={"id": identity})).interaction.id == text


@pytest.mark.parametrize("identity", [1.5, True, ["x"], {"a": 1}, ""])
def test_other_types_are_not_valid_ids(identity: object) -> None:
    with pytest.raises(RecordError, match=r"^id") as caught:
        read(with_parts(request={"id": identity}))
    assert caught.value.kind == "invalid_record"


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({}, "id: nothing at 'request.id'"),
        (with_parts(response={"text": None}), "answer: nothing at 'response.text'"),
        (with_parts(response="a text"), "answer: nothing at 'response.text'"),
        (with_parts(request={"messages": []}), "question: nothing at 'request.messages.0.content'"),
        (with_parts(request={"messages": [[]]}), "question: nothing at 'request.messages.0.content'"),
    ],
)
def test_a_missing_required_value_is_named_with_its_path(record: dict[str, Any], message: str) -> None:
    with pytest.raises(RecordError) as caught:
        read(record)
    assert (caught.value.kind, str(caught.value)) == ("invalid_record", message)


@pytest.mark.parametrize("step", ["-2", "1", "x", "01x", "²", "-", "--1", "9" * 400])
def test_a_step_that_is_not_an_index_of_the_list_finds_nothing(step: str) -> None:
    config = mapping(answer=f"response.{step}")
    with pytest.raises(RecordError, match="answer: nothing at"):
        read(with_parts(response=["only one"]), config)


def test_a_negative_position_counts_from_the_end_of_the_list() -> None:
    messages = [{"content": "first"}, {"content": "last"}]
    record = with_parts(request={"messages": messages})
    assert read(record, mapping(question="request.messages.-1.content")).interaction.question == "last"
    assert read(record, mapping(question="request.messages.-2.content")).interaction.question == "first"


def test_a_path_leads_into_a_text_that_is_json() -> None:
    inner = json.dumps({"choices": [{"message": json.dumps({"content": "Deep."})}]})
    config = mapping(answer="response.body.choices.0.message.content")
    assert read(with_parts(response={"body": f" {inner}"}), config).interaction.answer == "Deep."


@pytest.mark.parametrize("text", ["", "plain", '"text"', "1", "{", '{"a": NaN}', "[" * 100_000, '{"text": "\\ud800"}'])
def test_a_path_into_any_other_text_finds_nothing(text: str) -> None:
    config = mapping(answer="response.body.text")
    with pytest.raises(RecordError, match="answer: nothing at") as caught:
        read(with_parts(response={"body": text}), config)
    assert caught.value.kind == "invalid_record"


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda kids: st.lists(kids, max_size=3)))
def test_contexts_may_be_a_list_in_a_json_text(value: object) -> None:
    texts = ["one", "two"]
    record = with_parts(retrieval={"documents": json.dumps(texts)})
    assert [context.text for context in read(record).interaction.contexts] == texts
    plain = with_parts(retrieval={"documents": f"a text, not {json.dumps(value)}"})
    assert [context.text for context in read(plain).interaction.contexts] == [f"a text, not {json.dumps(value)}"]


def test_optional_values_that_are_null_or_missing_are_left_out() -> None:
    interaction = read(with_parts(service=None, labels=None)).interaction
    assert (interaction.app, interaction.tags, interaction.timestamp) == (None, {}, None)


def test_values_of_a_wrong_type_are_refused_by_their_name() -> None:
    with pytest.raises(RecordError, match=r"contexts\[0\]") as caught:
        read(with_parts(retrieval={"documents": 5}))
    assert caught.value.kind == "invalid_record"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "request": json_values
            | st.fixed_dictionaries(
                {}, optional={"id": json_values, "messages": json_values, "history": json_values, "at": json_values}
            ),
            "response": json_values | st.fixed_dictionaries({"text": json_values}),
            "retrieval": json_values | st.fixed_dictionaries({"documents": json_values}),
            "service": json_values,
            "labels": json_values,
        },
    )
)
def test_any_record_is_read_or_refused(record: dict[str, Any]) -> None:
    try:
        kind = read(record).interaction.id and "read"
    except RecordError as error:
        kind = error.kind
    assert kind in {"read", "invalid_record"}
