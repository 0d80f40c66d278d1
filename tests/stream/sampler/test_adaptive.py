"""Adaptive rates: always on a step within bounds, soon at the target, then stable, and repeatable."""

import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream.config.rate_scale import rate_of, steps_within
from stream.errors import StageError
from stream.sampler.adaptive import AdaptiveRate, Goal, ReplayedRate
from stream.sampler.step_log import RateStep, StepFile, StepLog, StepLogError, read_step_log

START = 1_790_000_000_000
SECOND = 1000
MINUTE = 60 * SECOND


def adaptive(
    log: StepLog | None = None, *, target: float = 60.0, low: float = 0.001, high: float = 1.0
) -> AdaptiveRate:
    return AdaptiveRate("r", Goal(target_per_minute=target, min_rate=low, max_rate=high), log or StepLog())


def poisson(per_minute: float, minutes: float, rng: random.Random, start: int = START) -> Iterator[int]:
    """Yield random arrival times at this many records per minute."""
    moment = float(start)
    while (moment := moment + rng.expovariate(per_minute / MINUTE)) < start + minutes * MINUTE:
        yield int(moment)


def feed(rate: AdaptiveRate, times: Iterator[int]) -> list[tuple[int, float]]:
    return [(moment, rate.observe(moment)) for moment in times]


def count_changes(observed: list[tuple[int, float]]) -> int:
    return sum(one != two for (_, one), (_, two) in pairwise(observed))


# Steps


def test_four_steps_halve_a_rate_exactly() -> None:
    assert [rate_of(step) for step in range(0, 20, 4)] == [1.0, 0.5, 0.25, 0.125, 0.0625]
    for step in range(200):
        assert rate_of(step) == pytest.approx(2 ** (-step / 4), rel=1e-15)
        assert rate_of(step + 4) == rate_of(step) / 2


@given(st.floats(1e-6, 1.0), st.floats(1e-6, 1.0))
def test_steps_within_bounds_are_all_steps_between_them(one: float, two: float) -> None:
    low, high = sorted((one, two))
    assert list(steps_within(low, high)) == [step for step in range(100) if low <= rate_of(step) <= high]


def test_bounds_too_close_together_leave_no_step() -> None:
    assert not steps_within(0.51, 0.55)
    with pytest.raises(ValueError, match="no step"):
        adaptive(low=0.51, high=0.55)


# Following the traffic


@pytest.mark.parametrize("per_minute", [30, 200, 1200, 6000])
def test_the_target_is_nearly_met_after_a_minute(per_minute: int) -> None:
    rate = adaptive(target=60.0)
    observed = feed(rate, poisson(per_minute, 6, random.Random(per_minute)))
    later_rates = [rate_then for moment, rate_then in observed if moment >= START + MINUTE]
    expected = min(60.0, per_minute)
    # The expected number of chosen records, within what chance alone explains.
    assert 0.75 * expected < sum(later_rates) / 5 < 1.3 * expected


@pytest.mark.parametrize(("before", "after"), [(600, 6000), (6000, 600), (120, 1200), (1200, 120)])
@pytest.mark.parametrize("seed", range(5))
def test_a_tenfold_change_is_followed_within_a_minute(before: int, after: int, seed: int) -> None:
    rng = random.Random(seed)
    rate = adaptive(target=30.0)
    feed(rate, poisson(before, 5, rng))
    feed(rate, poisson(after, 1, rng, START + 5 * MINUTE))
    settled = feed(rate, poisson(after, 2, rng, START + 6 * MINUTE))
    ideal = 30.0 / after
    assert all(ideal / 1.6 < rate_then < ideal * 1.6 for _, rate_then in settled)


def test_steady_traffic_keeps_the_rate_stable() -> None:
    """The traffic varies only by chance, at rates between two steps, on steps and near the bounds."""
    for number, per_minute in enumerate((90, 71, 500, 3000, 61, 59)):
        rate = adaptive(target=60.0)
        rng = random.Random(number)
        feed(rate, poisson(per_minute, 10, rng))
        observed = feed(rate, poisson(per_minute, 100, rng, START + 10 * MINUTE))
        assert count_changes(observed) <= 2, per_minute


def test_the_rate_starts_at_the_lowest_in_case_of_a_flood() -> None:
    rate = adaptive(low=0.01)
    assert rate.lowest == rate.rate_at(START) == rate.observe(START) == rate_of(steps_within(0.01, 1.0)[-1])


