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
    pause.refused(401, "a refusal")
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
    pause.refused(401, "no key")
    assert (pause.reason, pause.lets_one_through()) == ("no key", False)
    pause.end()
    assert (pause.reason, pause.lets_one_through()) == (None, True)
    pause.refused(402, "no rights")
    assert (pause.reason, pause.lets_one_through()) == ("no rights", False)


@given(st.lists(st.sampled_from([403, 404, "success"]), max_size=30))
def test_what_may_be_about_one_prompt_takes_three_in_a_row(answers: list[int | str]) -> None:
    pause, in_a_row = Pause(30.0, clock=lambda: 0.0), 0
    for answer in answers:
        if isinstance(answer, str):
            pause.end()
        else:
            pause.refused(answer, "a refusal")
        in_a_row = 0 if isinstance(answer, str) else in_a_row + 1
        assert (pause.reason is None) == (in_a_row < 3)
