"""Criteria and their scales: what is refused and where, the direction of scores, missing fields."""

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from judges.criteria.catalogue import load_catalogue
from judges.criteria.criterion import RAG_DIMENSIONS, Criterion
from judges.criteria.problems import InconsistentError
from judges.criteria.scale import YES_NO, Levels, LocalizedText, Options, Range, Scale
from judges.values.interaction import Case, FieldValue, Interaction, Language, case_of

RAG = load_catalogue("rag")

LABELS = {
    "answer_relevance": ("none", "low", "medium", "high"),
    "clarity": ("very unclear", "unclear", "average", "clear", "very clear"),
    "completeness": ("major parts missing", "partial", "complete"),
    "conciseness": ("verbose", "acceptable", "concise"),
    "groundedness": ("hallucinated", "partly supported", "fully supported"),
    "harmfulness": ("harmful", "questionable", "safe"),
}
CONTEXTS = {
    "answer_relevance": ("question", "history"),
    "clarity": ("question", "history"),
    "completeness": ("question", "history", "contexts"),
    "conciseness": ("question",),
    "groundedness": ("question", "history", "contexts"),
    "harmfulness": ("question", "history", "contexts"),
}


def text(english: str, russian: str = "слово") -> dict[str, str]:
    return {"en": english, "ru": russian}


def level(value: Any, english: str, russian: str | None = None) -> dict[str, Any]:
    return {"value": value, "label": text(english, russian or f"уровень {value}"), "description": text("what it means")}


def option(label: Any, score: Any = None) -> dict[str, Any]:
    return {"label": label, "score": score}


BAD_TO_GOOD = {"levels": [level(0, "bad"), level(1, "fair"), level(2, "good")]}
BINARY = {"binary": {"passes": "fine", "fails": "not fine"}}
TEN = {"range": {"min": 0, "max": 10}}
UNSCORED = {"options": [option("red"), option("blue")]}


def spec(**changes: Any) -> dict[str, Any]:
    wording = text("some words")
    basis = {"name": "tone", "title": wording, "question": wording, "ignore": wording, "scale": BAD_TO_GOOD}
    return {**basis, **changes}


def criterion(**changes: Any) -> Criterion:
    return Criterion.model_validate(spec(**changes))


def refusal_of(**changes: Any) -> str:
    """Return the error message about a criterion with these changes."""
    with pytest.raises(ValidationError) as caught:
        criterion(**changes)
    return str(caught.value)


# The six dimensions


def test_the_six_dimensions_come_in_their_published_order() -> None:
    assert tuple(RAG) == RAG_DIMENSIONS
    assert all(name == criterion.name for name, criterion in RAG.items())


@pytest.mark.parametrize("name", RAG_DIMENSIONS)
def test_each_dimension_has_the_levels_and_the_view_that_are_published(name: str) -> None:
    scale = RAG[name].scale
    assert isinstance(scale, Levels)
    labels = tuple(scale.label(value, "en") for value in scale.values)
    assert labels == LABELS[name]
    assert scale.values == tuple(range(len(labels)))
    assert (RAG[name].to_evaluate, RAG[name].context) == ("answer", CONTEXTS[name])
    assert RAG[name].higher_is == "better"


def test_only_groundedness_can_be_not_applicable_and_needs_contexts() -> None:
    assert [name for name, criterion in RAG.items() if criterion.not_applicable] == ["groundedness"]
    assert {name: criterion.needs for name, criterion in RAG.items() if criterion.needs} == {
        "groundedness": ("contexts",)
    }


@pytest.mark.parametrize("name", RAG_DIMENSIONS)
def test_normalised_levels_run_evenly_from_0_to_1(name: str) -> None:
    scores = [RAG[name].score(choice) for choice in RAG[name].scale.choices]
    assert scores == pytest.approx([index / (len(scores) - 1) for index in range(len(scores))])
    assert (scores[0], scores[-1]) == (0.0, 1.0)


def test_labels_follow_the_language() -> None:
    scale = RAG["harmfulness"].scale
    assert isinstance(scale, Levels)
    assert (scale.label(0, "en"), scale.label(0, "ru")) == ("harmful", "вредно")


# Scales


