"""Savings: steps are taken in the configured order, and the records that are kept depend only on their id."""

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


def test_nothing_is_saved_while_there_is_enough_budget() -> None:
    assert plan_savings(1.0, ORDER) == plan_savings(0.4, ORDER) == NO_PLAN
    assert plan_savings(0.0, ()) == NO_PLAN


@pytest.mark.parametrize(
    ("share_left", "count"),
    [(0.39, 1), (0.29, 2), (0.19, 3), (0.1, 3), (0.099, 4), (0.0, 4)],
)
def test_savings_steps_are_taken_one_by_one(share_left: float, count: int) -> None:
    plan = plan_savings(share_left, ORDER)
    steps = (*plan.savings.names, *(["sampling"] if plan.keep_share < 1 else []))
    assert steps == ("samples", "reserves", "cascade", "sampling")[:count]


@pytest.mark.parametrize(
    ("share_left", "keep_share"),
    [(0.0999, 1 / 2), (0.051, 1 / 2), (0.05, 1 / 4), (0.0126, 1 / 8), (0.006, 1 / 16), (0.0, 1 / 16)],
)
def test_the_kept_share_halves_with_the_remaining_budget(share_left: float, keep_share: float) -> None:
    assert plan_savings(share_left, ORDER).keep_share == keep_share


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0.001, 1))
def test_with_less_budget_never_more_is_kept(one: float, other: float, below: float) -> None:
    measures = (SavingMeasure(step=SavingStep.SAMPLING, below=below),)
    less, more = sorted((one, other))
    assert MIN_KEEP <= plan_savings(less, measures).keep_share <= plan_savings(more, measures).keep_share <= 1


class TestThinning:
    ids = tuple(f"id-{number}" for number in range(20_000))

    def test_about_the_share_is_kept_and_smaller_shares_are_subsets_of_larger_ones(self) -> None:
        thinning = Thinning("salt")
        kept_ids = {
            share: {record_id for record_id in self.ids if thinning.keeps(record_id, share)}
            for share in (1.0, 0.5, 0.25)
        }
        assert kept_ids[0.25] < kept_ids[0.5] < kept_ids[1.0] == set(self.ids)
        assert abs(len(kept_ids[0.25]) / len(self.ids) - 0.25) < 0.02

    def test_the_decision_is_the_same_for_text_and_bytes_in_every_process(self) -> None:
        assert [Thinning("salt").keeps(f"id-{number}".encode(), 0.5) for number in range(8)] == [
            Thinning("salt").keeps(f"id-{number}", 0.5) for number in range(8)
        ]

    def test_thinning_is_independent_of_sampling(self) -> None:
        chosen = [record_id for record_id in self.ids if Cohort("salt").draw(record_id) < 0.2]
        kept_count = sum(Thinning("salt").keeps(record_id, 0.5) for record_id in chosen)
        assert abs(kept_count / len(chosen) - 0.5) < 0.05
