"""Canary rounds: a canary without a verdict for two rounds is missing until it has one again."""

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


def test_unknown_canaries_and_old_verdicts_are_ignored() -> None:
    rounds = CanaryRounds(["a"], PERIOD, now=1000.0)
    rounds.record_evaluation("forged", 5000.0)
    rounds.record_evaluation("a", 5000.0)
    rounds.record_evaluation("a", 2000.0)
    assert rounds.missing(4999.0 + 2 * PERIOD + GRACE) == 0
    assert rounds.missing(5001.0 + 2 * PERIOD + GRACE) == 1


@given(arrivals=st.lists(st.tuples(st.floats(0, 1), st.floats(0, GRACE)), min_size=1, max_size=20))
def test_a_canary_judged_in_every_round_is_never_missing(arrivals: list[tuple[float, float]]) -> None:
    """It may be due anywhere in the round and be up to a minute late."""
    rounds = CanaryRounds(["a"], PERIOD, now=0.0)
    for number, (fraction, delay) in enumerate(arrivals):
        timestamp = (number + fraction) * PERIOD + delay
        assert rounds.missing(timestamp) == 0
        rounds.record_evaluation("a", timestamp)
