"""Estimates are weighted by inclusion probability, have correct intervals, and do not depend on the order of adding."""

import itertools
import math
import pickle
import random
from collections.abc import Callable, Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.bench_estimates import COMBINED, PLAIN, WALD, WEIGHTED, simulate
from sinks.statistics.estimates import Estimate, Estimator, Sums, combine, estimate

Record = tuple[float, float]
Draw = Callable[[random.Random], float]

scores = st.floats(min_value=0.0, max_value=1.0) | st.sampled_from((0.0, 0.25, 0.5, 1.0))
probabilities = st.floats(min_value=1e-4, max_value=1.0) | st.sampled_from((0.05, 1.0))
records = st.lists(st.tuples(scores, probabilities), min_size=2, max_size=40)


def sum_up(some: Iterable[tuple[float | None, float]]) -> Sums:
    estimator = Estimator()
    for score, probability in some:
        estimator.add(score, probability)
    return estimator.sums


def not_none(value: float | None) -> float:
    assert value is not None
    return value


def numbers(result: Estimate) -> list[float]:
    fields = (result.mean, result.low, result.high, result.variance, result.effective_size, result.coverage)
    return [not_none(value) for value in fields]


def close(expected: Sequence[float] | float) -> object:
    return pytest.approx(expected, rel=1e-9, abs=1e-9)


class TestMean:
    def test_a_record_stands_for_as_many_as_its_probability_says(self) -> None:
        """One bad record of twenty weighs as much as twenty that were certain to be chosen."""
        result = estimate(sum_up([(1.0, 0.05), *[(0.0, 1.0)] * 60]))
        assert result.mean == close(20 / 80)

    @given(st.lists(scores, min_size=1, max_size=40), probabilities)
    def test_of_equal_probabilities_it_is_the_plain_mean(self, some: list[float], probability: float) -> None:
        assert estimate(sum_up((score, probability) for score in some)).mean == close(sum(some) / len(some))

    @given(records)
    def test_it_is_within_the_interval_and_the_scores(self, some: list[Record]) -> None:
        result = estimate(sum_up(some))
        assert 0.0 <= not_none(result.low) <= not_none(result.mean) <= not_none(result.high) <= 1.0
        least, most = min(score for score, _ in some), max(score for score, _ in some)
        assert least - 1e-12 <= not_none(result.mean) <= most + 1e-12

    @given(records)
    def test_good_and_bad_may_be_swapped(self, some: list[Record]) -> None:
        """The share of good records is one minus the share of bad ones, and so are the limits."""
        good, bad = estimate(sum_up(some)), estimate(sum_up((1.0 - score, probability) for score, probability in some))
        mirrored = (
            1.0 - not_none(good.mean),
            1.0 - not_none(good.high),
            1.0 - not_none(good.low),
            not_none(good.variance),
        )
        assert (bad.mean, bad.low, bad.high, bad.variance) == close(mirrored)


class TestVariance:
    @given(records)
    def test_it_is_the_linearised_one(self, some: list[Record]) -> None:
        result = estimate(sum_up(some))
        weight = sum(1 / probability for _, probability in some)
        mean = sum(score / probability for score, probability in some) / weight
        parts = ((1 - probability) / probability**2 * (score - mean) ** 2 for score, probability in some)
        assert result.variance == close(sum(parts) / weight**2)

    @given(st.lists(scores, min_size=1, max_size=40))
    def test_traffic_that_was_all_judged_leaves_none(self, some: list[float]) -> None:
        result = estimate(sum_up((score, 1.0) for score in some))
        assert result.variance == 0.0
        assert result.low == result.mean == result.high
        assert result.design_effect is None

    @given(records)
    def test_scores_half_as_far_apart_have_a_quarter_of_it(self, some: list[Record]) -> None:
        whole, half = estimate(sum_up(some)), estimate(sum_up((score / 2, probability) for score, probability in some))
        assert half.variance == close(not_none(whole.variance) / 4)
        assert half.mean == close(not_none(whole.mean) / 2)

    def test_it_survives_many_records_of_almost_the_same_score(self) -> None:
        """Subtracting squares of sums from sums of squares would lose precision here."""
        pair = Sums.of(1.0 - 1e-9, 0.1, times=10**9) + Sums.of(1.0 - 3e-9, 0.1, times=10**9)
        assert estimate(pair).variance == pytest.approx(0.9 * 1e-18 / (2 * 10**9), rel=1e-6)


