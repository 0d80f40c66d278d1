"""The parts of flow control, each tested alone with a clock that the test advances."""

import math
import random
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.models.flow import FlowLimits
from judges.models.flow.backoff import Backoff
from judges.models.flow.breaker import Admission, Breaker
from judges.models.flow.bucket import Bucket
from judges.models.flow.concurrency import AdaptiveLimit
from judges.models.flow.latency import Latency
from judges.models.flow.pace import Pace

STEPS = st.floats(0.0, 20.0)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class TestBackoff:
    @given(st.integers(0, 2000), st.floats(0.0, 10.0), st.floats(0.0, 60.0), st.floats(0.0, 1.0, exclude_max=True))
    def test_it_is_anything_up_to_a_bound_that_doubles(
        self, failed: int, first: float, longest: float, dice: float
    ) -> None:
        backoff = Backoff(first, longest, random=lambda: dice)
        assert 0.0 <= backoff.seconds(failed) <= min(longest, first * 2.0 ** min(failed, 900))
        assert backoff.bound(failed) <= backoff.bound(failed + 1) <= 2 * backoff.bound(failed)


class TestBucket:
    @given(st.floats(1.0, 10_000.0), st.lists(st.tuples(STEPS, st.floats(0.0, 3_000.0)), max_size=40))
    def test_no_span_takes_more_than_the_rate_and_one_burst(
        self, per_minute: float, takes: list[tuple[float, float]]
    ) -> None:
        """Amounts above a burst may exceed the rate by their excess over it."""
        clock = Clock()
        bucket = Bucket(per_minute, clock=clock)
        taken = []
        for step, amount in takes:
            clock.now += step
            clock.now += bucket.wait(amount)
            assert bucket.wait(amount) == pytest.approx(0.0, abs=1e-6)
            bucket.take(amount)
            taken.append((clock.now, amount))
        for index, (start, _) in enumerate(taken):
            total = 0.0
            for moment, amount in taken[index:]:
                total += amount
                allowed = bucket.burst + per_minute / 60 * (moment - start) + max(0.0, amount - bucket.burst)
                assert total <= allowed * (1 + 1e-6) + 1e-6

    @given(st.lists(st.tuples(STEPS, st.floats(0.0, 100.0), st.floats(0.0, 300.0)), max_size=40))
    def test_settling_leaves_the_actual_usage(self, calls: list[tuple[float, float, float]]) -> None:
        clock, plain_clock = Clock(), Clock()
        bucket, plain = Bucket(1200, clock=clock), Bucket(1200, clock=plain_clock)
        for step, reserved, used in calls:
            clock.now += step
            plain_clock.now += step
            bucket.take(reserved)
            bucket.settle(reserved, used)
            plain.take(used)
            assert bucket.level == pytest.approx(plain.level, abs=1e-6)

    def test_a_debt_is_paid_off_by_waiting(self) -> None:
        clock = Clock()
        bucket = Bucket(60, clock=clock)
        bucket.take(1)
        bucket.settle(1, 40)
        assert bucket.wait(1) == pytest.approx(31.0)


