"""Reading: any bytes give an interaction or a record error that names the problem and its place."""

import json
import time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from judges.criteria.problems import path_text
from judges.values.interaction import Interaction
from stream.config.sections.input import InputConfig
from stream.errors import RecordError
from stream.records.reading import InteractionReader, Reading, strict_json

LEAST: dict[str, Any] = {"id": "id-1", "question": "Why?", "answer": "So."}
MIB = 1024 * 1024
KINDS = {"empty", "too_large", "bad_encoding", "bad_json", "too_deep", "invalid_record", "too_long"}


def reader(**limits: int) -> InteractionReader:
    return InteractionReader(InputConfig.model_validate({"limits": limits}))


READER = reader()


def encode_record(**fields: Any) -> bytes:
    return json.dumps({**LEAST, **fields}, ensure_ascii=False).encode()


def read(value: bytes | None, **limits: int) -> Reading:
    return (reader(**limits) if limits else READER).read(value)


def refusal(value: bytes | None, **limits: int) -> tuple[str, str]:
    with pytest.raises(RecordError) as caught:
        read(value, **limits)
    assert caught.value.kind in KINDS
    return caught.value.kind, str(caught.value)


def test_a_good_record_is_read_whole() -> None:
    reading = read(encode_record(app="shop", contexts=[{"text": "Because."}]))
    assert (reading.interaction.app, reading.interaction.contexts[0].text, reading.truncated) == (
        "shop",
        "Because.",
        (),
    )


# Problems and their places


@pytest.mark.parametrize("value", [None, b""])
def test_no_value(value: bytes | None) -> None:
    assert refusal(value) == ("empty", "the record has no value")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"\xff{}", "not UTF-8: invalid start byte at byte 0"),
        (b'{"id": "\xc3"}', "not UTF-8: invalid continuation byte at byte 8"),
        (b'{"id": "\xed\xa0\x80"}', "not UTF-8: invalid continuation byte at byte 8"),
        ('{"id": "ж"}'.encode("utf-16"), "not UTF-8: invalid start byte at byte 0"),
    ],
)
def test_text_that_is_not_utf_8(value: bytes, message: str) -> None:
    assert refusal(value) == ("bad_encoding", message)


@pytest.mark.parametrize(
    "value",
    [
        rb'{"id": "a", "question": "\ud800", "answer": "b"}',
        rb'{"id": "a", "question": "q", "answer": "\udc00\ud800"}',
        rb'{"id": "a", "question": "q", "answer": "b", "extra": [{"deep": "\udfff"}]}',
        rb'{"id": "a", "question": "q", "answer": "b", "\ud83d": 1}',
        rb'{"id": "a", "question": "q", "answer": "b", "tags": {"\ud83d": "x"}}',
    ],
)
def test_a_lone_surrogate_anywhere(value: bytes) -> None:
    kind, message = refusal(value)
    assert kind == "bad_encoding"
    assert message.startswith("a lone surrogate \\ud")


def test_a_pair_of_surrogates_is_a_character() -> None:
    assert read(rb'{"id": "a", "question": "\ud83d\ude00", "answer": "b"}').interaction.question == "😀"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"{", "not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        (b"{}x", "not JSON: Extra data: line 1 column 3 (char 2)"),
        (b" ", "not JSON: Expecting value: line 1 column 2 (char 1)"),
        (b"\xef\xbb\xbf{}", "not JSON: Unexpected UTF-8 BOM (decode using utf-8-sig): line 1 column 1 (char 0)"),
        (b'{"a": NaN}', "not JSON: NaN is not a number"),
        (b'{"a": Infinity}', "not JSON: Infinity is not a number"),
        (b'{"a": [-Infinity]}', "not JSON: -Infinity is not a number"),
        (b'{"a": 1, "b": 2, "a": 3}', "not JSON: duplicate key 'a'"),
        (b'{"x": {"y": [{"k": 1, "k": 1}]}}', "not JSON: duplicate key 'k'"),
        (rb'{"a": 1, "\u0061": 2}', "not JSON: duplicate key 'a'"),
        (b"[]", "must be a JSON object, not an array"),
        (b'"text"', "must be a JSON object, not a string"),
        (b"1", "must be a JSON object, not a number"),
        (b"1.5", "must be a JSON object, not a number"),
        (b"true", "must be a JSON object, not a boolean"),
        (b"null", "must be a JSON object, not null"),
    ],
)
def test_text_that_is_not_strict_json(value: bytes, message: str) -> None:
    assert refusal(value) == ("bad_json", message)


def test_a_control_character_in_a_string_is_not_json() -> None:
    assert refusal(b'{"id": "a\nb"}')[0] == "bad_json"


