"""The pause of an endpoint: it lets one call through every while, whatever calls come when."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from judges.models.pause import Pause


def test_without_a_refusal_everything_passes() -> None:
    assert all(Pause(30.0, clock=lambda: 0.0).lets_one_through() for _ in range(5))


@given(st.lists(st.floats(0.0, 20.0), max_size=50))
def test_calls_let_through_are_a_while_apart(steps: list[float]) -> None:
    now = 0.0
    pause = Pause(30.0, clock=lambda: now)
    pause.begin("a refusal")
    passed = [0.0]
    for step in steps:
        now += step
        if pause.lets_one_through():
            passed.append(now)
        elif passed:
            assert now - passed[-1] < 30.0
    assert all(later - earlier >= 30.0 for earlier, later in pairwise(passed))


def test_it_ends_with_a_success_and_begins_with_the_next_refusal() -> None:
    now = 100.0
    pause = Pause(30.0, clock=lambda: now)
    pause.begin("no key")
    assert (pause.reason, pause.lets_one_through()) == ("no key", False)
    pause.end()
    assert (pause.reason, pause.lets_one_through()) == (None, True)
    pause.begin("no rights")
    assert (pause.reason, pause.lets_one_through()) == ("no rights", False)