class TestAdaptiveLimit:
    @given(
        st.integers(1, 100),
        st.lists(st.tuples(st.sampled_from(["answer", "capped", "overloaded", "restart"]), STEPS), max_size=200),
    )
    def test_it_stays_between_one_and_the_most(self, most: int, events: list[tuple[str, float]]) -> None:
        clock = Clock()
        limit = AdaptiveLimit(most, clock=clock)
        for event, took in events:
            started, before = clock.now, limit.value
            clock.now += took
            if event == "answer":
                limit.succeeded(started, in_flight=limit.value)
                assert limit.value <= 2 * before
            elif event == "restart":
                limit.restart()
            elif event == "capped":
                limit.cap(max(1, before - 1))
            else:
                limit.overloaded(started, in_flight=limit.value)
                assert math.floor(before * 0.75) <= max(1, limit.value) <= before
            assert 1 <= limit.value <= most

    @given(st.integers(2, 64))
    def test_a_burst_of_failures_in_flight_decreases_it_once(self, refused: int) -> None:
        clock = Clock()
        limit = grow(AdaptiveLimit(64, clock=clock), clock)
        started = clock.now
        for _ in range(refused):
            clock.now += 0.01
            limit.overloaded(started, in_flight=64)
        assert limit.value == 48

    def test_it_doubles_at_first_and_after_resistance_rests_and_then_grows_ever_faster(self) -> None:
        clock = Clock()
        limit = AdaptiveLimit(1000, clock=clock)
        assert limit.value == 2
        answers(limit, clock, 14)
        assert limit.value == 16
        limit.overloaded(clock.now, in_flight=16)
        assert limit.value == 12
        answers(limit, clock, 15, took=0.1)
        assert limit.value == 12
        steps = []
        for _ in range(4):
            before = limit.value
            answers(limit, clock, before, took=0.6 / before)
            steps.append(limit.value - before)
        assert steps == [1, 2, 4, 8]

    def test_slow_answers_that_more_at_once_only_makes_slower_keep_it_low(self) -> None:
        """Like a model on a local processor."""
        clock = Clock()
        limit = AdaptiveLimit(64, clock=clock)
        highest = 0
        for _ in range(60):
            highest = max(highest, limit.value)
            started = clock.now
            clock.now += 5.0 * limit.value
            for _ in range(limit.value):
                limit.succeeded(started, in_flight=limit.value)
        assert (highest, limit.value) == (4, 2)

    def test_slow_answers_that_stay_as_they_are_let_it_grow(self) -> None:
        clock = Clock()
        limit = AdaptiveLimit(64, clock=clock)
        for _ in range(12):
            started = clock.now
            clock.now += 5.0
            for _ in range(limit.value):
                limit.succeeded(started, in_flight=limit.value)
        assert limit.value == 64

    def test_a_cap_holds_for_a_while_and_is_probed(self) -> None:
        clock = Clock()
        limit = grow(AdaptiveLimit(64, clock=clock), clock)
        limit.cap(16)
        answers(limit, clock, 70)
        assert limit.value == 16
        answers(limit, clock, 100)
        assert limit.value > 16

    def test_a_limit_that_is_not_reached_neither_grows_nor_shrinks(self) -> None:
        clock = Clock()
        limit = AdaptiveLimit(64, clock=clock)
        limit.succeeded(clock.now, in_flight=1)
        limit.overloaded(clock.now, in_flight=1)
        assert limit.value == 2

    def test_after_an_outage_it_doubles_up_to_where_it_was(self) -> None:
        clock = Clock()
        limit = grow(AdaptiveLimit(64, clock=clock), clock)
        for second in range(50):
            clock.now += 1
            limit.overloaded(clock.now, in_flight=64)
            if second < 3:  # calls sent before it began
                limit.succeeded(clock.now - 2, in_flight=1)
        assert limit.value == 1
        limit.restart()
        answers(limit, clock, 63)
        assert limit.value == 64

    def test_rising_latency_decreases_it(self) -> None:
        clock = Clock()
        limit = grow(AdaptiveLimit(64, clock=clock), clock)
        answers(limit, clock, 64, took=1.0)
        answers(limit, clock, 64 * 3, took=4.0)
        assert 40 <= limit.value < 60


def answers(limit: AdaptiveLimit, clock: Clock, count: int, *, took: float = 0.1) -> None:
    for _ in range(count):
        clock.now += took
        limit.succeeded(clock.now - took, in_flight=limit.value)


def grow(limit: AdaptiveLimit, clock: Clock) -> AdaptiveLimit:
    while limit.value < 64:
        answers(limit, clock, 1)
    return limit


class TestLatency:
    @given(st.lists(st.floats(0.3, 1.0), min_size=200, max_size=200))
    def test_lengths_that_vary_threefold_are_no_rise(self, seconds: list[float]) -> None:
        """The median of a window then never exceeds twice the baseline of 0.5 plus some slack."""
        latency = Latency()
        assert not any(latency.rises_with(max(duration, 0.45), 20) for duration in seconds)

    def test_a_few_very_long_answers_are_no_rise(self) -> None:
        latency = Latency()
        assert not any(latency.rises_with(30.0 if number % 3 == 0 else 1.0, 20) for number in range(400))

    def test_a_jump_is_a_rise_for_a_while_and_then_the_new_normal(self) -> None:
        latency = Latency()
        for _ in range(100):
            latency.rises_with(1.0, 20)
        rises = [latency.rises_with(4.0, 20) for _ in range(2000)]
        assert any(rises[:40])
        assert not any(rises[400:])

    def test_milliseconds_are_noise(self) -> None:
        latency = Latency()
        for _ in range(100):
            latency.rises_with(0.002, 20)
        assert not any(latency.rises_with(0.09, 20) for _ in range(200))


def pace_with(clock: Clock, *, learns: bool = True) -> Pace:
    return Pace(learns=learns, first=0.25, longest=5.0, longest_hold=60.0, clock=clock, random=lambda: 0.5)