def samples(population: Sequence[Record]) -> Iterable[tuple[float, list[Record]]]:
    """Yield every sample that can be drawn, with its probability."""
    for choice in itertools.product((True, False), repeat=len(population)):
        pairs = list(zip(population, choice, strict=True))
        chance = math.prod(probability if taken else 1.0 - probability for (_, probability), taken in pairs)
        if chance > 0.0:
            yield chance, [record for record, taken in pairs if taken]


class TestAgainstEverySample:
    """Tiny populations, from which every possible sample is drawn."""

    POPULATION: tuple[Record, ...] = (
        *((1.0, 1.0), (0.0, 1.0), (1.0, 0.8), (0.0, 0.8), (0.25, 0.7), (0.0, 0.7)),
        *((1.0, 0.6), (0.5, 0.6), (0.75, 0.5), (0.0, 0.5), (0.0, 0.5), (0.25, 0.9)),
    )
    TRUE = sum(score for score, _ in POPULATION) / len(POPULATION)

    def test_the_variance_about_the_true_mean_is_exact(self) -> None:
        """Over all samples, the expected value of the estimate is exactly the true variance."""
        error, expected = 0.0, 0.0
        for chance, sample in samples(self.POPULATION):
            sums = sum_up(sample)
            error += chance * (sums.records.weight * (sums.records.mean - self.TRUE)) ** 2
            expected += chance * sums.uncertain.about(self.TRUE)
        assert expected == pytest.approx(error, rel=1e-12)

    def test_the_interval_covers_the_true_mean(self) -> None:
        covered = 0.0
        for chance, sample in samples(self.POPULATION):
            result = estimate(sum_up(sample))
            covered += chance * (not_none(result.low) <= self.TRUE <= not_none(result.high))
        assert covered >= 0.93

    def test_bias_and_error_of_the_variance_vanish_as_traffic_grows(self) -> None:
        """A linearised variance is too small for a few records: by a quarter for nine, by 7 % for 37."""
        biases, ratios = zip(*(expectation(copies) for copies in (1, 2, 4, 8)), strict=True)
        assert all(one / next_one >= 1.5 for one, next_one in itertools.pairwise(biases))
        assert biases[-1] < 0.0002
        assert all(1.0 - next_one <= 0.6 * (1.0 - one) for one, next_one in itertools.pairwise(ratios))
        assert 0.92 <= ratios[-1] <= 1.0


def expectation(copies: int) -> tuple[float, float]:
    """Return the bias of the mean, and the expected variance estimate divided by the mean squared error.
    The traffic is `copies` copies of six records, and every number that can be chosen of each is tried.
        The traffic is so many copies of six records, and every number that can be chosen of each is gone through.
    """
    certain = Sums.of(1.0, 1.0, times=copies) + Sums.of(0.0, 1.0, times=copies)
    uncertain = ((1.0, 0.5), (0.0, 0.5), (1.0, 0.8), (0.25, 0.8))
    true = (1.0 + sum(score for score, _ in uncertain)) / 6
    mean, error, variance = 0.0, 0.0, 0.0
    for counts in itertools.product(range(copies + 1), repeat=len(uncertain)):
        chance, sums = 1.0, certain
        for count, (score, rate) in zip(counts, uncertain, strict=True):
            chance *= math.comb(copies, count) * rate**count * (1.0 - rate) ** (copies - count)
            sums += Sums.of(score, rate, times=count)
        result = estimate(sums)
        mean += chance * not_none(result.mean)
        error += chance * (not_none(result.mean) - true) ** 2
        variance += chance * not_none(result.variance)
    return abs(mean - true), variance / error


