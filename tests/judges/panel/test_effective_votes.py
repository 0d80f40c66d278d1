"""The effective number of votes of simulated judges with known errors."""

import random
from collections.abc import Callable, Sequence
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.criteria.catalogue import load_catalogue
from judges.criteria.criterion import Criterion
from judges.panel import Panel
from judges.panel.effective_votes import EffectiveVotes, PairWindow
from judges.scripted import ScriptedJudge

Case = Callable[[random.Random], Sequence[float]]


def votes(case: Case, *, judges: int = 3, cases: int = 4000) -> float:
    """Return the effective votes of judges that score like the function, over many cases."""
    random_ = random.Random(1)
    window = PairWindow(judges, cases=cases)
    for _ in range(cases):
        window.add(case(random_))
    result = window.votes
    assert result is not None
    return result


def test_judges_that_score_independently_count_fully() -> None:
    assert votes(lambda random_: [random_.random() for _ in range(3)]) == pytest.approx(3, rel=0.05)


def test_five_independent_judges_count_as_nearly_five() -> None:
    assert votes(lambda random_: [random_.random() for _ in range(5)], judges=5) == pytest.approx(5, rel=0.1)


def test_clones_are_one_judge() -> None:
    assert votes(lambda random_: [random_.random()] * 3) == 1.0


def test_a_clone_that_is_always_stricter_by_the_same_is_still_a_clone() -> None:
    def strict(random_: random.Random) -> Sequence[float]:
        score = random_.choice([0.5, 0.75, 1.0])
        return [score, score - 0.25, score - 0.5]

    assert votes(strict) == 1.0


def test_two_clones_and_one_independent_judge_are_one_and_four_fifths() -> None:
    def pair_and_one(random_: random.Random) -> Sequence[float]:
        score = random_.random()
        return [score, score, random_.random()]

    assert votes(pair_and_one) == pytest.approx(1.8, rel=0.01)


def test_a_common_truth_is_not_a_common_error() -> None:
    """Judges that agree because the cases are clear are not clones of each other."""

    def truthful(random_: random.Random) -> Sequence[float]:
        truth = random_.choice([0.2, 0.8])
        return [truth + random_.uniform(-0.1, 0.1) for _ in range(3)]

    assert votes(truthful) == pytest.approx(3, rel=0.05)


def test_a_pair_with_partly_common_errors_counts_between() -> None:
    """Two of three share half of their error variance: 9 / (3 + 2 * 0.5)."""

    def score_related(random_: random.Random) -> Sequence[float]:
        common = random_.gauss(0, 0.1)
        own = [random_.gauss(0, 0.1) for _ in range(2)]
        return [0.5 + common + own[0], 0.5 + common + own[1], 0.5 + random_.gauss(0, 0.1 * 2**0.5)]

    assert votes(score_related, cases=20_000) == pytest.approx(9 / 4, rel=0.03)


def test_one_judge_is_one_vote_and_judges_that_never_differ_are_one() -> None:
    assert votes(lambda random_: [random_.random()], judges=1) == 1.0
    assert votes(lambda _: [0.5, 0.5], judges=2) == 1.0


def test_there_is_no_number_before_enough_cases() -> None:
    window = PairWindow(2, minimum=30)
    for number in range(29):
        window.add([number % 2, 0.5])
    assert window.votes is None
    window.add([1.0, 0.5])
    assert window.votes == 2.0


def test_the_window_forgets_old_cases() -> None:
    random_ = random.Random(2)
    window = PairWindow(3, cases=100)
    for _ in range(100):
        window.add([random_.random() for _ in range(3)])
    assert (window.votes or 0) > 2
    for _ in range(100):
        window.add([random_.random()] * 3)
    assert len(window) == 100
    assert window.votes == 1.0


scores = st.floats(min_value=0, max_value=1)


@given(st.integers(2, 4).flatmap(lambda n: st.lists(st.lists(scores, min_size=n, max_size=n), min_size=1, max_size=40)))
def test_running_sums_match_the_definition(cases: list[list[float]]) -> None:
    judges = len(cases[0])
    window = PairWindow(judges, cases=10, minimum=1)
    for case in cases:
        window.add(case)
    result = window.votes
    assert result is not None
    assert 1.0 <= result <= judges + 1e-9
    window_cases = [[round(score * 2**20) for score in case] for case in cases[-10:]]

    def variance(one: int, other: int) -> float:
        differences = [case[one] - case[other] for case in window_cases]
        return fmean(d * d for d in differences) - fmean(differences) ** 2

    variances = [[variance(one, other) for other in range(judges)] for one in range(judges)]
    largest = max(map(max, variances))
    if largest > 1:
        expected = judges**2 / sum(1 - value / largest for row in variances for value in row)
        assert result == pytest.approx(expected, rel=1e-6)


def test_each_criterion_has_its_own_window() -> None:
    effective = EffectiveVotes()
    for number in range(40):
        effective.add("clones", [number % 2, number % 2])
        effective.add("strangers", [number % 2, number // 2 % 2])
    assert effective.votes("clones") == 1.0
    assert effective.votes("strangers") == 2.0
    assert effective.votes("unseen") is None


def test_a_panel_is_not_confused_by_criteria_of_one_name_that_different_judges_take() -> None:
    class OnlyPassFail(ScriptedJudge):
        def why_not(self, criterion: Criterion) -> str | None:
            return None if criterion.scale.kind == "binary" else "it passes or fails"

    judges = [ScriptedJudge(lambda *_: 1, name) for name in "ab"]
    panel = Panel(judges=(*judges, OnlyPassFail(lambda *_: 1, "c")))
    levels = load_catalogue("rag")["clarity"].model_copy(update={"name": "x", "context": ()})
    check = Criterion.pass_fail("Is it clear?").model_copy(update={"name": "x"})
    for criterion, count in ((levels, 2), (check, 3), (levels, 2)):
        [dimension] = panel.evaluate(["So."], criterion)
        assert len(dimension.judges) == count


def test_criteria_made_up_on_the_fly_do_not_fill_the_memory() -> None:
    effective = EffectiveVotes()
    for number in range(1000):
        effective.add(f"criterion-{number}", [0.0, 1.0])
    assert len(effective._windows) == 256


@pytest.mark.parametrize(("judges", "cases", "minimum"), [(0, 10, 5), (2, 10, 11), (2, 10, 0)])
def test_a_window_that_cannot_work_is_refused(judges: int, cases: int, minimum: int) -> None:
    with pytest.raises(ValueError, match="a window needs"):
        PairWindow(judges, cases=cases, minimum=minimum)


def test_a_case_has_a_score_of_every_judge() -> None:
    with pytest.raises(ValueError, match="each of the 3 judges, not 2"):
        PairWindow(3).add([0.5, 0.5])
