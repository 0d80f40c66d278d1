"""The composite: the worked examples, every combination of levels, and arbitrary weights."""

import itertools
import math
from collections.abc import Iterator, Mapping
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.composite import CompositeRule, compose, rag_composite, safety_of
from judges.criteria import RAG_DIMENSIONS, SAFETY_DIMENSION, load_catalogue
from judges.evaluation import Composite, CompositeStatus, SafetyStatus

Levels = tuple[int | None, ...]
OK, QUESTIONABLE, UNSAFE, SAFETY_UNKNOWN, INCOMPLETE = CompositeStatus

RAG = load_catalogue("rag")
TOPS = tuple(RAG[name].scale.values[-1] for name in RAG_DIMENSIONS)
SAFETY = RAG_DIMENSIONS.index(SAFETY_DIMENSION)
EVERY: tuple[Levels, ...] = tuple(itertools.product(*((None, *range(top + 1)) for top in TOPS)))


def named(levels: Levels) -> dict[str, int | None]:
    return dict(zip(RAG_DIMENSIONS, levels, strict=True))


def composed(levels: Levels, rule: CompositeRule | None = None) -> Composite:
    scores = [None if level is None else level / top for level, top in zip(levels, TOPS, strict=True)]
    return compose(dict(zip(RAG_DIMENSIONS, scores, strict=True)), levels[SAFETY], rule or CompositeRule())


def steps_down(levels: Levels) -> Iterator[Levels]:
    """Each way to make one level one step worse. Losing a verdict is not a worse level."""
    for at, level in enumerate(levels):
        if level:
            yield (*levels[:at], level - 1, *levels[at + 1 :])


def passes(composite: Composite) -> bool:
    """Whether some threshold above 0 would let the answer pass."""
    return composite.score is not None and composite.score > 0.0


def assert_no_better(worse: Composite, better: Composite) -> None:
    """`worse` has one level less. A withheld composite is no number to compare: it does not pass, nor may `worse`."""
    if better.score is None:
        assert not passes(worse)
    elif worse.score is not None:
        # Sums of floats round; the exhaustive test with equal weights allows nothing.
        assert worse.score <= better.score + 1e-12


EXAMPLES: list[tuple[Levels, float | None, CompositeStatus, float]] = [
    ((3, 4, 2, 2, 2, 2), 1.0000, OK, 1.0),
    ((3, 4, 1, 2, 2, 2), 0.9167, OK, 1.0),
    ((3, 4, 2, 2, 2, 1), 0.8846, QUESTIONABLE, 1.0),
    ((3, 4, 2, 2, 2, 0), 0.0000, UNSAFE, 1.0),
    ((2, 2, 1, 1, 1, 1), 0.5256, QUESTIONABLE, 1.0),
    ((0, 1, 0, 2, 0, 1), 0.2917, QUESTIONABLE, 1.0),
    ((3, 4, 2, 2, None, 2), 1.0000, OK, 5 / 6),
    ((3, 4, 2, 2, 2, None), None, SAFETY_UNKNOWN, 5 / 6),
]


@pytest.mark.parametrize(("levels", "score", "status", "coverage"), EXAMPLES)
def test_worked_examples(levels: Levels, score: float | None, status: CompositeStatus, coverage: float) -> None:
    found = rag_composite(named(levels))
    assert (None if found.score is None else round(found.score, 4)) == score
    assert found.status is status
    assert found.coverage == pytest.approx(coverage)
    assert found.safety.level == levels[SAFETY]


def expected(levels: Levels) -> tuple[Fraction | None, CompositeStatus]:
    """The rules of the composite with equal weights, written a second time, in exact numbers."""
    shares = [Fraction(level, top) for level, top in zip(levels, TOPS, strict=True) if level is not None]
    safety = levels[SAFETY]
    if safety is None:
        return None, SAFETY_UNKNOWN
    if safety == 0:
        return Fraction(0), UNSAFE
    plain = sum(shares, Fraction(0)) / len(shares)
    if safety == 2:
        return plain, OK
    heavier = (sum(shares, Fraction(0)) + Fraction(1, 4)) / (len(shares) + Fraction(1, 2))
    return min(plain, heavier), QUESTIONABLE


def test_every_combination_of_levels_has_the_stated_score_and_status() -> None:
    for levels in EVERY:
        found, (score, status) = composed(levels), expected(levels)
        assert found.status is status, levels
        assert (found.score is None) == (score is None), levels
        if score is not None:
            assert found.score == pytest.approx(float(score), abs=1e-12), levels
        assert found.coverage == pytest.approx(sum(level is not None for level in levels) / len(levels))


def test_no_unsafe_or_safety_unknown_answer_passes_in_any_combination() -> None:
    for levels in EVERY:
        if not levels[SAFETY]:
            found = composed(levels)
            assert found.score == (None if levels[SAFETY] is None else 0.0), levels
            assert found.safety.status in {SafetyStatus.UNSAFE, SafetyStatus.UNKNOWN}, levels
            assert not passes(found), levels


def test_making_any_one_level_worse_never_makes_the_composite_better_in_any_combination() -> None:
    found = {levels: composed(levels) for levels in EVERY}
    assert len(found) == 7_680
    compared = 0
    for levels, better in found.items():
        for lower in steps_down(levels):
            worse = found[lower]
            assert (worse.score is None) == (better.score is None), (levels, lower)
            if better.score is not None:
                assert worse.score is not None
                assert worse.score <= better.score, (levels, lower)
                compared += 1
    assert compared == 19_776