class TestInterval:
    def test_no_bad_record_in_a_sample_does_not_mean_none_in_the_traffic(self) -> None:
        """About the rule of three, a little wider: up to z²/(n + z²)."""
        result = estimate(Sums.of(0.0, 0.01, times=100))
        assert result.low == 0.0
        assert not_none(result.high) == pytest.approx(0.0366, abs=0.001)

    def test_it_is_longer_on_the_side_where_there_is_more_room(self) -> None:
        result = estimate(Sums.of(1.0, 0.05, times=3) + Sums.of(0.0, 0.05, times=97))
        assert not_none(result.high) - not_none(result.mean) > 1.5 * (not_none(result.mean) - not_none(result.low))

    def test_for_much_traffic_it_is_the_textbook_one(self) -> None:
        result = estimate(Sums.of(1.0, 0.05, times=30_000) + Sums.of(0.0, 0.1, times=70_000))
        half = 1.959964 * math.sqrt(not_none(result.variance))
        assert (result.low, result.high) == pytest.approx(
            (not_none(result.mean) - half, not_none(result.mean) + half), abs=1e-4
        )

    def test_a_few_records_of_one_score_are_not_certain(self) -> None:
        result = estimate(Sums.of(0.75, 0.1, times=5))
        assert result.variance == 0.0
        assert not_none(result.high) - not_none(result.low) > 0.2

    def test_one_score_of_almost_nothing_is_about_the_same_as_none(self) -> None:
        """A step here would let a single judgement of 0.01 make a day of zeros look certain."""
        none, almost = Sums.of(0.0, 0.05, times=50), Sums.of(0.0, 0.05, times=49) + Sums.of(0.01, 0.05)
        assert estimate(almost).high == pytest.approx(estimate(none).high, rel=0.1)

    def test_it_narrows_with_the_part_that_is_judged(self) -> None:
        """Down to zero: judging nine of ten leaves little uncertainty."""
        widths = []
        for rate in (0.05, 0.5, 0.9, 0.99):
            result = estimate(Sums.of(1.0, rate, times=20) + Sums.of(0.0, rate, times=80))
            widths.append(not_none(result.high) - not_none(result.low))
        assert widths == sorted(widths, reverse=True)
        assert widths[-1] < 0.2 * widths[0]

    def test_certain_records_do_not_narrow_the_interval_of_the_others(self) -> None:
        """A thousand risky records that were all judged say nothing about the rest, of which only one in twenty was."""
        rest = Sums.of(0.0, 0.05, times=50)
        alone, beside = estimate(rest), estimate(rest + Sums.of(1.0, 1.0, times=200) + Sums.of(0.0, 1.0, times=800))
        assert not_none(beside.high) - not_none(beside.mean) >= not_none(alone.high) / 2

    @pytest.mark.parametrize(
        "draw",
        [
            pytest.param(lambda rng: rng.choices((0.0, 0.25, 0.5, 0.75, 1.0), (2, 3, 10, 35, 50))[0], id="levels"),
            pytest.param(lambda rng: rng.betavariate(8, 2), id="continuous"),
            pytest.param(lambda rng: float(rng.random() < 0.5), id="pass or fail"),
        ],
    )
    @pytest.mark.slow
    def test_it_covers_scores_of_every_kind(self, draw: Draw) -> None:
        """300 records of three probabilities, of which 125 are judged: the interval is too wide, if anything."""
        rng, covered, days = random.Random(3), 0, 300
        for _day in range(days):
            population = [(draw(rng), probability) for probability in (1.0, 0.2, 0.05) * 100]
            true = sum(score for score, _ in population) / len(population)
            result = estimate(sum_up(record for record in population if rng.random() < record[1]))
            covered += not_none(result.low) <= true <= not_none(result.high)
        assert covered / days >= 0.93


class TestSizes:
    @given(records)
    def test_the_effective_size_is_between_one_and_the_count(self, some: list[Record]) -> None:
        result = estimate(sum_up(some))
        assert 1.0 <= not_none(result.effective_size) <= len(some)
        assert not_none(result.weighting_effect) >= 1.0
        weights = [1 / probability for _, probability in some]
        assert result.effective_size == close(sum(weights) ** 2 / sum(weight**2 for weight in weights))

    @given(records, st.floats(min_value=0.01, max_value=1.0))
    def test_the_effective_size_knows_only_the_ratios_of_weights(self, some: list[Record], factor: float) -> None:
        scaled = estimate(sum_up((score, probability * factor) for score, probability in some))
        assert scaled.effective_size == close(not_none(estimate(sum_up(some)).effective_size))
        assert scaled.mean == close(not_none(estimate(sum_up(some)).mean))

    @given(st.lists(scores, min_size=2, max_size=40), st.floats(min_value=0.01, max_value=0.99))
    def test_of_equal_probabilities_there_is_no_design_effect(self, some: list[float], probability: float) -> None:
        result = estimate(sum_up((score, probability) for score in some))
        assert result.effective_size == close(len(some))
        assert result.design_effect is None or result.design_effect == pytest.approx(1.0, rel=1e-6)

    def test_sampling_at_odds_with_the_spread_costs_and_in_line_with_it_pays(self) -> None:
        mixed = [(1.0, 50), (0.0, 50)]
        same = [(0.9, 50), (0.8, 50)]

        def effect(mixed_rate: float, same_rate: float) -> float:
            sums = Sums()
            for some, rate in ((mixed, mixed_rate), (same, same_rate)):
                for score, count in some:
                    sums += Sums.of(score, rate, times=round(count * rate * 10))
            return not_none(estimate(sums).design_effect)

        assert effect(0.5, 0.1) < 0.9
        assert effect(0.1, 0.5) > 1.5