def test_a_number_of_more_digits_than_python_reads_is_not_json() -> None:
    assert refusal(encode_record()[:-1] + b', "n": ' + b"9" * 5000 + b"}")[0] == "bad_json"


@pytest.mark.parametrize("digits", [20, 400, 4300])
def test_huge_numbers_are_kept_in_unused_fields(digits: int) -> None:
    number = int("9" * digits)
    interaction = read(encode_record(n=number, tags={"n": number})).interaction
    assert (interaction.model_extra, interaction.tags) == ({"n": number}, {"n": number})


@pytest.mark.parametrize("score", [b"9" * 400, b"1e999", b"-1e999"])
def test_a_number_beyond_floats_is_not_a_score(score: bytes) -> None:
    kind, message = refusal(encode_record()[:-1] + b', "contexts": [{"text": "t", "score": ' + score + b"}]}")
    assert kind == "invalid_record"
    assert message.startswith("contexts[0].score: ")


@pytest.mark.parametrize(
    ("fields", "start"),
    [
        ({"id": 5}, "id: "),
        ({"id": ""}, "id: "),
        ({"question": None}, "question: "),
        ({"contexts": {"text": "t"}}, "contexts: "),
        ({"contexts": [{"text": "t"}, {"id": "c"}]}, "contexts[1].text: Field required"),
        ({"history": [{"role": "user", "text": ["x"]}]}, "history[0].text: "),
        ({"timestamp": "2026-01-01T00:00:00"}, "timestamp: "),
        ({"tags": {"k": []}}, "tags.k"),
        ({"tags": ["k"]}, "tags: "),
        ({"candidates": [{"name": "b"}]}, "candidates[0].answer: Field required"),
    ],
)
def test_a_field_of_a_wrong_type_is_named_with_its_path(fields: dict[str, Any], start: str) -> None:
    kind, message = refusal(encode_record(**fields))
    assert kind == "invalid_record"
    assert message.startswith(start)


def test_missing_fields_are_named() -> None:
    assert refusal(b"{}") == (
        "invalid_record",
        "id: Field required; question: Field required; answer: Field required",
    )


def test_three_problems_are_named_and_the_rest_counted() -> None:
    kind, message = refusal(encode_record(contexts=[{}] * 1000))
    assert kind == "invalid_record"
    assert message.count("Field required") == 3
    assert message.endswith("; and 997 more")


def test_an_error_never_quotes_the_value() -> None:
    assert "hunter2" not in refusal(encode_record(question=["hunter2"], timestamp="hunter2"))[1]


@pytest.mark.parametrize(
    ("loc", "text"),
    [(("contexts", 3, "text"), "contexts[3].text"), (("id",), "id"), ((), ""), (("a", 0, 1, "b"), "a[0][1].b")],
)
def test_paths_are_written_with_dots_and_indices(loc: tuple[str | int, ...], text: str) -> None:
    assert path_text(loc) == text


# Limits


def test_a_record_may_be_as_large_as_the_limit_and_no_larger() -> None:
    value = encode_record()
    assert read(value, record_bytes=len(value)).interaction.id == "id-1"
    assert refusal(value, record_bytes=len(value) - 1) == (
        "too_large",
        f"{len(value)} bytes, the limit is {len(value) - 1}",
    )


def test_a_record_of_10_mib_is_refused_at_once() -> None:
    start = time.thread_time()
    assert refusal(b"[" * (10 * MIB)) == ("too_large", f"{10 * MIB} bytes, the limit is {MIB}")
    assert time.thread_time() - start < 3


def nested_record(depth: int) -> bytes:
    """Return a valid record whose JSON is `depth` levels deep."""
    return encode_record()[:-1] + b', "x": ' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"


@pytest.mark.parametrize("limit", [2, 5, 32, 256])
def test_json_may_be_as_deep_as_the_limit_and_no_deeper(limit: int) -> None:
    assert read(nested_record(limit), nesting=limit).interaction.id == "id-1"
    assert refusal(nested_record(limit + 1), nesting=limit) == ("too_deep", f"nested deeper than {limit} levels")


@pytest.mark.parametrize(
    "value",
    [
        nested_record(100_000),
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"a":[' * 50_000 + b"]}" * 50_000,
        nested_record(2_000),
    ],
    ids=["closed", "arrays", "objects", "mixed", "2000"],
)
def test_nesting_of_any_depth_is_refused_without_side_effects(value: bytes) -> None:
    assert refusal(value)[0] == "too_deep"
    assert read(encode_record()).interaction.id == "id-1"


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"question": "x" * 11}, "question"),
        ({"answer": "x" * 11}, "answer"),
        ({"history": [{"role": "user", "text": "x"}, {"role": "user", "text": "x" * 11}]}, "history[1].text"),
    ],
)
def test_a_text_that_is_judged_is_refused_when_it_is_too_long(fields: dict[str, Any], path: str) -> None:
    assert refusal(encode_record(**fields), text_chars=10) == ("too_long", f"{path}: 11 characters, the limit is 10")
    assert read(encode_record(**fields), text_chars=11).truncated == ()


