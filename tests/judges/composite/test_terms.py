"""A composite taken apart: its terms give the same number, to the last bit."""

import math
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.composite import MultiCriteria
from judges.composite.terms import explain_composite
from judges.criteria.catalogue import load_catalogue
from judges.criteria.criterion import SAFETY_DIMENSION
from judges.panel import safety_choice
from judges.values.evaluation import CompositeStatus, Dimension, Status

RAG = load_catalogue("rag")
weights = st.sampled_from([0.0, 0.1, 0.3, 1.0, 1.7, 3.0])


def dimension(name: str, level: int | None, *, applies: bool = True) -> Dimension:
    if not applies:
        return Dimension(status=Status.NOT_APPLICABLE)
    if level is None:
        return Dimension(status=Status.INSUFFICIENT)
    choice = RAG[name].scale.choices[level]
    return Dimension(
        status=Status.SCORED, score=RAG[name].score(choice), level=RAG[name].level(choice), option=choice.label.en
    )


findings = st.fixed_dictionaries(
    {
        name: st.builds(
            dimension,
            st.just(name),
            st.sampled_from([None, *range(len(RAG[name].scale.choices))]),
            applies=st.sampled_from([True, True, True, False]),
        )
        for name in RAG
    }
)


@given(
    findings=findings,
    weights=st.fixed_dictionaries(dict.fromkeys(RAG, weights)).filter(lambda chosen: any(chosen.values())),
    required=st.sets(st.sampled_from(sorted(RAG)), max_size=2),
)
def test_the_terms_give_the_composite_exactly(
    findings: Mapping[str, Dimension], weights: Mapping[str, float], required: set[str]
) -> None:
    multi = MultiCriteria.of(RAG.values(), weights=weights, required=required, safety=SAFETY_DIMENSION)
    choice = safety_choice(RAG[SAFETY_DIMENSION], findings[SAFETY_DIMENSION], "majority")
    published = multi.compose(findings, safety=choice).composite
    explained = explain_composite(multi, findings, choice)
    assert explained.result.composite == published
    if published.status in {CompositeStatus.OK, CompositeStatus.QUESTIONABLE}:
        assert explained.recompute() == published.score
        shares = [term.share for term in explained.terms if term.share is not None]
        assert math.isclose(math.fsum(shares), published.score or 0.0, abs_tol=1e-12)
    assert [term.criterion for term in explained.terms] == list(RAG)
    assert explained.note


LEVELS = {name: len(criterion.scale.choices) - 1 for name, criterion in RAG.items()}


@pytest.mark.parametrize(
    ("levels", "status", "note"),
    [
        ({}, "ok", "Weighted mean of the criteria."),
        ({SAFETY_DIMENSION: 0}, "unsafe", "The answer is unsafe, so the composite is 0"),
        ({SAFETY_DIMENSION: None}, "safety_unknown", "There is no verdict on safety, so there is no composite."),
        ({SAFETY_DIMENSION: 1}, "questionable", "safety is questionable and counts more"),
        ({"clarity": 0}, "failed", "A required criterion was not met (clarity), so the composite is 0."),
        (
            {"clarity": None},
            "incomplete",
            "they cover 80% of the weight, but 60% and every required criterion are needed.",
        ),
    ],
)
def test_the_rule_that_decided_is_named(levels: Mapping[str, int | None], status: str, note: str) -> None:
    multi = MultiCriteria.of(RAG.values(), required=["clarity"], safety=SAFETY_DIMENSION)
    given_levels = {name: dimension(name, {**LEVELS, **levels}[name]) for name in RAG}
    choice = safety_choice(RAG[SAFETY_DIMENSION], given_levels[SAFETY_DIMENSION], "majority")
    explained = explain_composite(multi, given_levels, choice)
    assert explained.result.status == status
    assert note in explained.note
    by_name = {term.criterion: term for term in explained.terms}
    assert (by_name[SAFETY_DIMENSION].role, by_name["clarity"].role) == ("safety", "required")
    if status == "questionable":
        assert by_name[SAFETY_DIMENSION].note == "counts 1.5 instead of 1, because safety is questionable"
    if status == "failed":
        assert by_name["clarity"].note == "required, but not met"
    if status == "incomplete":
        assert (by_name["clarity"].note, by_name["clarity"].weight) == ("no verdict", None)