class TestPace:
    @given(st.lists(st.tuples(st.sampled_from(["take", "answer", "refused", "told", "forget"]), STEPS), max_size=100))
    def test_the_rate_is_positive_and_the_wait_is_bounded(self, events: list[tuple[str, float]]) -> None:
        clock = Clock()
        pace = pace_with(clock)
        for event, step in events:
            clock.now += step
            if event == "take":
                clock.now += pace.wait()
                pace.take(8)
            elif event == "answer":
                pace.succeeded()
            elif event == "forget":
                pace.forget()
            else:
                pace.refused(clock.now, in_flight=8, retry_after=step * 10 if event == "told" else None)
            assert pace.rate >= 0.04
            assert 0 <= pace.held <= 60.000001

    def test_a_hold_applies_to_all_callers_and_is_capped(self) -> None:
        clock = Clock()
        pace = pace_with(clock)
        pace.hold(3600)
        assert pace.wait() == pace.held == pytest.approx(60.0)
        pace.hold(1)
        assert pace.held == pytest.approx(60.0)

    @pytest.mark.parametrize("nonsense", [math.nan, -5.0])
    def test_an_invalid_wait_is_not_endless(self, nonsense: float) -> None:
        pace = pace_with(Clock())
        pace.hold(nonsense)
        assert 0.0 <= pace.held <= 60.000001

    def test_paced_attempts_start_evenly(self) -> None:
        clock = Clock()
        pace = pace_with(clock)
        send(pace, clock, seconds=3, takes=50)
        starts = []
        for _ in range(40):
            clock.now += pace.wait()
            starts.append(clock.now)
            pace.take(8)
        gaps = [later - earlier for earlier, later in pairwise(starts[5:])]
        assert all(0.01 < gap < 0.04 for gap in gaps)

    def test_refusals_above_a_rate_teach_it_and_it_is_forgotten_within_seconds(self) -> None:
        clock = Clock()
        pace = pace_with(clock)
        send(pace, clock, seconds=5, takes=50)
        assert pace.rate == pytest.approx(50, rel=0.25)
        send(pace, clock, seconds=8, takes=math.inf)
        assert pace.rate > 150

    def test_refusals_at_any_rate_teach_nothing(self) -> None:
        clock, dice = Clock(), random.Random(1)
        pace = pace_with(clock)
        send(pace, clock, seconds=20, takes=math.inf, refuses=lambda: dice.random() < 0.05)
        assert pace.rate > 150

    def test_refusals_above_a_number_in_flight_return_that_number(self) -> None:
        clock = Clock()
        pace = pace_with(clock)
        most = None
        for number in range(40):
            clock.now += 0.01
            in_flight = 17 if number % 15 == 0 else 8 + number % 9
            pace.take(in_flight)
            if in_flight > 16:
                most = most or pace.refused(clock.now, in_flight=in_flight)
            else:
                pace.succeeded()
        assert (most, pace.rate) == (16, math.inf)

    def test_when_disabled_it_learns_nothing_and_still_spares_a_closed_endpoint(self) -> None:
        clock = Clock()
        pace = pace_with(clock, learns=False)
        send(pace, clock, seconds=5, takes=50)
        assert math.isinf(pace.rate)
        for _ in range(20):
            clock.now += pace.wait()
            pace.take(1)
            pace.refused(clock.now, in_flight=1)
        assert pace.held > 0

    def test_an_endpoint_that_takes_nothing_is_left_alone_ever_longer(self) -> None:
        clock = Clock()
        pace = pace_with(clock)
        send(pace, clock, seconds=3, takes=50)
        rate, holds = pace.rate, []
        for _ in range(40):
            clock.now += pace.wait()
            pace.take(1)
            pace.refused(clock.now, in_flight=1)
            holds.append(pace.held)
        assert [hold for hold in holds if hold][:4] == pytest.approx([0.1875, 0.375, 0.75, 1.5])
        assert max(holds) <= 5.0
        assert pace.rate >= 0.3 * rate


def send(
    pace: Pace, clock: Clock, *, seconds: float, takes: float, refuses: Callable[[], bool] = lambda: False
) -> None:
    """Send 200 per second, or as many as the pace allows, to an endpoint with this capacity and no burst."""
    end, free_at = clock.now + seconds, 0.0
    while clock.now < end:
        clock.now += max(pace.wait(), 0.005)
        pace.take(8)
        if clock.now < free_at or refuses():
            pace.refused(clock.now, in_flight=8)
        else:
            free_at = clock.now + 1 / takes - 1e-9
            pace.succeeded()


def breaker_with(clock: Clock) -> Breaker:
    return Breaker(
        failures=5, refusals=3, pause_seconds=30.0, probe_seconds=1.0, longest_probe_seconds=5.0, clock=clock
    )


