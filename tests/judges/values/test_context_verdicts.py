"""Verdicts on contexts: the score of their order, and the vote of several judges."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.values.context_verdicts import combine_context_verdicts, context_verdicts, rank_score

USEFUL = st.lists(st.booleans(), max_size=12)


@pytest.mark.parametrize(
    ("useful", "score"),
    [
        ([], 0.0),
        ([False, False], 0.0),
        ([True], 1.0),
        ([True, True, False], 1.0),
        ([False, True], 0.5),
        ([False, False, True], 1 / 3),
        ([True, False, True], (1 + 2 / 3) / 2),
    ],
)
def test_the_score_is_the_mean_precision_at_the_useful_ranks(useful: list[bool], score: float) -> None:
    assert rank_score(useful) == pytest.approx(score)


@given(USEFUL)
def test_the_score_is_between_0_and_1_and_best_if_all_useful_come_first(useful: list[bool]) -> None:
    assert 0.0 <= rank_score(useful) <= 1.0
    assert rank_score(sorted(useful, reverse=True)) == float(any(useful))


@given(USEFUL, st.data())
def test_moving_a_useful_context_up_never_lowers_the_score(useful: list[bool], data: st.DataObject) -> None:
    places = [place for place in range(1, len(useful)) if useful[place] and not useful[place - 1]]
    if not places:
        return
    place = data.draw(st.sampled_from(places))
    better = [*useful]
    better[place - 1], better[place] = True, False
    assert rank_score(better) > rank_score(useful)


def test_a_context_is_useful_if_more_than_half_of_the_judges_say_so() -> None:
    votes = [context_verdicts(useful) for useful in ([True, True, False], [True, False, False], [True, True, False])]
    combined = combine_context_verdicts([*votes, None])
    assert combined == context_verdicts([True, True, False])
    assert combine_context_verdicts(votes[:2]) == context_verdicts([True, False, False])
    assert combine_context_verdicts([None, None]) is None
