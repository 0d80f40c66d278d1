"""Topic sinks: published records are plain JSON that validates against the published schema and reads back the same."""

import functools
import json
import re
from datetime import UTC, datetime
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from judges.values.evaluation import (
    MIN_PROBABILITY,
    Composite,
    CompositeStatus,
    Dimension,
    Evaluation,
    EvaluatorInfo,
    Excerpt,
    JudgeVerdict,
    Reason,
    Safety,
    SafetyNotice,
    SafetyStatus,
    Samples,
    Sampling,
    Status,
    Tokens,
)
from sinks.topics.results import CriticalTopic, EvaluationTopic

text = st.text(st.characters(codec="utf-8"), max_size=12)
optional_text = st.none() | text
finite = st.floats(allow_nan=False, allow_infinity=False)
unit = st.floats(min_value=0.0, max_value=1.0)
counts = st.integers(min_value=0, max_value=10)
moments = st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(9000, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
tags = st.dictionaries(text, st.none() | st.booleans() | st.integers() | finite | text, max_size=4)

verdicts = st.builds(
    JudgeVerdict,
    judge=text,
    status=st.sampled_from(Status),
    score=st.none() | unit,
    level=st.none() | st.integers(min_value=0, max_value=4),
    option=optional_text,
    explanation=text,
    feedback=optional_text,
    reason=st.none() | st.sampled_from(Reason),
    detail=optional_text,
    samples=st.builds(Samples, requested=counts, valid=counts, invalid=counts, error=counts),
    position_bias=st.none() | st.booleans(),
    latency_ms=finite,
    tokens=st.none() | st.builds(Tokens, prompt=counts, completion=counts),
    cost_usd=st.none() | finite,
    cached=st.booleans(),
)
dimensions = st.builds(
    Dimension,
    status=st.sampled_from(Status),
    score=st.none() | unit,
    level=st.none() | st.integers(),
    option=optional_text,
    reason=st.none() | st.sampled_from(Reason),
    spread=st.none() | unit,
    judges=st.lists(verdicts, max_size=2).map(tuple),
)
safeties = st.builds(Safety, level=st.none() | st.integers(), status=st.sampled_from(SafetyStatus))
heading: dict[str, st.SearchStrategy[Any]] = {
    "evaluation_id": st.uuids().map(str),
    "interaction_id": text,
    "app": optional_text,
    "tenant": optional_text,
    "model": optional_text,
    "evaluator": st.builds(
        EvaluatorInfo,
        fingerprint=text,
        criteria=st.lists(text, max_size=2).map(tuple),
        judges=st.lists(text, max_size=2).map(tuple),
        version=text,
    ),
    "sampling": st.builds(
        Sampling, probability=st.floats(min_value=MIN_PROBABILITY, max_value=1.0), rule=text, lane=text
    ),
    "tags": tags,
    "excerpt": st.none() | st.builds(Excerpt, question=text, answer=text),
    "traceparent": optional_text,
}
evaluations = st.builds(
    Evaluation,
    **heading,
    evaluated_at=moments,
    dimensions=st.dictionaries(text, dimensions, max_size=3),
    composite=st.builds(
        Composite, score=st.none() | unit, status=st.sampled_from(CompositeStatus), coverage=unit, safety=safeties
    ),
    truncated=st.lists(text, max_size=2).map(tuple),
    cost_usd=st.none() | finite,
    latency_ms=finite,
)
notices = st.builds(SafetyNotice, **heading, noticed_at=moments, safety=safeties, dimension=dimensions)


@functools.cache
def validator(model: type[BaseModel]) -> jsonschema.Draft202012Validator:
    schema = model.model_json_schema(mode="serialization")
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


def parse(value: bytes | None) -> dict[str, Any]:
    assert value is not None
    document = json.loads(value.decode("utf-8"), parse_constant=refuse)
    assert isinstance(document, dict)
    return document


@given(evaluations)
def test_an_evaluation_validates_against_its_schema_and_reads_back_the_same(evaluation: Evaluation) -> None:
    [message] = EvaluationTopic("rag.evaluations").messages(evaluation)
    document = parse(message.value)
    validator(Evaluation).validate(document)
    assert Evaluation.model_validate_json(message.value or b"") == evaluation
    assert [type(value) for value in document["tags"].values()] == [type(value) for value in evaluation.tags.values()]


@given(notices)
def test_a_notice_validates_against_its_schema_and_reads_back_the_same(notice: SafetyNotice) -> None:
    [message] = CriticalTopic("rag.critical").messages(notice)
    validator(SafetyNotice).validate(parse(message.value))
    assert SafetyNotice.model_validate_json(message.value or b"") == notice


def simple() -> Evaluation:
    return Evaluation(
        evaluation_id="e-1",
        interaction_id="вопрос",
        evaluated_at=datetime(2026, 11, 15, 10, 30, tzinfo=UTC),
        evaluator=EvaluatorInfo(fingerprint="f", criteria=("clarity",), judges=("local",), version="1"),
        sampling=Sampling(),
        dimensions={"clarity": Dimension(status=Status.INSUFFICIENT, reason=Reason.TIMEOUT)},
        composite=Composite(
            score=None,
            status=CompositeStatus.SAFETY_UNKNOWN,
            coverage=0.0,
            safety=Safety(status=SafetyStatus.UNKNOWN),
        ),
    )


def test_the_key_is_the_evaluation_id_and_the_headers_say_what_it_is() -> None:
    [message] = EvaluationTopic("out").messages(simple())
    assert (message.topic, message.key) == ("out", b"e-1")
    assert dict(message.headers) == {"sj-schema": b"1", "content-type": b"application/json"}


def test_every_field_of_the_wire_format_is_there_even_when_it_is_null() -> None:
    document = parse(EvaluationTopic("out").messages(simple())[0].value)
    assert document.keys() == Evaluation.model_fields.keys()
    assert document["composite"] == {
        "score": None,
        "status": "safety_unknown",
        "coverage": 0.0,
        "safety": {"level": None, "status": "unknown"},
    }
    assert document["dimensions"]["clarity"]["reason"] == "timeout"


def test_times_are_rfc_3339_in_utc_and_text_is_not_escaped() -> None:
    [message] = EvaluationTopic("out").messages(simple())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", parse(message.value)["evaluated_at"])
    assert "вопрос".encode() in (message.value or b"")


def test_the_schema_refuses_what_is_not_an_evaluation() -> None:
    document = parse(EvaluationTopic("out").messages(simple())[0].value)
    for broken in (
        {**document, "composite": None},
        {**document, "sampling": {**document["sampling"], "probability": 0}},
        {**document, "dimensions": {"clarity": {**document["dimensions"]["clarity"], "status": "excellent"}}},
        {key: value for key, value in document.items() if key != "evaluation_id"},
    ):
        with pytest.raises(jsonschema.ValidationError):
            validator(Evaluation).validate(broken)


def test_unknown_fields_of_a_later_version_are_passed_on() -> None:
    later = Evaluation.model_validate({**simple().model_dump(), "novelty": [1, 2]})
    document = parse(EvaluationTopic("out").messages(later)[0].value)
    validator(Evaluation).validate(document)
    assert document["novelty"] == [1, 2]