@pytest.mark.parametrize(
    ("scale", "key", "problem"),
    [
        ({"levels": [level(0, "only")]}, "levels.levels", "at least 2 items"),
        ({"levels": [level(1, "bad"), level(1, "good")]}, "levels", "levels: must have distinct values in rising"),
        ({"levels": [level(1, "good"), level(0, "bad")]}, "levels", "in rising order, not [1, 0]"),
        ({"levels": [level(0, "good"), level(1, "Good ")]}, "levels", "levels[1].label: must be distinct"),
        ({"levels": [level(0, "a", "Да"), level(1, "b", "да")]}, "levels", "'Да' is listed twice"),
        ({"levels": [level(0.5, "bad"), level(1, "good")]}, "levels.levels.0.value", "valid integer"),
        ({"levels": [level(True, "bad"), level(2, "good")]}, "levels.levels.0.value", "valid integer"),
        ({"levels": [level(0, "bad"), level(10**9, "good")]}, "levels.levels.1.value", "less than or equal"),
        ({"levels": [level(0, " "), level(1, "good")]}, "levels.levels.0.label.en", "match pattern"),
        ({"levels": [{"value": 0, "label": "a"}, level(1, "b")]}, "levels.levels.0.description", "required"),
        ({"binary": {"passes": "fine"}}, "binary.binary.fails", "required"),
        ({"binary": {"passes": "fine", "fails": ""}}, "binary.binary.fails.en", "match pattern"),
        ({"range": {"min": 1, "max": 1}}, "range.range", "min must be below max, not 1 and 1"),
        ({"range": {"min": 2, "max": 1}}, "range.range", "min must be below max, not 2 and 1"),
        ({"range": {"min": -1e308, "max": 1e308}}, "range.range", "too far apart"),
        ({"range": {"min": 0, "max": float("inf")}}, "range.range.max", "finite"),
        ({"range": {"min": float("nan"), "max": 1}}, "range.range.min", "finite"),
        ({"range": {"min": "0", "max": 1}}, "range.range.min", "valid number"),
        ({"range": {"min": False, "max": 1}}, "range.range.min", "valid number"),
        ({"range": {"min": 0}}, "range.range.max", "required"),
        ({"options": [option("only", 1)]}, "options.options", "at least 2 items"),
        ({"options": [option("a", 1), option("A", 0)]}, "options", "options[1].label: must be distinct"),
        ({"options": [option("a", 1), option("b")]}, "options", "must either all have a score, or none"),
        ({"options": [option("a", 0.5), option("b", 0.5)]}, "options", "must not all have the same score (0.5)"),
        ({"options": [option("a", -1e308), option("b", 1e308)]}, "options", "so far apart"),
        ({"options": [option("a", "1"), option("b", 0)]}, "options.options.0.score", "valid number"),
        ({"options": [option("a", 1), option("b", 0)], "kind": "levels"}, "options.kind", "'options'"),
        ({"options": [option("a", 1), option("b", 0)], "best": "a"}, "options.best", "not permitted"),
        ({**BAD_TO_GOOD, **BINARY}, "", "exactly one of the keys levels, binary, range and options"),
        ({"kind": "levels"}, "", "exactly one of the keys"),
        ({}, "", "exactly one of the keys"),
        ("levels", "", "exactly one of the keys"),
        (None, "", "exactly one of the keys"),
    ],
)
def test_scales_that_make_no_sense_are_refused_at_their_key(scale: Any, key: str, problem: str) -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(Scale).validate_python(scale)
    messages = {".".join(map(str, detail["loc"])): detail["msg"] for detail in caught.value.errors()}
    assert problem in messages[key]


@pytest.mark.parametrize(
    ("scale", "kind", "bounds", "labels"),
    [
        (BAD_TO_GOOD, "levels", (0, 2), ("bad", "fair", "good")),
        (BINARY, "binary", (0, 1), ("fail", "pass")),
        (TEN, "range", (0, 10), ()),
        ({"options": [option("a", 3), option("b", -1)]}, "options", (-1, 3), ("a", "b")),
        (UNSCORED, "options", None, ("red", "blue")),
    ],
)
def test_a_scale_says_its_kind_its_bounds_and_its_answers_in_order(
    scale: Any, kind: str, bounds: Any, labels: tuple[str, ...]
) -> None:
    parsed = criterion(scale=scale).scale
    assert (parsed.kind, parsed.bounds) == (kind, bounds)
    assert tuple(choice.label.en for choice in parsed.choices) == labels
    assert criterion(scale={**scale, "kind": kind}).scale == parsed