@pytest.mark.parametrize("gap", [MINUTE, 5 * MINUTE, 9 * MINUTE])
def test_in_sparse_traffic_the_rate_at_most_doubles_with_every_record_up_to_the_highest(gap: int) -> None:
    rate = adaptive(target=60.0, low=0.01, high=0.5)
    rates_seen = [rate.observe(START + number * gap) for number in range(10)]
    assert rates_seen[-1] == rate.highest == 0.5
    assert all(two <= 2 * one for one, two in pairwise(rates_seen))


def test_records_hours_apart_eventually_raise_the_rate() -> None:
    rate = adaptive(target=60.0, low=0.1)
    assert [rate.observe(START + number * 120 * MINUTE) for number in range(60)][-1] == 1.0


def test_a_flood_lowers_the_rate_at_once() -> None:
    rate = adaptive(target=60.0)
    feed(rate, poisson(30, 5, random.Random(1)))
    assert rate.observe(START + 5 * MINUTE) == 1.0
    feed(rate, poisson(60_000, 0.2, random.Random(2), START + 5 * MINUTE))
    assert rate.rate_at(START + 6 * MINUTE) < 0.004


def test_a_partition_that_is_hours_behind_counts_without_turning_the_clock_back() -> None:
    rng = random.Random(9)
    both, alone = adaptive(), adaptive()
    for moment in poisson(600, 5, rng):
        alone.observe(moment)
        both.observe(moment)
        both.observe(moment - 300 * MINUTE)
    assert 0.35 < both.rate_at(START + 5 * MINUTE) / alone.rate_at(START + 5 * MINUTE) < 0.7


def test_a_share_of_the_target_is_met_by_a_process_with_a_share_of_the_traffic() -> None:
    whole, half = adaptive(target=60.0), adaptive(target=60.0)
    half.share = 0.5
    rng = random.Random(3)
    for moment in poisson(1200, 5, rng):
        whole.observe(moment)
        if rng.random() < 0.5:
            half.observe(moment)
    assert 0.7 < half.rate_at(START + 5 * MINUTE) / whole.rate_at(START + 5 * MINUTE) < 1.4


def test_a_share_of_zero_gives_the_lowest_rate() -> None:
    rate = adaptive()
    rate.share = 0.0
    assert {rate_then for _, rate_then in feed(rate, poisson(600, 2, random.Random(1)))} == {rate.lowest}


# Times that are not in order


def test_records_out_of_order_count_by_their_own_times() -> None:
    rng = random.Random(5)
    times = list(poisson(1200, 5, rng))
    ordered, shuffled = adaptive(), adaptive()
    feed(ordered, iter(times))
    feed(shuffled, iter(sorted(times, key=lambda moment: moment + rng.uniform(0, 20 * SECOND))))
    assert 0.8 < shuffled.rate_at(START + 5 * MINUTE) / ordered.rate_at(START + 5 * MINUTE) < 1.25


def test_single_records_with_wrong_times_do_not_change_the_rate() -> None:
    rng = random.Random(6)
    times = list(poisson(1200, 5, rng))
    plain, disturbed = adaptive(), adaptive()
    feed(plain, iter(times))
    for number, moment in enumerate(times):
        disturbed.observe(moment)
        if number % 50 == 0:
            disturbed.observe(moment + rng.choice((-400, 400)) * 24 * 60 * MINUTE)
            disturbed.observe(rng.choice((0, -1)))
    assert disturbed.rate_at(START + 5 * MINUTE) == plain.rate_at(START + 5 * MINUTE)


@pytest.mark.parametrize("days", [-300, 300])
def test_a_wrong_first_time_is_forgotten(days: int) -> None:
    rate = adaptive(target=60.0)
    rate.observe(START + days * 24 * 60 * MINUTE)
    observed = feed(rate, poisson(600, 4, random.Random(7)))
    assert 0.06 < observed[-1][1] < 0.17