def test_length_is_counted_in_characters() -> None:
    assert read(encode_record(answer="ж" * 10), text_chars=10).interaction.answer == "ж" * 10


def test_overlong_and_surplus_contexts_are_truncated_and_the_cuts_are_named() -> None:
    contexts = [{"text": "x" * size, "id": str(size), "url": "kept"} for size in (5, 6, 4, 9, 1)]
    reading = read(encode_record(contexts=contexts), contexts=4, context_chars=5)
    assert reading.truncated == ("contexts[4:]", "contexts[1].text", "contexts[3].text")
    assert [(context.id, context.text) for context in reading.interaction.contexts] == [
        ("5", "x" * 5),
        ("6", "x" * 5),
        ("4", "x" * 4),
        ("9", "x" * 5),
    ]
    assert all(context.model_extra == {"url": "kept"} for context in reading.interaction.contexts)


def test_contexts_within_the_limits_are_unchanged() -> None:
    contexts = [{"text": "x" * 5}] * 4
    reading = read(encode_record(contexts=contexts), contexts=4, context_chars=5)
    assert reading.truncated == ()
    assert [context.text for context in reading.interaction.contexts] == ["x" * 5] * 4


def test_a_duplicate_key_among_very_many_is_refused_without_delay() -> None:
    keys = ",".join(f'"{number}":0' for number in range(60_000))
    start = time.thread_time()
    assert refusal(f'{{{keys},"59999":1}}'.encode()) == ("bad_json", "not JSON: duplicate key '59999'")
    assert time.thread_time() - start < 5


# Anything at all

any_text = st.text(st.characters())  # surrogates too
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_text,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(any_text, inner, max_size=5),
    max_leaves=15,
)
field_names = st.sampled_from(sorted(Interaction.model_fields))
almost_records = st.fixed_dictionaries(
    {"id": any_text, "question": any_text, "answer": any_text},
    optional={
        "timestamp": json_values | st.datetimes().map(lambda moment: moment.isoformat() + "Z"),
        "contexts": st.lists(st.fixed_dictionaries({"text": any_text}, optional={"score": json_values})),
        "history": st.lists(st.fixed_dictionaries({"role": any_text, "text": json_values}), max_size=3),
        "tags": st.dictionaries(any_text, json_values, max_size=3),
        "extra": json_values,
    },
)


def assert_reading_or_record_error(value: bytes) -> None:
    result: Reading | RecordError
    try:
        result = reader(text_chars=20, context_chars=5, contexts=2, nesting=4).read(value)
    except RecordError as error:
        result = error
    if isinstance(result, RecordError):
        assert result.kind in KINDS
        assert str(result)
    else:
        assert isinstance(result, Reading)
        result.interaction.model_dump_json()  # everything that was accepted can be serialised


@given(st.binary(max_size=200))
@example(b"\x00")
@example(b'{"id":"a","question":"b","answer":"c"}')
def test_any_bytes_are_an_interaction_or_a_record_error(value: bytes) -> None:
    assert_reading_or_record_error(value)


@given(json_values | st.dictionaries(field_names, json_values, max_size=13) | almost_records)
def test_json_of_any_types_is_an_interaction_or_a_record_error(document: object) -> None:
    assert_reading_or_record_error(json.dumps(document).encode())


@given(st.text(alphabet='{}[]",:\\ud0189.eE+-ntrfalsu \n', max_size=60))
def test_text_similar_to_json_is_an_interaction_or_a_record_error(text: str) -> None:
    assert_reading_or_record_error(text.encode())


plain_text = st.text(st.characters(codec="utf-8"), max_size=8)
plain_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | plain_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(plain_text, inner, max_size=4),
    max_leaves=10,
)
unknown = st.dictionaries(plain_text.filter(lambda name: name not in Interaction.model_fields), plain_json, max_size=4)


@given(unknown, unknown)
def test_unknown_fields_are_kept_unchanged(extra: dict[str, Any], inner: dict[str, Any]) -> None:
    context = {key: value for key, value in inner.items() if key not in {"text", "id", "score"}}
    document = {**LEAST, **extra, "contexts": [{"text": "t", **context}]}
    interaction = READER.read(json.dumps(document).encode()).interaction
    assert interaction.model_dump(mode="json", exclude_unset=True) == document
    assert Interaction.model_validate(interaction.model_dump()) == interaction


@given(plain_json)
def test_strict_json_reads_what_json_reads(value: object) -> None:
    document = {"a": value}
    assert strict_json(json.dumps(document).encode(), nesting=32) == document
