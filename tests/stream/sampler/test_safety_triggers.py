"""The safety triggers: each fires on its sign, rarely in healthy traffic, and the lexicon in unsafe traffic."""

import json
import random
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream.cli.demo import Regime, load_corpus, make_record
from stream.config.sections.input import InputConfig
from stream.config.sections.sampling import SafetyConfig
from stream.records.body import BodyReader
from stream.records.facts import LazyRecord
from stream.sampler.safety_triggers import Triggers, WordList

NATIVE = InputConfig()
MAPPED = InputConfig.model_validate(
    {
        "adapter": "mapping",
        "mapping": {
            "id": "id",
            "question": "in.q",
            "answer": "out.0.text",
            "contexts": "docs.found",
            "tags": "meta",
        },
    }
)
NOW = datetime(2026, 11, 15, tzinfo=UTC)
ALL = ("empty_contexts", "thumbs_down", "refusal", "lexicon")
WORDS = WordList()


def facts(record: Any) -> LazyRecord:
    return LazyRecord(b"k", record if isinstance(record, bytes) else json.dumps(record).encode(), 0)


def triggers(*names: str, records: InputConfig = NATIVE, **config: Any) -> Triggers:
    safety = SafetyConfig.model_validate({"triggers": names or ALL, **config})
    return Triggers(safety, BodyReader(records))


@pytest.fixture(scope="module")
def everything() -> Triggers:
    return triggers()


def record(**fields: Any) -> dict[str, Any]:
    return {"id": "1", "question": "How do I return shoes?", "answer": "Within 30 days.", **fields}


# Empty contexts


@pytest.mark.parametrize(
    ("contexts", "fires"),
    [([], True), ("", True), ([{"text": "x"}], False), ([[]], False), (None, False), ({}, False), ("x", False)],
)
def test_contexts_that_are_present_and_empty(contexts: object, fires: bool) -> None:
    value = record(contexts=contexts)
    assert (triggers("empty_contexts").first(facts(value)) == "empty_contexts") is fires
    mapped = {"id": "1", "in": {"q": "a"}, "out": [{"text": "b"}], "docs": {"found": contexts}}
    assert (triggers("empty_contexts", records=MAPPED).first(facts(mapped)) is not None) is fires


def test_a_record_without_contexts_does_not_trigger() -> None:
    assert triggers("empty_contexts").first(facts(record())) is None


def test_white_space_in_an_empty_list_is_ignored() -> None:
    assert triggers("empty_contexts").first(facts(b'{"contexts" : [ \n ] }')) == "empty_contexts"


# User feedback


@pytest.mark.parametrize("name", ["feedback", "thumbs", "rating"])
@pytest.mark.parametrize("value", ["down", "Thumbs_Down", " negative ", "👎", "-1", -1, -1.0, False, "bad", "нет"])
def test_common_forms_of_negative_feedback(name: str, value: object) -> None:
    subject = triggers("thumbs_down")
    assert subject.first(facts(record(tags={name: value}))) == "thumbs_down"
    assert triggers("thumbs_down", records=MAPPED).first(facts({"meta": {name: value}})) == "thumbs_down"


@pytest.mark.parametrize(
    "tags", [{}, None, {"feedback": "up"}, {"rating": 0}, {"rating": 1}, {"thumbs": True}, {"x": -1}]
)
def test_feedback_that_is_not_negative(tags: object) -> None:
    assert triggers("thumbs_down").first(facts(record(tags=tags))) is None


def test_configured_conditions_replace_the_default_ones() -> None:
    subject = triggers("thumbs_down", thumbs_down={"feedback.stars": {"max": 2}, "flags.0": "wrong"})
    assert subject.first(facts(record(feedback={"stars": 1}))) == "thumbs_down"
    assert subject.first(facts(record(flags=["wrong"], feedback={"stars": 5}))) == "thumbs_down"
    assert subject.first(facts(record(feedback={"stars": 3}, tags={"feedback": "down"}))) is None
    assert subject.all(facts(record(feedback={"stars": 1}))) == {"thumbs_down": "feedback.stars is at most 2"}


# Refusals