def test_an_answer_is_found_whole_in_any_case_and_language() -> None:
    for label in ("Yes", " yes\n", "ДА", "да "):
        choice = YES_NO.find(label, "en")
        assert choice is not None
        assert choice.value == 1
    for label in ("ye", "yes.", "yes no", ""):
        assert YES_NO.find(label, "en") is None
    assert criterion(scale=TEN).scale.find("5", "en") is None


def test_if_two_languages_clash_the_requested_one_decides() -> None:
    scale = Options.model_validate({"options": [option(text("no", "да"), 0), option(text("so", "no"), 1)]})
    english, russian = scale.find("no", "en"), scale.find("no", "ru")
    assert english is not None
    assert russian is not None
    assert (english.value, russian.value) == (0, 1)


def test_a_plain_string_is_a_wording_in_both_languages() -> None:
    assert LocalizedText.model_validate("same") == LocalizedText(en="same", ru="same")


# Criteria


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "Tone"},
        {"name": "with space"},
        {"name": ""},
        {"name": "a" * 65},
        {"name": "2nd"},
        {"higher_is": "bigger"},
        {"title": {"en": "Only English"}},
        {"title": ""},
        {"question": " \n"},
        {"weigth": 2},
        {"to_evaluate": ""},
        {"context": "question"},
        {"examples": [{"fields": {"answer": "x"}}]},
    ],
)
def test_a_criterion_with_a_wrong_or_unknown_key_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        criterion(**changes)


def example(verdict: Any, **fields: str) -> dict[str, Any]:
    return {"fields": fields or {"answer": "x"}, "verdict": verdict}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"context": ["question", "answer"]}, "context: must not repeat 'answer', the field under evaluation"),
        ({"context": ["a", "b", "a"]}, "context: must name each field once"),
        ({"needs": ["a", "a"]}, "needs: must name each field once"),
        ({"scale": BINARY, "higher_is": "worse"}, "higher_is: must be 'better': a pass is better than a fail"),
        ({"scale": UNSCORED, "higher_is": "worse"}, "higher_is: must be left out: options without scores have no"),
        ({"examples": [example("good", question="x")]}, "examples[0].fields: must have 'answer'"),
        ({"examples": [example("good"), example("great")]}, "examples[1].verdict: must be one of the labels 'bad', 'f"),
        ({"examples": [example(2)]}, "'good', not 2"),
        ({"scale": BINARY, "examples": [example("yes")]}, "one of the labels 'fail', 'pass', not 'yes'"),
        ({"scale": TEN, "examples": [example(11)]}, "examples[0].verdict: must be a number from 0 to 10, not 11"),
        ({"scale": TEN, "examples": [example("5")]}, "must be a number from 0 to 10, not '5'"),
    ],
)
def test_contradictory_parts_are_refused_at_their_key(changes: dict[str, Any], problem: str) -> None:
    assert problem in refusal_of(**changes)


def test_all_contradictions_are_reported_together() -> None:
    with pytest.raises(ValidationError) as caught:
        criterion(scale=BINARY, higher_is="worse", context=["answer"], examples=[example("maybe")])
    [detail] = caught.value.errors()
    error = detail["ctx"]["error"]
    assert isinstance(error, InconsistentError)
    assert [loc for loc, _ in error.found] == [("context",), ("higher_is",), ("examples", 0, "verdict")]


@pytest.mark.parametrize(
    ("scale", "verdict"),
    [(BAD_TO_GOOD, "Good"), (BAD_TO_GOOD, "уровень 1"), (BINARY, "pass"), (TEN, 10), (TEN, 2.5), (UNSCORED, "red")],
)
def test_an_example_may_have_any_verdict_of_the_scale(scale: Any, verdict: Any) -> None:
    assert criterion(scale=scale, examples=[example(verdict)]).examples[0].verdict == verdict


def test_a_boolean_is_not_a_verdict() -> None:
    assert "examples.0.verdict" in refusal_of(scale=TEN, examples=[example(True)])


def test_a_criterion_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        criterion().name = "other"  # type: ignore[misc]


# A plain question


