"""Labels whose values the traffic chooses: bounded in number, and nothing is lost by that."""

from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sinks.metrics import BoundedLabel, FrequentLabel

names = st.lists(st.text(alphabet="abcdefgh", max_size=2) | st.none() | st.sampled_from(["other", "unknown"]))


COLLECTIVE = {"other", "unknown"}


@given(names, st.integers(min_value=1, max_value=5), st.sets(st.text(alphabet="abcdefgh", min_size=1, max_size=2)))
def test_a_bounded_label_has_at_most_its_limit_of_values_and_always_the_reserved(
    given: list[str | None], limit: int, reserved: set[str]
) -> None:
    label = BoundedLabel(limit, reserved)
    called = [label(name) for name in given]
    assert len((set(called) | reserved) - COLLECTIVE) <= max(limit, len(reserved))
    assert [label(name) for name in given] == [
        name or "unknown" if (name or "unknown") in set(called) else "other" for name in given
    ]
    assert [label(name) for name in reserved] == list(reserved)
    assert label(None) == label("") == "unknown"


@pytest.mark.parametrize("label", [BoundedLabel(1), FrequentLabel(1, often=1)])
def test_names_that_mean_something_else_take_no_place(label: BoundedLabel | FrequentLabel) -> None:
    assert [label(name) for name in ("other", "unknown", None, "acme")] == ["other", "unknown", "unknown", "acme"]


# The most frequent


@given(
    names,
    st.integers(min_value=1, max_value=4),
    st.integers(min_value=1, max_value=4),
    st.integers(min_value=1, max_value=4),
    st.integers(min_value=1, max_value=4),
)
def test_a_frequent_label_is_itself_or_other_and_of_bounded_number(
    given: list[str | None], places: int, often: int, events: int, candidates: int
) -> None:
    """Whatever is called `other` or by its name is counted once: sums over the label are exact."""
    label = FrequentLabel(places, often=often, events=events, candidates=candidates)
    seen: Counter[str] = Counter()
    published: set[str] = set()
    for name in given:
        known = name or "unknown"
        seen[known] += 1
        called = label(name)
        assert called in {known, "other"}
        assert called in COLLECTIVE or seen[called] >= often, "nobody gets a place too early"
        published |= {called} - COLLECTIVE
    assert len(published) <= 3 * places
    assert len(label._named) <= places
    assert len(label._candidates) <= places * (candidates + 1)


@given(st.integers(min_value=1, max_value=3), st.data())
def test_what_is_dominant_for_long_gets_a_place_however_late_it_comes(places: int, data: st.DataObject) -> None:
    """Those before it came in any order, and may go on to come, but rarely."""
    label = FrequentLabel(places, often=5, events=20)
    before = st.sampled_from([f"early-{at}" for at in range(3 * places - 1)])
    for name in data.draw(st.lists(before, max_size=200)):
        label(name)
    for at in range(6 * 20 * places):
        label("late")
        if at % (10 * places) == 0:
            label(data.draw(before))
    assert label("late") == "late"


@given(
    st.integers(min_value=1, max_value=3),
    st.lists(st.sets(st.integers(min_value=0, max_value=5)), max_size=60),
)
@example(1, [{0}] * 60)
@example(2, [{0, 1, 2}] * 60)
def test_what_is_not_clearly_more_frequent_pushes_nobody_out(places: int, rounds: list[set[int]]) -> None:
    """In every round each of the frequent comes once, and so does whatever else there is."""
    label = FrequentLabel(places, often=6, events=30, candidates=3)
    frequent = [f"frequent-{at}" for at in range(places)]
    for _ in range(6):
        for name in frequent:
            label(name)
    for others in rounds:
        assert [label(name) for name in frequent] == frequent
        assert {label(f"junk-{at}") for at in others} <= {"other"}


def test_who_has_become_rare_loses_the_place_and_is_counted_under_other_until_it_is_frequent_again() -> None:
    label = FrequentLabel(2)
    for name in ("a", "b"):
        for _ in range(300):
            label(name)
    for _ in range(1000):  # a is gone, b comes as often as before
        label("b")
        label("c")
    assert [label(name) for name in "abc"] == ["other", "b", "c"]
    for _ in range(1500):
        label("a")
        label("b")
    assert [label(name) for name in "abc"] == ["a", "b", "other"]


def test_of_ever_new_favourites_so_many_are_published_and_those_may_come_back() -> None:
    label = FrequentLabel(1)
    called = {label(f"tenant-{at}") for at in range(10) for _ in range(1000)}
    assert called == {"other", "tenant-0", "tenant-1", "tenant-2"}
    assert label("tenant-9") == "other"
    assert "tenant-0" in {label("tenant-0") for _ in range(1000)}


@given(st.permutations([name for name in "abc" for _ in range(20)]))
def test_what_comes_often_enough_gets_a_label_in_whatever_order(given: list[str]) -> None:
    label = FrequentLabel(3)
    for name in given:
        label(name)
    assert [label(name) for name in "abc"] == ["a", "b", "c"]


def test_a_flood_of_new_names_neither_fills_the_places_nor_keeps_a_frequent_one_out() -> None:
    label = FrequentLabel(10)
    called = [label(f"random-{at}") for at in range(20_000)]
    assert set(called) == {"other"}
    for at in range(2000):  # one in ten is of a real tenant
        label("acme")
        for step in range(9):
            label(f"more-{9 * at + step}")
    assert label("acme") == "acme"
    assert len(label._candidates) <= 1000


def test_the_first_times_are_counted_under_other_and_the_rest_under_the_name() -> None:
    label = FrequentLabel(10)
    assert Counter(label("acme") for _ in range(50)) == {"other": 19, "acme": 31}
