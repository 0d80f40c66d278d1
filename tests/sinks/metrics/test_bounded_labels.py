"""Labels whose values the traffic chooses: bounded in number and length, without losing counts."""

import unicodedata
from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from prometheus_client import Counter as CounterMetric

from sinks.metrics import FrequentLabel
from sinks.metrics.bounded_labels import MAX_LABEL_CHARS, app_label, label_value

names = st.lists(st.text(alphabet="abcdefgh", max_size=2) | st.none() | st.sampled_from(["other", "unknown"]))


COLLECTIVE = {"other", "unknown"}
LINGER = 300.0


class Clock:
    """A clock that the test advances."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


# Text


@pytest.mark.parametrize(
    ("name", "label"),
    [
        (None, "unknown"),
        ("", "unknown"),
        ("support bot", "support bot"),
        ("служба", "служба"),
        ("a\x9b31mb", r"a\x9b31mb"),
        ("a\x1b[2Jb", r"a\x1b[2Jb"),
        ("a\nb\r\x00", r"a\nb\r\x00"),
        ("bot\u202etob", r"bot\u202etob"),
        ("zero\u200bwidth", r"zero\u200bwidth"),
        ("line\u2028end", r"line\u2028end"),
        ("half\ud800", r"half\ud800"),
        ("x" * 256, "x" * 256),
    ],
)
def test_terminal_control_characters_and_hidden_text_are_escaped(name: str | None, label: str) -> None:
    assert label_value(name) == label


@given(st.text(max_size=600))
def test_a_label_is_short_and_printable_whatever_the_name(name: str) -> None:
    label = label_value(name)
    assert 0 < len(label) <= MAX_LABEL_CHARS
    assert not [char for char in label if unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"}]
    assert label_value(label) == label


def test_long_names_with_the_same_prefix_stay_distinct() -> None:
    one, two = label_value("x" * 5000 + "1"), label_value("x" * 5000 + "2")
    assert one != two
    assert {len(one), len(two)} == {MAX_LABEL_CHARS}


# Apps


@given(names, st.integers(min_value=1, max_value=5), st.sets(st.text(alphabet="abcdefgh", min_size=1, max_size=2)))
def test_the_first_apps_have_a_place_at_once_and_the_reserved_always(
    names: list[str | None], limit: int, reserved: set[str]
) -> None:
    label = app_label(limit, reserved)
    called = [label.count(name) for name in names[:19]]  # fewer than take a place from another
    assert len((set(called) | reserved) - COLLECTIVE) <= max(limit, len(reserved))
    assert [label.label(name) for name in names[:19]] == [
        name or "unknown" if (name or "unknown") in set(called) else "other" for name in names[:19]
    ]
    assert [label.count(name) for name in reserved] == [label.label(name) for name in reserved] == list(reserved)
    assert label.count(None) == label.label("") == "unknown"


def test_junk_names_that_came_first_do_not_block_a_real_app() -> None:
    label = app_label(50)
    for number in range(60):
        label.count(f"junk-{number}")
    assert Counter(label.count("shop") for _ in range(100)) == {"other": 19, "shop": 81}


def test_continuing_junk_names_do_not_evict_a_real_app() -> None:
    label = app_label(50)
    called = Counter(label.count(f"junk-{index}" if index % 2 else f"app-{index % 80 // 2}") for index in range(40_000))
    real = sum(number for name, number in called.items() if name.startswith("app-"))
    assert real / 20_000 > 0.98


def test_a_configured_app_keeps_its_label_however_rare_it_is() -> None:
    label = app_label(3, reserved=["shop"])
    for number in range(1000):
        for _ in range(30):
            label.count(f"busy-{number}")
    assert label.count("shop") == "shop"


def test_asking_for_a_label_counts_nothing() -> None:
    label = app_label(1)
    assert [label.label("shop") for _ in range(50)] == ["other"] * 50
    assert label.count("bank") == label.label("bank") == "bank"


def test_a_batch_counts_as_many_times_as_it_has_records() -> None:
    label = app_label(1)
    label.count("junk")
    assert label.count("shop", 20) == "shop"


@pytest.mark.parametrize("label", [app_label(1), FrequentLabel(1, free_after=1)])
def test_names_that_mean_something_else_take_no_place(label: FrequentLabel) -> None:
    names = ("other", "unknown", None, "acme")
    assert [label.count(name) for name in names] == ["other", "unknown", "unknown", "acme"]


# The most frequent


@given(
    names,
    st.integers(min_value=1, max_value=4),
    st.integers(min_value=1, max_value=4),
    st.integers(min_value=1, max_value=4),
    st.integers(min_value=1, max_value=4),
)
def test_a_frequent_label_is_itself_or_other_and_of_bounded_number(
    names: list[str | None], places: int, often: int, events: int, candidates: int
) -> None:
    """A value is counted once, under its name or under `other`, so sums over the label are exact."""
    label = FrequentLabel(places, free_after=often, often=often, events=events, candidates=candidates)
    counts: Counter[str] = Counter()
    published: set[str] = set()
    for name in names:
        label_name = name or "unknown"
        counts[label_name] += 1
        called = label.count(name)
        assert called in {label_name, "other"}
        assert called in COLLECTIVE or counts[called] >= often, "nobody gets a place too early"
        published |= {called} - COLLECTIVE
    assert len(published) <= 2 * places
    assert len(label._named) <= places
    assert len(label._candidates) <= places * (candidates + 1)


@given(st.integers(min_value=1, max_value=3), st.data())
def test_a_value_that_stays_dominant_gets_a_place_however_late_it_comes(places: int, data: st.DataObject) -> None:
    """Earlier values came in any order, and may still come, but rarely."""
    label = FrequentLabel(places, often=5, events=20)
    before = st.sampled_from([f"early-{index}" for index in range(2 * places - 1)])
    for name in data.draw(st.lists(before, max_size=200)):
        label.count(name)
    for index in range(6 * 20 * places):
        label.count("late")
        if index % (10 * places) == 0:
            label.count(data.draw(before))
    assert label.count("late") == "late"


@given(
    st.integers(min_value=1, max_value=3),
    st.lists(st.sets(st.integers(min_value=0, max_value=5)), max_size=60),
)
@example(1, [{0}] * 60)
@example(2, [{0, 1, 2}] * 60)
def test_a_value_that_is_not_clearly_more_frequent_evicts_no_other(places: int, rounds: list[set[int]]) -> None:
    """In every round each of the frequent values comes once, and so does each of the others."""
    label = FrequentLabel(places, free_after=6, often=6, events=30, candidates=3)
    frequent = [f"frequent-{index}" for index in range(places)]
    for _ in range(6):
        for name in frequent:
            label.count(name)
    for others in rounds:
        assert [label.count(name) for name in frequent] == frequent
        assert {label.count(f"junk-{index}") for index in others} <= {"other"}


def test_a_value_that_became_rare_loses_its_place_and_is_counted_under_other_until_it_is_frequent_again() -> None:
    label = FrequentLabel(2)
    for name in ("a", "b"):
        for _ in range(300):
            label.count(name)
    for _ in range(1000):  # a no longer comes, b comes as often as before
        label.count("b")
        label.count("c")
    assert [label.label(name) for name in "abc"] == ["other", "b", "c"]
    for _ in range(1500):
        label.count("a")
        label.count("b")
    assert [label.label(name) for name in "abc"] == ["a", "b", "other"]


@given(st.permutations([name for name in "abc" for _ in range(20)]))
def test_a_frequent_value_gets_a_label_in_any_order(names: list[str]) -> None:
    label = FrequentLabel(3)
    for name in names:
        label.count(name)
    assert [label.label(name) for name in "abc"] == ["a", "b", "c"]


def test_a_flood_of_new_names_neither_fills_the_places_nor_blocks_a_frequent_one() -> None:
    label = FrequentLabel(10)
    called = [label.count(f"random-{index}") for index in range(20_000)]
    assert set(called) == {"other"}
    for index in range(2000):  # one in ten belongs to a real tenant
        label.count("acme")
        for step in range(9):
            label.count(f"more-{9 * index + step}")
    assert label.count("acme") == "acme"
    assert len(label._candidates) <= 1000


def test_the_first_times_are_counted_under_other_and_the_rest_under_the_name() -> None:
    label = FrequentLabel(10)
    assert Counter(label.count("acme") for _ in range(50)) == {"other": 19, "acme": 31}


# The series of a value that lost its place


class Counted:
    """A counter with one bounded label, as it is published."""

    def __init__(self, places: int = 1) -> None:
        self.clock = Clock()
        self.label = FrequentLabel(places, free_after=1, clock=self.clock)
        self.registry = CollectorRegistry()
        self._counter = CounterMetric("things", "Things.", ["kind", "app"], registry=self.registry)
        self.label.attach("app", self._counter)

    def count(self, app: str, times: int = 1) -> None:
        for _ in range(times):
            self._counter.labels("kind", self.label.count(app)).inc()

    def published(self) -> dict[str, float]:
        samples = (sample for metric in self.registry.collect() for sample in metric.samples)
        return {sample.labels["app"]: sample.value for sample in samples if sample.name == "things_total"}


def test_series_of_an_evicted_value_stay_for_several_scrapes_and_are_then_removed() -> None:
    counted = Counted()
    counted.count("early", 3)
    counted.count("shop", 20)
    counted.clock.now = LINGER - 1
    counted.count("early")
    assert counted.published() == {"early": 3.0, "shop": 1.0, "other": 20.0}
    counted.clock.now = LINGER
    counted.count("shop")
    assert counted.published() == {"shop": 2.0, "other": 20.0}
    assert not counted.label.is_published("early")


def test_series_of_an_evicted_value_continue_if_it_returns_in_time_and_restart_later() -> None:
    counted = Counted()
    counted.count("early", 3)
    counted.count("shop", 20)
    counted.count("early", 38)  # with the first three, more than twice as often
    assert counted.label.label("early") == "early"
    assert counted.published()["early"] == 4.0
    counted.clock.now = 1000.0
    counted.count("early")
    assert counted.published() == {"early": 5.0, "other": 56.0}, "shop is gone"
    counted.count("shop", 100)
    assert counted.published()["shop"] < 100 - 20


def test_new_frequent_values_wait_until_the_series_of_evicted_ones_are_removed() -> None:
    counted = Counted()
    for number in range(10):
        counted.count(f"app-{number}", 1000)
    assert set(counted.published()) == {"app-0", "app-1", "other"}
    counted.clock.now = LINGER
    counted.count("app-9")
    assert set(counted.published()) == {"app-1", "app-9", "other"}