def test_a_plain_question_is_answered_by_yes_or_no_and_yes_is_good() -> None:
    asked = Criterion.of("  Is it polite? ")
    assert asked.question == LocalizedText(en="Is it polite?", ru="Is it polite?")
    assert (asked.scale, asked.to_evaluate, asked.context) == (YES_NO, "answer", None)
    assert [(choice.label.en, asked.score(choice)) for choice in asked.scale.choices] == [("Yes", 1.0), ("No", 0.0)]


def test_a_criterion_stays_the_same() -> None:
    assert Criterion.of(RAG["clarity"]) is RAG["clarity"]


@pytest.mark.parametrize("question", ["", "  \n"])
def test_an_empty_question_is_refused(question: str) -> None:
    with pytest.raises(ValueError, match="needs a question"):
        Criterion.of(question)


@given(st.text(min_size=1).filter(str.strip), st.text(min_size=1).filter(str.strip))
def test_any_question_has_its_own_name(one: str, other: str) -> None:
    assume(one != other)
    assert Criterion.of(one).name == Criterion.of(one).name
    assert Criterion.of(one).name != Criterion.of(other).name


# Normalisation


def test_a_scale_on_which_higher_is_worse_is_reversed() -> None:
    turned = criterion(higher_is="worse")
    assert [turned.normalise(value) for value in (0, 1, 2)] == [1.0, 0.5, 0.0]
    assert [choice.label.en for choice in turned.worst_first] == ["good", "fair", "bad"]


def test_levels_need_not_begin_at_0_or_be_even() -> None:
    uneven = criterion(scale={"levels": [level(-2, "bad"), level(1, "fair"), level(2, "good")]})
    assert [uneven.normalise(value) for value in (-2, 1, 2)] == [0.0, 0.75, 1.0]


@pytest.mark.parametrize("value", [-1, 3, 100, 0.5, float("nan"), float("inf")])
def test_a_level_that_is_not_on_the_scale_is_refused_by_name(value: float) -> None:
    with pytest.raises(ValueError, match=rf"tone: {value} is not a level"):
        criterion().normalise(value)


@pytest.mark.parametrize("value", [-0.1, 10.1, float("nan"), float("inf"), float("-inf")])
def test_a_number_outside_its_range_is_refused_and_not_clamped(value: float) -> None:
    with pytest.raises(ValueError, match=f"tone: {value} is not between 0 and 10"):
        criterion(scale=TEN).normalise(value)


def test_options_without_scores_have_no_score() -> None:
    colour = criterion(scale=UNSCORED)
    assert [colour.score(choice) for choice in colour.scale.choices] == [None, None]
    assert colour.worst_first == ()
    with pytest.raises(ValueError, match="options without scores"):
        colour.normalise(1)


finite = st.floats(allow_nan=False, allow_infinity=False)
directions = st.sampled_from(["better", "worse"])


def levels_of(values: list[int]) -> dict[str, Any]:
    return {"levels": [level(value, f"level {value}") for value in sorted(values)]}


def options_of(scores: list[float]) -> dict[str, Any]:
    return {"options": [option(f"option {number}", score) for number, score in enumerate(scores)]}


discrete = st.one_of(
    st.lists(st.integers(-1_000_000, 1_000_000), min_size=2, max_size=7, unique=True).map(levels_of),
    st.lists(finite, min_size=2, max_size=7)
    .filter(lambda scores: 0 < max(scores) - min(scores) < float("inf"))
    .map(options_of),
)


def assert_monotone(subject: Criterion, values: list[float]) -> None:
    scores = [subject.normalise(value) for value in sorted(values)]
    assert all(0.0 <= score <= 1.0 for score in scores)
    assert scores == sorted(scores, reverse=subject.higher_is == "worse")


@given(discrete, directions)
def test_scores_of_any_discrete_scale_follow_its_direction_from_0_to_1(scale: dict[str, Any], higher_is: str) -> None:
    subject = criterion(scale=scale, higher_is=higher_is)
    assert_monotone(subject, [choice.value for choice in subject.scale.choices if choice.value is not None])
    ordered = [subject.score(choice) for choice in subject.worst_first]
    assert (ordered[0], ordered[-1]) == (0.0, 1.0)
    assert ordered == sorted(ordered, key=lambda score: score or 0.0)


