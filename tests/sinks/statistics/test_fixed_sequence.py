"""Fixed-sequence testing: exact tails, the loosest limit that passes, and a guarantee that holds."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinks.statistics.fixed_sequence import Limit, binomial_tail, loosest_limit


@pytest.mark.xdist_group("scipy")
@given(st.integers(0, 400), st.integers(0, 400), st.floats(0.01, 0.99))
def test_the_tail_is_that_of_scipy(trials: int, least: int, chance: float) -> None:
    from scipy.stats import binom

    least = min(least, trials)
    assert binomial_tail(least, trials, chance) == pytest.approx(binom.sf(least - 1, trials, chance), abs=1e-9)


def test_the_last_limit_before_a_failure_is_chosen() -> None:
    # 20 answers cannot pass, 60 without an error do, 50 of 100 end the sequence.
    limits = [Limit(0.9, 20, 20), Limit(0.8, 60, 60), Limit(0.7, 100, 98), Limit(0.6, 100, 50), Limit(0.5, 900, 900)]
    assert loosest_limit(limits, 0.9, 0.05) == Limit(0.7, 100, 98)
    assert loosest_limit(limits[:1], 0.9, 0.05) is None
    assert loosest_limit(limits[3:], 0.9, 0.05) is None
    with pytest.raises(ValueError, match="target and miss"):
        loosest_limit(limits, 1.0, 0.05)


def test_the_chosen_limit_rarely_misses_the_target() -> None:
    """A judge is right with a probability of 0.6 + 0.4·confidence: above 0.8 it is right on 90 % and more."""
    rng, missed, chosen, runs = random.Random(1), 0, 0, 400
    for _run in range(runs):
        answers = [
            (confidence, rng.random() < 0.6 + 0.4 * confidence) for confidence in (rng.random() for _ in range(400))
        ]
        limits = []
        for value in (step / 20 for step in range(20, -1, -1)):
            kept = [right for confidence, right in answers if confidence >= value]
            limits.append(Limit(value, len(kept), sum(kept)))
        limit = loosest_limit(limits, 0.9, 0.1)
        if limit is not None:
            chosen += 1
            # The mean of 0.6 + 0.4·c over c from the limit to 1.
            missed += 0.6 + 0.2 * (1.0 + limit.value) < 0.9 - 1e-9
    assert chosen > runs / 2
    assert missed <= 0.1 * runs
