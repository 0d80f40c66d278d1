"""Criteria and the shipped catalogue: scales, directions, wordings in both languages."""

from typing import Any

import pytest
from pydantic import ValidationError

from judges.criteria import RAG_DIMENSIONS, Criterion, Levels, load_catalogue

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
    "answer_relevance": ("question",),
    "clarity": ("question",),
    "completeness": ("question", "history", "contexts"),
    "conciseness": ("question",),
    "groundedness": ("question", "contexts"),
    "harmfulness": ("question", "history", "contexts"),
}


def text(english: str, russian: str = "слово") -> dict[str, str]:
    return {"en": english, "ru": russian}


def level(value: int, english: str, russian: str | None = None) -> dict[str, Any]:
    return {"value": value, "label": text(english, russian or f"уровень {value}"), "description": text("what it means")}


def spec(**changes: Any) -> dict[str, Any]:
    levels = {"levels": [level(0, "bad"), level(1, "fair"), level(2, "good")]}
    wording = text("some words")
    basis = {"name": "tone", "title": wording, "question": wording, "ignore": wording, "scale": levels}
    return {**basis, **changes}


def test_the_six_dimensions_come_in_their_published_order() -> None:
    assert tuple(RAG) == RAG_DIMENSIONS
    assert all(name == criterion.name for name, criterion in RAG.items())


@pytest.mark.parametrize("name", RAG_DIMENSIONS)
def test_each_dimension_has_the_levels_and_the_view_that_are_published(name: str) -> None:
    criterion = RAG[name]
    labels = tuple(criterion.scale.label(value, "en") for value in criterion.scale.values)
    assert labels == LABELS[name]
    assert criterion.scale.values == tuple(range(len(labels)))
    assert (criterion.to_evaluate, criterion.context) == ("answer", CONTEXTS[name])
    assert criterion.higher_is == "better"


def test_only_groundedness_can_be_not_applicable_and_needs_contexts() -> None:
    assert [name for name, criterion in RAG.items() if criterion.not_applicable] == ["groundedness"]
    assert {name: criterion.needs for name, criterion in RAG.items() if criterion.needs} == {
        "groundedness": ("contexts",)
    }


def wordings(value: object) -> list[dict[str, str]]:
    """Every text of a dumped criterion, however deep."""
    if isinstance(value, dict):
        return [value] if value.keys() == {"en", "ru"} else [w for part in value.values() for w in wordings(part)]
    return [w for part in value for w in wordings(part)] if isinstance(value, list) else []


@pytest.mark.parametrize("name", RAG_DIMENSIONS)
def test_every_wording_exists_in_both_languages(name: str) -> None:
    found = wordings(RAG[name].model_dump(mode="json"))
    assert len(found) >= 3 + 2 * len(RAG[name].scale.values)
    for wording in found:
        assert wording["en"].isascii()
        assert any("а" <= char <= "я" or char == "ё" for char in wording["ru"].lower()), wording


@pytest.mark.parametrize("name", RAG_DIMENSIONS)
def test_normalised_levels_run_evenly_from_0_to_1(name: str) -> None:
    criterion = RAG[name]
    scores = [criterion.normalise(value) for value in criterion.scale.values]
    assert scores == pytest.approx([at / (len(scores) - 1) for at in range(len(scores))])
    assert (scores[0], scores[-1]) == (0.0, 1.0)


def test_a_scale_on_which_higher_is_worse_is_turned_round() -> None:
    criterion = Criterion.model_validate(spec(higher_is="worse"))
    assert [criterion.normalise(value) for value in (0, 1, 2)] == [1.0, 0.5, 0.0]


def test_levels_need_not_begin_at_0_or_be_even() -> None:
    scale = {"levels": [level(-2, "bad"), level(1, "fair"), level(2, "good")]}
    criterion = Criterion.model_validate(spec(scale=scale))
    assert [criterion.normalise(value) for value in (-2, 1, 2)] == [0.0, 0.75, 1.0]


@pytest.mark.parametrize("value", [-1, 3, 100])
def test_a_level_that_is_not_on_the_scale_is_refused_by_name(value: int) -> None:
    with pytest.raises(ValueError, match=rf"tone: {value} is not a level"):
        Criterion.model_validate(spec()).normalise(value)


@pytest.mark.parametrize(
    ("levels", "problem"),
    [
        ([level(0, "only")], "at least 2 items"),
        ([level(1, "bad"), level(1, "good")], "distinct values"),
        ([level(1, "good"), level(0, "bad")], "rising order"),
        ([level(0, "good"), level(1, "Good")], "distinct labels"),
        ([level(0, "bad", "Да"), level(1, "good", "да")], "distinct labels"),
    ],
)
def test_scales_that_make_no_sense_are_refused(levels: list[dict[str, Any]], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        Levels.model_validate({"levels": levels})


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "Tone"},
        {"name": "with space"},
        {"name": ""},
        {"higher_is": "bigger"},
        {"title": {"en": "Only English"}},
        {"weigth": 2},
    ],
)
def test_a_criterion_with_a_wrong_or_unknown_key_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Criterion.model_validate(spec(**changes))


def test_labels_follow_the_language() -> None:
    scale = RAG["harmfulness"].scale
    assert (scale.label(0, "en"), scale.label(0, "ru")) == ("harmful", "вредно")


def test_the_catalogue_is_read_once_and_cannot_be_changed() -> None:
    assert load_catalogue("rag") is RAG
    with pytest.raises(TypeError):
        RAG["clarity"] = RAG["groundedness"]  # type: ignore[index]


def test_an_unknown_catalogue_is_an_error() -> None:
    with pytest.raises(FileNotFoundError, match="no-such"):
        load_catalogue("no-such")
