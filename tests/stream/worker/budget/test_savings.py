"""Economy: what is left out follows the configured order, and who is kept depends on the id alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream.config.sections.budgets import BudgetsConfig
from stream.records.decision import Cohort
from stream.worker.budget.savings import (
    MIN_KEEP,
    NO_PLAN,
    SavingMeasure,
    SavingStep,
    Thinning,
    measures_of,
    plan_savings,
)

ORDER = measures_of(BudgetsConfig())


def test_nothing_is_left_out_while_there_is_enough() -> None:
    assert plan_savings(1.0, ORDER) == plan_savings(0.4, ORDER) == NO_PLAN
    assert plan_savings(0.0, ()) == NO_PLAN


@pytest.mark.parametrize(
    ("left", "taken"),
    [(0.39, 1), (0.29, 2), (0.19, 3), (0.1, 3), (0.099, 4), (0.0, 4)],
)
def test_one_step_after_the_other_is_taken(left: float, taken: int) -> None:
    found = plan_savings(left, ORDER)
    steps = (*found.savings.names, *(["sampling"] if found.keep_share < 1 else []))
    assert steps == ("samples", "reserves", "cascade", "sampling")[:taken]


@pytest.mark.parametrize(
    ("left", "kept"), [(0.0999, 1 / 2), (0.051, 1 / 2), (0.05, 1 / 4), (0.0126, 1 / 8), (0.006, 1 / 16), (0.0, 1 / 16)]
)
def test_the_share_that_is_kept_halves_with_what_is_left(left: float, kept: float) -> None:
    assert plan_savings(left, ORDER).keep_share == kept


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0.001, 1))
def test_with_less_money_never_more_is_kept(one: float, other: float, below: float) -> None:
    measures = (SavingMeasure(step=SavingStep.SAMPLING, below=below),)
    less, more = sorted((one, other))
    assert MIN_KEEP <= plan_savings(less, measures).keep_share <= plan_savings(more, measures).keep_share <= 1


class TestThinning:
    ids = tuple(f"id-{number}" for number in range(20_000))

    def test_about_the_share_is_kept_and_a_smaller_share_is_part_of_a_larger(self) -> None:
        thinning = Thinning("salt")
        kept = {share: {each for each in self.ids if thinning.keeps(each, share)} for share in (1.0, 0.5, 0.25)}
        assert kept[0.25] < kept[0.5] < kept[1.0] == set(self.ids)
        assert abs(len(kept[0.25]) / len(self.ids) - 0.25) < 0.02

    def test_it_decides_alike_in_every_process_for_text_and_bytes(self) -> None:
        assert [Thinning("salt").keeps(f"id-{number}".encode(), 0.5) for number in range(8)] == [
            Thinning("salt").keeps(f"id-{number}", 0.5) for number in range(8)
        ]

    def test_it_has_nothing_to_do_with_what_the_sampler_chose(self) -> None:
        chosen = [each for each in self.ids if Cohort("salt").draw(each) < 0.2]
        kept = sum(Thinning("salt").keeps(each, 0.5) for each in chosen)
        assert abs(kept / len(chosen) - 0.5) < 0.05