@pytest.mark.parametrize(
    ("answer", "fires"),
    [
        ("I'm sorry, but I can't help with that.", True),
        ("  Unfortunately, I am unable to find your order.", True),
        ("К сожалению, я не могу ответить на этот вопрос.", True),
        ("<think>He asks for shoes. I am happy to help.</think>Sorry, I cannot say.", True),
        ("<think>Sorry, this is hard.</think>Within 30 days.", False),
        ("You can return them within 30 days. " * 5 + "Sorry for the delay.", False),
        ("Within 30 days.", False),
        ("", False),
        (5, False),
        (None, False),
    ],
)
def test_an_answer_that_starts_like_a_refusal(answer: object, fires: bool) -> None:
    assert (triggers("refusal").first(facts(record(answer=answer))) == "refusal") is fires


# The lexicon


@pytest.mark.parametrize(
    "text",
    [
        "how to build a bomb",
        "Build a\nBOMB, at home",
        "расскажи, как сделать бомбу",
        "never BUILD — a “bomb”!",
        "kill yourself",
    ],
)
def test_harm_is_found_in_question_and_answer_in_any_case_and_in_warnings_too(text: str) -> None:
    subject = triggers("lexicon")
    assert subject.first(facts(record(answer=text))) == "lexicon"
    assert subject.first(facts(record(question=text))) == "lexicon"
    assert subject.first(facts(record(contexts=[{"text": text}]))) is None


def test_custom_words_phrases_and_prefixes() -> None:
    subject = WordList(["Acme*", "class action", "ёлка", "x-ray", "C++"])
    for text in ("the ACMEs are", "(class  action)", "Елка!", "an X-Ray", "in C++, say"):
        assert subject.first(text) is not None, text
    for text in ("pacme", "class reaction", "first class. Some action", "x ra", "елка1"):
        assert subject.first(text) is None, text


def test_every_trigger_names_the_sign_it_found(everything: Triggers) -> None:
    signs = everything.all(facts(record(answer="Sorry, I can build a bomb.", contexts=[], tags={"thumbs": "down"})))
    assert signs == {
        "empty_contexts": "contexts is empty",
        "thumbs_down": "tag thumbs is negative",
        "refusal": "the answer starts like a refusal",
        "lexicon": "answer contains 'build a bomb'",
    }
    assert set(everything.all(facts(record())).values()) == {None}


def test_a_long_text_is_searched_up_to_a_limit() -> None:
    assert WORDS.first("word " * 1000 + "build a bomb") is not None
    assert WORDS.first("word " * 100_000 + "build a bomb") is None


# All of them


def test_only_configured_triggers_are_checked() -> None:
    bad = record(answer="Sorry, build a bomb", contexts=[], tags={"thumbs": "down"})
    for name in ALL:
        assert triggers(name).first(facts(bad)) == name
        assert list(triggers(name).all(facts(bad))) == [name]


trees = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["rating", "text", "0"]), inner, max_size=3)
    ),
)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(("question", "answer", "contexts", "tags"), trees)))
def test_for_any_record_first_is_the_first_of_all_triggers_that_fire(fields: dict[str, object]) -> None:
    subject = triggers("empty_contexts", "thumbs_down", "refusal")
    all_signs = subject.all(facts(fields))
    assert subject.first(facts(fields)) == next((name for name, sign in all_signs.items() if sign), None)


def shares(regime: Regime, subject: Triggers) -> dict[str, float]:
    """Return how often each trigger fires in generated traffic of one regime."""
    corpus, rng, counts = load_corpus(), random.Random(11), dict.fromkeys(ALL, 0)
    records = [make_record(corpus, group, regime, rng, NOW) for group in corpus.groups for _ in range(4)]
    for generated in records:
        for name, sign in subject.all(facts(generated.value)).items():
            counts[name] += sign is not None
    return {name: count / len(records) for name, count in counts.items()}


def test_few_healthy_interactions_fire_a_trigger(everything: Triggers) -> None:
    rates = shares(Regime.HEALTHY, everything)
    assert rates["lexicon"] < 0.02
    assert rates["refusal"] < 0.05
    assert rates["thumbs_down"] == rates["empty_contexts"] == 0


def test_nearly_all_unsafe_answers_are_detected(everything: Triggers) -> None:
    assert shares(Regime.UNSAFE, everything)["lexicon"] > 0.95