class TestAdding:
    @given(records, st.randoms(use_true_random=False))
    def test_the_order_does_not_matter(self, some: list[Record], rng: random.Random) -> None:
        shuffled = rng.sample(some, len(some))
        assert numbers(estimate(sum_up(shuffled))) == close(numbers(estimate(sum_up(some))))

    @given(records, st.lists(st.integers(min_value=0, max_value=3), min_size=40, max_size=40))
    def test_merged_sums_of_processes_equal_those_of_one_process(self, some: list[Record], homes: list[int]) -> None:
        merged = Estimator()
        for home in range(4):
            apart = Estimator()
            for (score, probability), chosen in zip(some, homes, strict=False):
                if chosen == home:
                    apart.add(score, probability)
            merged.merge(pickle.loads(pickle.dumps(apart.sums)))
        assert numbers(merged.result()) == close(numbers(estimate(sum_up(some))))

    @given(scores, probabilities, st.integers(min_value=2, max_value=9))
    def test_identical_records_can_be_added_at_once(self, score: float, probability: float, times: int) -> None:
        at_once = Sums.of(score, probability, times=times) + Sums.of(0.5, 0.5)
        one_by_one = sum_up([*[(score, probability)] * times, (0.5, 0.5)])
        assert numbers(estimate(at_once)) == close(numbers(estimate(one_by_one)))

    def test_nothing_added_changes_nothing(self) -> None:
        sums = sum_up([(0.3, 0.2), (0.7, 1.0)])
        assert sums + Sums() == sums == Sums() + sums
        assert sums + Sums.of(1.0, 0.5, times=0) == sums

    def test_an_estimator_merges_another(self) -> None:
        one, other = Estimator(Sums.of(1.0, 0.5)), Estimator(Sums.of(0.0, 0.5))
        one.merge(other)
        assert one.result().mean == 0.5
        assert other.result().count == 1

    @pytest.mark.parametrize("probability", [0.0, -0.1, 1.1, 1e-300, math.nan, math.inf])
    def test_an_invalid_inclusion_probability_is_refused(self, probability: float) -> None:
        with pytest.raises(ValueError, match="inclusion probability"):
            Sums.of(0.5, probability)

    @pytest.mark.parametrize("score", [-0.1, 1.1, math.nan, math.inf])
    def test_an_invalid_score_is_refused(self, score: float) -> None:
        with pytest.raises(ValueError, match="a score must be between 0 and 1"):
            Sums.of(score, 0.5)

    def test_records_are_not_taken_back(self) -> None:
        with pytest.raises(ValueError, match="must be at least 0"):
            Sums.of(0.5, 0.5, times=-1)

    def test_the_smallest_probabilities_there_are_stay_finite(self) -> None:
        result = estimate(Sums.of(1.0, 2.0**-53, times=10**6) + Sums.of(0.0, 1.0 - 2.0**-53, times=10**6))
        assert all(math.isfinite(number) for number in numbers(result))


class TestTooLittle:
    def test_no_records_give_no_numbers(self) -> None:
        assert estimate(Sums()) == Estimate(count=0)
        assert estimate(Sums()).weighting_effect is None

    def test_one_record_has_a_mean_and_no_interval(self) -> None:
        result = estimate(Sums.of(0.7, 0.05))
        assert result == Estimate(count=1, coverage=1.0, mean=0.7, effective_size=1.0)

    def test_one_record_that_was_all_the_traffic_is_certain(self) -> None:
        result = estimate(Sums.of(0.7, 1.0))
        assert (result.low, result.mean, result.high, result.variance) == (0.7, 0.7, 0.7, 0.0)

    def test_only_unscored_records_give_a_coverage_and_no_mean(self) -> None:
        assert estimate(sum_up([(None, 0.5), (None, 1.0)])) == Estimate(count=0, coverage=0.0)

    def test_coverage_is_the_share_of_the_traffic_that_could_be_scored(self) -> None:
        """An unscored record that stands for twenty counts as twenty missing ones, and does not change the mean."""
        result = estimate(sum_up([(1.0, 0.1), (0.0, 0.1), (None, 0.05)]))
        assert result.coverage == close(20 / 40)
        assert (result.mean, result.count) == (0.5, 2)