def admit(breaker: Breaker) -> Admission:
    admission = breaker.admit()
    assert admission is not None
    return admission


EVENTS = st.sampled_from(["success", "failure", "refusal", "sure refusal", "alive", "abandoned"])


class TestBreaker:
    @given(st.lists(st.tuples(EVENTS, STEPS), max_size=150))
    def test_open_it_lets_one_probe_through_at_a_time_and_no_sooner_than_said(
        self, events: list[tuple[str, float]]
    ) -> None:
        clock = Clock()
        breaker = breaker_with(clock)
        for call, (event, step) in enumerate(events):
            clock.now += step
            admission = breaker.admit()
            if admission is None:
                assert breaker.reason is not None
                continue
            assert admission.probe == (not breaker.closed)
            assert not admission.probe or breaker.admit() is None
            record_event(breaker, admission, event, call)
            if event == "success":
                assert breaker.closed
            if breaker.refuses:
                assert breaker.admit() is None
        clock.now += 31
        assert breaker.admit() is not None

    def test_failures_in_a_row_open_it_and_a_probe_closes_it(self) -> None:
        clock = Clock()
        breaker = breaker_with(clock)
        for _ in range(4):
            assert not breaker.failed(admit(breaker), "reset")
        assert breaker.failed(admit(breaker), "reset")
        assert (breaker.refuses, breaker.reason) == (True, "reset")
        clock.now += 1
        assert breaker.succeeded(admit(breaker))
        assert breaker.closed

    def test_half_of_twenty_opens_it_though_none_are_in_a_row(self) -> None:
        breaker = breaker_with(Clock())
        for _ in range(10):
            assert breaker.closed
            breaker.succeeded(admit(breaker))
            breaker.failed(admit(breaker), "now and then")
        assert not breaker.closed

    def test_probes_that_fail_come_further_apart_up_to_a_longest(self) -> None:
        clock = Clock()
        breaker = breaker_with(clock)
        for _ in range(5):
            breaker.failed(admit(breaker), "reset")
        waits = []
        for _ in range(6):
            began = clock.now
            while breaker.refuses:
                clock.now += 0.125
            waits.append(clock.now - began)
            breaker.failed(admit(breaker), "reset")
        assert waits == [1, 2, 4, 5, 5, 5]

    def test_calls_begun_before_it_opened_neither_close_nor_reopen_it(self) -> None:
        clock = Clock()
        breaker = breaker_with(clock)
        early = [admit(breaker) for _ in range(20)]
        for admission in early[:5]:
            breaker.failed(admission, "reset")
        breaker.succeeded(early[5])
        assert not breaker.closed
        clock.now += 1
        breaker.succeeded(admit(breaker))
        for admission in early[6:]:
            breaker.failed(admission, "reset")
        assert breaker.closed

    def test_no_key_pauses_at_once_and_is_tried_every_pause(self) -> None:
        clock = Clock()
        breaker = breaker_with(clock)
        assert breaker.refused(admit(breaker), "no key", call=1, surely=True)
        for _ in range(3):
            clock.now += 29.9
            assert breaker.refuses
            clock.now += 0.1
            breaker.refused(admit(breaker), "no key", call=2, surely=True)
        assert breaker.reason == "no key"

    def test_single_moderated_prompts_pause_nothing(self) -> None:
        breaker = breaker_with(Clock())
        for call in range(20):
            breaker.refused(admit(breaker), "403", call=call, surely=False)
            breaker.refused(admit(breaker), "403", call=call, surely=False)
            breaker.succeeded(admit(breaker))
        assert breaker.closed

    def test_no_rights_in_several_calls_pause_it(self) -> None:
        breaker = breaker_with(Clock())
        opened = [breaker.refused(admit(breaker), "403", call=call, surely=False) for call in (1, 1, 1, 2, 3)]
        assert opened == [False, False, False, False, True]


def record_event(breaker: Breaker, admission: Admission, event: str, call: int) -> None:
    if event == "success":
        breaker.succeeded(admission)
    elif event == "failure":
        breaker.failed(admission, "reset")
    elif event == "alive":
        breaker.alive(admission)
    elif event == "abandoned":
        breaker.abandoned(admission)
    else:
        breaker.refused(admission, "no", call=call, surely=event == "sure refusal")


@pytest.mark.parametrize(
    "wrong",
    [
        {"concurrency": 0},
        {"retries": -1},
        {"requests_per_minute": 0},
        {"tokens_per_minute": math.inf},
        {"hedge_seconds": math.nan},
        {"pause_seconds": -1},
        {"rate": "guess"},
    ],
)
def test_limits_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        FlowLimits(**wrong)  # type: ignore[arg-type]