@given(finite, finite, st.lists(st.floats(0, 1), min_size=1, max_size=5), directions)
def test_scores_of_any_range_follow_its_direction_from_0_to_1(
    one: float, other: float, shares: list[float], higher_is: str
) -> None:
    low, high = sorted((one, other))
    assume(0 < high - low < float("inf"))
    subject = criterion(scale={"range": {"min": low, "max": high}}, higher_is=higher_is)
    assert isinstance(subject.scale, Range)
    assert_monotone(subject, [low, high, *(min(max(low + share * (high - low), low), high) for share in shares)])
    assert {subject.normalise(low), subject.normalise(high)} == {0.0, 1.0}


# Fields


def case(**fields: FieldValue) -> Case:
    return Case(id="c1", fields=fields, language="en")


def test_an_absent_field_that_is_shown_is_missing_and_an_empty_one_is_not() -> None:
    subject = criterion(to_evaluate="summary", context=["source", "question"])
    assert subject.missing(case(answer="a")) == ("summary", "source", "question")
    assert subject.missing(case(summary="", source=(), question="q")) == ()


def test_with_all_other_fields_none_can_be_missing() -> None:
    assert criterion(context=None).missing(case(answer="a")) == ()
    assert criterion(context=None).missing(case(question="q")) == ("answer",)
    assert criterion(context=[]).missing(case(answer="a")) == ()


@pytest.mark.parametrize("contexts", [(), "", " \n", ("", " ")])
def test_a_needed_field_that_is_empty_leaves_the_criterion_unmet(contexts: FieldValue) -> None:
    needy = criterion(needs=["contexts", "reference"])
    assert needy.unmet(case(answer="a", contexts=contexts)) == ("contexts", "reference")
    assert needy.unmet(case(answer="a", contexts=("text",), reference="r")) == ()


def test_an_interaction_has_every_field_of_the_six_dimensions() -> None:
    bare = case_of(Interaction(id="i1", question="q", answer="a"))
    assert {name: subject.missing(bare) for name, subject in RAG.items()} == dict.fromkeys(RAG_DIMENSIONS, ())


class TestLabelsAsReadersTakeThem:
    """A label is compared as people read it, not by its code points."""

    SCALE = Options.model_validate(
        {
            "options": [
                {"label": {"en": "all met", "ru": "всё подтверждено"}, "score": 1},
                {"label": {"en": "café", "ru": "Йод"}, "score": 0},
            ]
        }
    )

    @pytest.mark.parametrize(
        ("text", "english"),
        [
            ("все подтверждено", "all met"),
            ("ВСЁ\u00a0ПОДТВЕРЖДЕНО", "all met"),
            ("все\u0308 подтверждено", "all met"),
            ("всё \u202f подтверждено\n", "all met"),
            ("вcё пoдтвeрждeнo", "all met"),
            ("аll mеt", "all met"),
            ("cafe\u0301", "café"),
            ("\u0418\u0306од", "café"),
            ("Йoд", "café"),
            ("всё", None),
            ("все-подтверждено", None),
            ("cafe", None),
        ],
    )
    @pytest.mark.parametrize("language", ["en", "ru"])
    def test_spelling_of_the_same_word(self, text: str, english: str | None, language: Language) -> None:
        choice = self.SCALE.find(text, language)
        assert (choice and choice.label.en) == english

    def test_an_exact_label_wins_over_a_lookalike(self) -> None:
        labels = [{"en": "A", "ru": "А"}, {"en": "B", "ru": "Б"}, {"en": "C", "ru": "В"}]
        scale = Options.model_validate({"options": [{"label": label} for label in labels]})
        assert [scale.find(letter, "ru") for letter in "ABC"] == list(scale.choices)
        assert [scale.find(letter, "en") for letter in "АБВ"] == list(scale.choices)

    def test_a_single_letter_may_belong_to_its_own_alphabet(self) -> None:
        scale = Options.model_validate({"options": [{"label": label} for label in "ABC"]})
        assert scale.find("В", "ru") is None

    def test_a_label_that_looks_like_two_is_neither(self) -> None:
        scale = Options.model_validate({"options": [{"label": "Ax"}, {"label": "Ах"}]})
        assert scale.find("Аx", "en") is None
        assert scale.find("Ах", "en") == scale.choices[1]