class TestStrata:
    def test_strata_count_by_their_share_of_the_traffic(self) -> None:
        risky, rest = Sums.of(1.0, 1.0, times=4) + Sums.of(0.0, 1.0, times=6), Sums.of(0.0, 0.1, times=7)
        result = combine({"risky": (risky, 10), "rest": (rest, 90)})
        assert result.mean == close(0.4 * 0.1)
        assert result.count == 17
        assert not_none(result.high) > not_none(result.mean)

    @given(records)
    def test_a_single_stratum_is_its_own_estimate(self, some: list[Record]) -> None:
        sums = sum_up(some)
        combined, alone = combine({"all": (sums, sums.records.weight)}), estimate(sums)
        assert numbers(combined) == close(numbers(alone))
        assert combined.design_effect == (None if alone.design_effect is None else close(alone.design_effect))

    @given(st.lists(st.tuples(records, st.integers(min_value=1, max_value=1000)), min_size=2, max_size=4))
    def test_variances_add_up_by_the_squares_of_the_shares(self, some: list[tuple[list[Record], int]]) -> None:
        strata = {str(number): (sum_up(part), traffic) for number, (part, traffic) in enumerate(some)}
        result, total = combine(strata), sum(traffic for _, traffic in some)
        alone = [(estimate(sums), traffic / total) for sums, traffic in strata.values()]
        assert result.mean == close(sum(share * not_none(one.mean) for one, share in alone))
        assert result.variance == close(sum(share**2 * not_none(one.variance) for one, share in alone))
        assert 0.0 <= not_none(result.low) <= not_none(result.mean) <= not_none(result.high) <= 1.0
        assert 1.0 - 1e-9 <= not_none(result.effective_size) <= result.count * (1 + 1e-9)

    def test_a_known_size_narrows_the_interval(self) -> None:
        risky, rest = Sums.of(0.9, 0.2, times=100), Sums.of(0.1, 0.05, times=100)
        apart = combine({"risky": (risky, 500), "rest": (rest, 2000)})
        assert apart.mean == close(not_none(estimate(risky + rest).mean))
        assert not_none(apart.variance) < not_none(estimate(risky + rest).variance)

    def test_a_stratum_without_scores_lowers_the_coverage_and_leaves_the_mean(self) -> None:
        judged = Sums.of(1.0, 0.5, times=5) + Sums.of(0.0, 0.5, times=5)
        strata = {"judged": (judged, 75), "filtered": (Sums(), 15), "failing": (Sums.of(None, 0.5, times=3), 10)}
        result = combine(strata)
        assert (result.mean, result.coverage, result.count) == (0.5, 0.75, 10)

    def test_a_single_record_of_a_stratum_could_have_been_anything(self) -> None:
        many = Sums.of(1.0, 0.5, times=500) + Sums.of(0.0, 0.5, times=500)
        result = combine({"many": (many, 1800), "lone": (Sums.of(1.0, 0.01), 200)})
        assert result.mean == close(0.55)
        assert not_none(result.low) <= 0.45
        assert not_none(result.variance) >= 0.01 * 0.25 * 0.99

    def test_nothing_to_combine_gives_no_numbers(self) -> None:
        assert combine({}) == Estimate(count=0)
        assert combine({"idle": (Sums(), 0)}) == Estimate(count=0)
        assert combine({"unjudged": (Sums(), 10)}) == Estimate(count=0, coverage=0.0)
        assert combine({"lone": (Sums.of(0.7, 0.5), 2)}) == estimate(Sums.of(0.7, 0.5))

    @pytest.mark.parametrize("traffic", [-1.0, math.nan, math.inf])
    def test_invalid_traffic_is_refused(self, traffic: float) -> None:
        with pytest.raises(ValueError, match="traffic"):
            combine({"rule": (Sums.of(1.0, 0.5), traffic)})


class TestDays:
    """1,000 days: 5 % of the traffic is risky, 40 % bad, all judged; of the rest 2 % is bad and 5 % judged."""

    @pytest.mark.slow
    @pytest.mark.parametrize("volume", [5_000, 20_000])
    def test_the_bad_rate_is_unbiased_and_its_interval_covers(self, volume: int) -> None:
        tallies = simulate(volume, days=1_000)
        for name in (WEIGHTED, COMBINED):
            assert abs(tallies[name].bias) <= 0.002
            assert 0.93 <= tallies[name].coverage <= 0.97
        assert tallies[PLAIN].ratio == pytest.approx(5.5, abs=0.1)
        assert tallies[PLAIN].coverage == 0.0

    def test_it_covers_where_the_textbook_interval_fails(self) -> None:
        """One bad record is expected among the uncertain ones: often none is drawn, and ±1.96 σ has no width."""
        tallies = simulate(1_000, days=1_000)
        assert tallies[WALD].coverage < 0.75
        assert 0.93 <= tallies[WEIGHTED].coverage <= 0.97