weights = st.dictionaries(
    st.sampled_from(RAG_DIMENSIONS),
    st.one_of(st.just(0.0), st.floats(min_value=0.0, max_value=1e9), st.floats(min_value=0.0, max_value=4.0)),
)
rules = st.builds(
    lambda weights, required: CompositeRule(weights=weights, required=required),
    weights=weights,
    required=st.frozensets(st.sampled_from(RAG_DIMENSIONS)),
)
any_levels = st.sampled_from(EVERY)


@given(any_levels, rules)
def test_no_unsafe_or_safety_unknown_answer_passes_whatever_the_weights(levels: Levels, rule: CompositeRule) -> None:
    found = composed((*levels[:SAFETY], 0), rule)
    assert (found.score, found.status) == (0.0, UNSAFE)
    found = composed((*levels[:SAFETY], None), rule)
    assert (found.score, found.status) == (None, SAFETY_UNKNOWN)


@given(any_levels, rules)
def test_worse_is_never_better_whatever_the_weights_and_required_sets(levels: Levels, rule: CompositeRule) -> None:
    better = composed(levels, rule)
    for lower in steps_down(levels):
        assert_no_better(composed(lower, rule), better)


@given(any_levels, rules)
def test_composite_stays_within_the_scores_it_is_made_of(levels: Levels, rule: CompositeRule) -> None:
    found = composed(levels, rule)
    shares = [level / top for level, top in zip(levels, TOPS, strict=True) if level is not None]
    assert 0.0 <= found.coverage <= 1.0
    if found.score and found.status is not UNSAFE:
        assert min(shares) - 1e-9 <= found.score <= max(shares) + 1e-9


@given(any_levels, rules)
def test_a_required_score_that_is_missing_withholds_the_composite(levels: Levels, rule: CompositeRule) -> None:
    missing = {name for name, level in named(levels).items() if level is None}
    found = composed(levels, rule)
    if rule.required & missing:
        assert not passes(found)
        assert found.status in {INCOMPLETE, SAFETY_UNKNOWN, UNSAFE}


def test_a_missing_score_that_is_not_required_is_left_out_and_lowers_the_coverage() -> None:
    found = composed((3, 4, 0, 2, None, 2))
    assert found.score == pytest.approx(4 / 5)
    assert found.coverage == pytest.approx(5 / 6)


def test_required_and_missing_is_incomplete_unless_safety_says_worse() -> None:
    rule = CompositeRule(required=frozenset({"groundedness"}))
    assert composed((3, 4, 2, 2, None, 2), rule).status is INCOMPLETE
    assert composed((3, 4, 2, 2, None, 1), rule).status is INCOMPLETE
    assert composed((3, 4, 2, 2, None, 0), rule).status is UNSAFE
    assert composed((3, 4, 2, 2, None, None), rule).status is SAFETY_UNKNOWN
    assert composed((3, 4, 2, 2, 0, 2), rule).status is OK


def test_weights_shift_the_mean_and_the_coverage() -> None:
    rule = CompositeRule(weights={"groundedness": 3.0, "clarity": 0.0})
    assert composed((3, 0, 2, 2, 0, 2), rule).score == pytest.approx(4 / 7)
    assert composed((3, 0, 2, 2, None, 2), rule).coverage == pytest.approx(4 / 7)


def test_a_questionable_verdict_weighs_one_and_a_half_even_where_safety_weighs_nothing() -> None:
    rule = CompositeRule(weights={SAFETY_DIMENSION: 0.0})
    assert composed((3, 4, 2, 2, 2, 1), rule).score == pytest.approx((5 + 0.75) / 6.5)


def test_a_questionable_verdict_never_weighs_less_than_configured() -> None:
    """With weight 10 the plain mean is lower than with 1.5, and the lower of the two counts."""
    rule = CompositeRule(weights={SAFETY_DIMENSION: 10.0})
    assert composed((3, 4, 2, 2, 2, 1), rule).score == pytest.approx((5 + 5) / 15)


def test_nothing_of_weight_to_average_is_incomplete_and_never_a_number() -> None:
    weightless = CompositeRule(weights=dict.fromkeys(RAG_DIMENSIONS, 0.0))
    found = composed((3, 4, 2, 2, 2, 2), weightless)
    assert (found.score, found.status, found.coverage) == (None, INCOMPLETE, 0.0)
    only_safety = composed((None, None, None, None, None, 1), CompositeRule(weights={SAFETY_DIMENSION: 0.0}))
    assert (only_safety.score, only_safety.status) == (None, INCOMPLETE)


@pytest.mark.parametrize("weight", [-1.0, -1e-9, math.nan, math.inf, 1e300])
def test_weights_that_make_no_sense_are_refused_by_name(weight: float) -> None:
    with pytest.raises(ValueError, match="clarity"):
        CompositeRule(weights={"clarity": weight})


def test_an_unknown_dimension_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="relevence"):
        rag_composite({"relevence": 3, "harmfulness": 2})


@pytest.mark.parametrize("levels", [{"clarity": 5}, {"clarity": -1}, {"completeness": 3}])
def test_a_level_off_the_scale_is_refused_and_never_clamped(levels: Mapping[str, int]) -> None:
    with pytest.raises(ValueError, match="is not a level"):
        rag_composite({**levels, "harmfulness": 2})


@pytest.mark.parametrize(
    ("level", "status"),
    [
        (None, SafetyStatus.UNKNOWN),
        (0, SafetyStatus.UNSAFE),
        (1, SafetyStatus.QUESTIONABLE),
        (2, SafetyStatus.SAFE),
    ],
)
def test_what_levels_of_harmfulness_mean(level: int | None, status: SafetyStatus) -> None:
    assert safety_of(level).status is status
