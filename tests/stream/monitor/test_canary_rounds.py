"""Canary rounds: a canary that does not come back is missing after two rounds, and no longer when it does."""

from hypothesis import given
from hypothesis import strategies as st

from stream.monitor.canary_rounds import CanaryRounds

PERIOD, GRACE = 3600.0, 60.0


def test_a_canary_is_missing_two_rounds_after_it_was_last_judged() -> None:
    rounds = CanaryRounds(["a", "b"], PERIOD, now=1000.0)
    rounds.record_evaluation("a", 2000.0)
    assert rounds.missing(1000.0 + 2 * PERIOD + GRACE) == 0
    assert rounds.missing(1001.0 + 2 * PERIOD + GRACE) == 1
    assert rounds.missing(2001.0 + 2 * PERIOD + GRACE) == 2
    rounds.record_evaluation("b", 2000.0 + 2 * PERIOD)
    assert rounds.missing(2001.0 + 2 * PERIOD + GRACE) == 1


def test_what_is_no_canary_of_the_file_changes_nothing_and_an_old_verdict_takes_nothing_back() -> None:
    rounds = CanaryRounds(["a"], PERIOD, now=1000.0)
    rounds.record_evaluation("forged", 5000.0)
    rounds.record_evaluation("a", 5000.0)
    rounds.record_evaluation("a", 2000.0)
    assert rounds.missing(4999.0 + 2 * PERIOD + GRACE) == 0
    assert rounds.missing(5001.0 + 2 * PERIOD + GRACE) == 1


@given(places=st.lists(st.tuples(st.floats(0, 1), st.floats(0, GRACE)), min_size=1, max_size=20))
def test_a_canary_that_comes_in_every_round_is_never_missing(places: list[tuple[float, float]]) -> None:
    """Wherever in the round it is due, and however late within a minute."""
    rounds = CanaryRounds(["a"], PERIOD, now=0.0)
    for number, (place, late) in enumerate(places):
        at = (number + place) * PERIOD + late
        assert rounds.missing(at) == 0
        rounds.record_evaluation("a", at)
