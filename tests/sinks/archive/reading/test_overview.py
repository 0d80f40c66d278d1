"""Figures of apps: the same as if every evaluation were added one by one, by minute and by hour."""

import math
from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinks.archive.database import Database
from sinks.archive.reading.overview import add_series, list_apps, read_series
from sinks.archive.reading.times import MINUTE_MS, Slots, TimeRange
from sinks.statistics.estimates import Estimate, Estimator
from tests.parts.archive import START_MS, Judged, fill

MINUTES_OF_DAYS = 4 * 1440
numbers = count()
answers = st.lists(
    st.builds(
        Judged,
        id=st.builds(lambda: f"e{next(numbers)}"),
        at=st.one_of(st.integers(0, 90), st.integers(0, MINUTES_OF_DAYS)).map(
            lambda minute: START_MS + minute * MINUTE_MS + minute % 7
        ),
        app=st.sampled_from(["shop", "bank"]),
        lane=st.sampled_from(["main", "main", "main", "safety", "canary", "backfill"]),
        probability=st.sampled_from([1.0, 1.0, 0.5, 0.1, 0.01]),
        composite=st.none() | st.floats(0.0, 1.0),
        scores=st.fixed_dictionaries({"clarity": st.none() | st.floats(0.0, 1.0)}),
        cost_usd=st.none() | st.floats(0.0, 1.0),
    ),
    max_size=60,
)


@pytest.fixture(scope="module")
def archive(make_url: Any) -> Any:
    with Database(make_url()) as database:
        yield database


def estimate_one_by_one(judged: Sequence[Judged], score: Any) -> Estimate:
    estimator = Estimator()
    for answer in judged:
        estimator.add(score(answer), answer.probability)
    return estimator.result()


def assert_same(one: Estimate, other: Estimate) -> None:
    assert one.count == other.count
    for name in ("mean", "low", "high", "effective_size", "coverage"):
        actual, expected = getattr(one, name), getattr(other, name)
        assert (actual is None) == (expected is None), name
        if actual is not None:
            # Sums over groups round differently, and an interval has the root of a variance of nearly 0.
            assert math.isclose(actual, expected, rel_tol=1e-6, abs_tol=1e-6), (name, actual, expected)


def is_live(answer: Judged) -> bool:
    return answer.lane not in {"canary", "backfill"}


@given(judged=answers, minutes=st.sampled_from([60, 1440, MINUTES_OF_DAYS]), most=st.integers(2, 60))
def test_figures_are_those_of_all_evaluations_one_by_one(
    archive: Database, judged: list[Judged], minutes: int, most: int
) -> None:
    from sinks.archive.writing import empty

    empty(archive)
    fill(archive, judged)
    period = TimeRange(start=START_MS, end=START_MS + minutes * MINUTE_MS)
    slots = Slots.divide(period, most)
    inside = [
        answer for answer in judged if slots.first * MINUTE_MS <= answer.at < slots.end * MINUTE_MS and is_live(answer)
    ]
    with archive.read() as connection:
        apps = list_apps(connection, slots, 10)
        add_series(connection, apps, slots, ["good", "clarity"])
        shop = read_series(connection, "shop", "composite", slots)
    assert {figures.app: figures.evaluations for figures in apps} == {
        app: number for app in ("shop", "bank") if (number := sum(answer.app == app for answer in inside))
    }
    for figures in apps:
        own = [answer for answer in inside if answer.app == figures.app]
        assert_same(estimate_sums(figures.composite), estimate_one_by_one(own, lambda answer: answer.composite))
        good = estimate_one_by_one(
            own, lambda answer: None if answer.composite is None else float(answer.composite >= answer.good_score)
        )
        assert_same(estimate_sums(figures.series["good"]), good)
        assert_same(
            estimate_sums(figures.series["clarity"]), estimate_one_by_one(own, lambda answer: answer.scores["clarity"])
        )
        for slot, sums in figures.by_slot.items():
            part = [answer for answer in own if answer.at // MINUTE_MS // slots.step == slot]
            assert_same(estimate_sums(sums), estimate_one_by_one(part, lambda answer: answer.composite))
        if figures.app == "shop":
            assert shop == figures.by_slot


def estimate_sums(sums: Any) -> Estimate:
    return Estimator(sums).result()


@given(
    start=st.integers(0, 10**13),
    minutes=st.floats(0.01, 10**7),
    most=st.integers(2, 120),
)
def test_slots_cover_the_range_and_are_not_too_many(start: int, minutes: float, most: int) -> None:
    period = TimeRange(start=start, end=start + math.ceil(minutes * MINUTE_MS))
    slots = Slots.divide(period, most)
    assert slots.first * MINUTE_MS <= period.start
    assert slots.end * MINUTE_MS >= period.end
    assert slots.first % slots.span == slots.end % slots.span == slots.step % slots.span == 0
    assert -(-slots.end // slots.step) - slots.first // slots.step <= most
    assert period.start - slots.first * MINUTE_MS < slots.span * MINUTE_MS
    assert slots.end * MINUTE_MS - period.end < slots.span * MINUTE_MS
    assert (slots.span == 60) is (minutes > 2 * 1440)