@pytest.mark.parametrize("partitions", [2, 3])
@pytest.mark.parametrize("run", [5, 12, 50, 200])
def test_partitions_far_apart_in_time_give_about_the_right_rate(run: int, partitions: int) -> None:
    """The gap between the times of two partitions does not count as silence."""
    rate, rng, per_minute = adaptive(target=60.0), random.Random(run), 600
    clocks = [START + number * 36 * 60 * MINUTE for number in range(partitions)]
    rates_seen = []
    for turn in range(18_000 // run):
        for _ in range(run):
            clocks[turn % partitions] += round(rng.expovariate(per_minute / MINUTE))
            rates_seen.append(rate.observe(clocks[turn % partitions]))
    settled = rates_seen[len(rates_seen) // 4 :]
    assert 0.5 < sum(settled) / len(settled) / (60.0 / per_minute) < 2.0


@pytest.mark.parametrize("burst", [1, 2, 5, 30])
def test_a_few_records_every_hour_eventually_raise_the_rate(burst: int) -> None:
    rate = adaptive(target=60.0)
    for hour in range(120):
        rates_seen = [rate.observe(START + hour * 60 * MINUTE + number * 4 * SECOND) for number in range(burst)]
    assert rates_seen[-1] > 0.25


@given(
    st.floats(0.01, 1e6),
    st.lists(st.tuples(st.integers(-1000, 400_000), st.integers(1, 1000)), max_size=60),
    st.floats(0.0, 1.0),
)
def test_for_any_traffic_the_rate_is_a_step_within_bounds(
    target: float, arrivals: list[tuple[int, int]], share: float
) -> None:
    rate = adaptive(target=target, low=0.01, high=0.8)
    rate.share = share
    allowed = {rate_of(step) for step in steps_within(0.01, 0.8)}
    moment = START
    for advance, number in arrivals:
        moment += advance
        assert rate.observe(moment, number) in allowed


# The log


arrivals = st.lists(st.integers(-30_000, 60_000), min_size=1, max_size=80)


@given(arrivals, st.integers(0, 2**32))
def test_a_replayed_log_gives_the_rate_of_every_record(steps: list[int], seed: int) -> None:
    """A late record gets the rate of its own time, not of its arrival."""
    log, rng = StepLog(), random.Random(seed)
    live = adaptive(log)
    clock, decided = START, []
    for ahead in steps:
        clock += ahead
        decided += [
            (moment, live.observe(moment))
            for moment in (clock + rng.randrange(3000) for _ in range(rng.choice((1, 40))))
        ]
    replayed = ReplayedRate("r", Goal(target_per_minute=60.0), StepLog.load(log.dump()))
    assert [(moment, replayed.observe(moment)) for moment, _ in decided] == decided


def test_a_replay_ignores_the_traffic() -> None:
    replayed = ReplayedRate(
        "r", Goal(target_per_minute=1.0), StepLog([RateStep(START, "r", 4), RateStep(START + 10, "r", 8)])
    )
    rates_seen = {replayed.observe(moment) for moment in poisson(60_000, 1, random.Random(1), START + 10)}
    assert rates_seen == {0.25}
    assert (replayed.rate_at(START - 1), replayed.rate_at(START), replayed.rate_at(START + 9)) == (
        replayed.lowest,
        0.5,
        0.5,
    )


def test_the_first_step_and_every_change_are_logged_with_their_times() -> None:
    steps: list[RateStep] = []
    log = StepLog()
    rate = AdaptiveRate("r", Goal(target_per_minute=60.0), log, steps.append)
    observed = feed(rate, poisson(1200, 3, random.Random(2)))
    assert steps == list(log)
    assert steps[0] == RateStep(observed[0][0], "r", rate.steps[-1])
    assert len(steps) == count_changes(observed) + 1
    assert [rate_of(step.k) for step in steps] == list(dict.fromkeys(rate_then for _, rate_then in observed))


def test_a_new_process_resumes_where_the_log_ends() -> None:
    log = StepLog()
    first = adaptive(log)
    feed(first, poisson(1200, 3, random.Random(2)))
    last = first.rate_at(START + 3 * MINUTE)
    assert adaptive(StepLog.load(log.dump())).observe(START + 3 * MINUTE) == last
    bounded = adaptive(StepLog.load(log.dump()), low=0.5)
    assert bounded.observe(START + 3 * MINUTE) == 0.5
    assert bounded.rate_at(START + 3 * MINUTE) == 0.5


def test_rules_do_not_share_their_steps() -> None:
    log = StepLog([RateStep(1, "a", 1), RateStep(2, "b", 2)])
    assert (log.step_at("a", 5), log.step_at("b", 5), log.step_at("b", 1), log.step_at("c", 5)) == (1, 2, None, None)
    assert (log.last("a"), log.last("c")) == (RateStep(1, "a", 1), None)


def test_a_later_entry_overrides_earlier_ones_for_all_times_after_it() -> None:
    log = StepLog([RateStep(10, "r", 1), RateStep(20, "r", 2), RateStep(15, "r", 3)])
    assert [log.step_at("r", moment) for moment in (9, 10, 14, 15, 20, 99)] == [None, 1, 1, 3, 3, 3]


@given(st.lists(st.tuples(st.integers(0, 50), st.sampled_from("ab"), st.integers(0, 80)), max_size=30))
def test_a_log_survives_dumping_and_loading(entries: list[tuple[int, str, int]]) -> None:
    log = StepLog(RateStep(*entry) for entry in entries)
    loaded = StepLog.load(log.dump())
    assert list(loaded) == list(log)
    assert all(loaded.step_at(rule, moment) == log.step_at(rule, moment) for rule in "abc" for moment in range(52))


def test_old_steps_are_dropped_but_not_the_current_one() -> None:
    log = StepLog([RateStep(10, "r", 1), RateStep(20, "r", 2), RateStep(30, "r", 3)])
    log.forget("r", 25)
    assert list(log) == [RateStep(20, "r", 2), RateStep(30, "r", 3)]
    log.forget("other", 25)
    log.forget("r", 5)
    assert log.step_at("r", 25) == 2


@pytest.mark.parametrize(
    "line",
    [
        "x",
        "[]",
        "{}",
        '{"at_ms": 1, "rule": "r"}',
        '{"at_ms": -1, "rule": "r", "k": 1}',
        '{"at_ms": 1.5, "rule": "r", "k": 1}',
        '{"at_ms": true, "rule": "r", "k": 1}',
        '{"at_ms": 1, "rule": "", "k": 1}',
        '{"at_ms": 1, "rule": 5, "k": 1}',
        '{"at_ms": 1, "rule": "r", "k": 99999}',
        '{"at_ms": 1, "rule": "r", "k": 1, "x": 1}',
        "[" * 100_000,
    ],
)
def test_a_line_that_is_not_a_step_is_named(line: str) -> None:
    with pytest.raises(StepLogError, match="line 3 is not a step"):
        StepLog.load(f'{{"at_ms": 1, "rule": "r", "k": 1}}\n\n{line}\n')


def test_steps_are_written_to_the_file_immediately(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    file = StepFile(path)
    assert not path.exists()
    file.write(RateStep(1, "соль", 4))
    assert list(read_step_log(path)) == [RateStep(1, "соль", 4)]
    file.close()
    file.close()
    file.write(RateStep(2, "соль", 5))
    assert list(read_step_log(path)) == [RateStep(1, "соль", 4), RateStep(2, "соль", 5)]
    file.close()


@pytest.mark.parametrize("torn", [b'{"at_ms": 2, "rule"', b"\xd1", b'{"at_ms": 2, "rule": "r", "k": 8}'])
def test_an_incomplete_last_line_is_ignored_and_removed(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "steps.jsonl"
    whole = b'{"at_ms": 1, "rule": "r", "k": 4}\n'
    path.write_bytes(whole + torn)
    assert list(read_step_log(path, may_be_torn=True)) == [RateStep(1, "r", 4)]
    assert path.read_bytes() == whole + torn, "reading changes nothing"
    file = StepFile(path)
    file.write(RateStep(3, "r", 5))
    file.close()
    assert list(read_step_log(path)) == [RateStep(1, "r", 4), RateStep(3, "r", 5)]


def test_a_file_with_only_an_incomplete_line_is_an_empty_log(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    path.write_bytes(b'{"at_ms"')
    assert list(read_step_log(path, may_be_torn=True)) == []


def test_other_invalid_lines_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    path.write_bytes(b'{"at_ms"\n{"at_ms": 1, "rule": "r", "k": 4}\n{')
    with pytest.raises(StepLogError, match="line 1 is not a step"):
        read_step_log(path, may_be_torn=True)


def test_a_file_that_cannot_be_read_or_written_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(StepLogError, match="no such file"):
        read_step_log(tmp_path / "none")
    (tmp_path / "binary").write_bytes(b"\xff")
    with pytest.raises(StepLogError, match="not UTF-8"):
        read_step_log(tmp_path / "binary")
    with pytest.raises(StageError, match=r"sampling\.step_log: cannot write .*"):
        StepFile(tmp_path / "no" / "such").write(RateStep(1, "r", 1))
