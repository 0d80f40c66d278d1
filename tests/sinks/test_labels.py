"""Labels whose values the traffic chooses: bounded in number, and nothing is lost by that."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinks.metrics import BoundedLabel, FrequentLabel

names = st.lists(st.text(alphabet="abcdefgh", max_size=2) | st.none() | st.sampled_from(["other", "unknown"]))


@given(names, st.integers(min_value=1, max_value=5))
def test_a_bounded_label_has_at_most_its_limit_of_values_and_other(given: list[str | None], limit: int) -> None:
    label = BoundedLabel(limit)
    called = [label(name) for name in given]
    assert len(set(called) - {"other"}) <= limit
    assert [label(name) for name in given] == [
        name or "unknown" if (name or "unknown") in set(called) else "other" for name in given
    ]


@given(
    names,
    st.integers(min_value=1, max_value=4),
    st.integers(min_value=1, max_value=4),
    st.integers(min_value=1, max_value=4),
)
def test_a_frequent_label_is_itself_or_other_and_of_bounded_number(
    given: list[str | None], places: int, often: int, candidates: int
) -> None:
    label = FrequentLabel(places, often, candidates)
    seen: Counter[str] = Counter()
    own: set[str] = set()
    for name in given:
        known = name or "unknown"
        seen[known] += 1
        called = label(name)
        assert called in {known, "other"}
        if called != "other":
            own.add(called)
        assert called == known or known not in own, "who has a label keeps it"
        assert called in {"other", "unknown"} or seen[called] >= often, "nobody gets one too early"
    assert len(own - {"unknown"}) <= places
    assert label(None) == label("") == "unknown"


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
    assert len(label._counts) <= 1000


def test_the_first_times_are_counted_under_other_and_the_rest_under_the_name() -> None:
    label = FrequentLabel(10)
    assert Counter(label("acme") for _ in range(50)) == {"other": 19, "acme": 31}


def test_when_all_places_are_taken_nobody_is_counted_any_more() -> None:
    label = FrequentLabel(1)
    for name in ("a", "b"):
        for _ in range(30):
            label(name)
    assert (label("a"), label("b")) == ("a", "other")
    assert label._counts == {}


@pytest.mark.parametrize("name", ["other", "unknown"])
def test_a_name_that_means_something_else_takes_no_place(name: str) -> None:
    label = FrequentLabel(1, often=1)
    assert label(name) == name
    assert label("acme") == "acme"
