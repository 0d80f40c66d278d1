"""The section `budgets`: accepted values, messages for refused ones, and the limits that result."""

from typing import Any

import pytest
from pydantic import ValidationError

from stream.config.model import Config
from stream.config.sections.budgets import MAX_APPS, BudgetsConfig
from stream.service.setup.checks import check_config
from stream.worker.budget import Treasury, shares
from stream.worker.budget.limits import Budget, Budgets, Span
from stream.worker.budget.offset_note import MAX_BYTES, longest
from stream.worker.budget.savings import measures_of


def refusal(**data: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        check_config({"budgets": data})
    return str(caught.value)


def budgets(**data: Any) -> Budgets | None:
    return Budgets.of(check_config({"budgets": data, "sampling": {"safety": {}}}))


def test_without_limits_nothing_is_limited() -> None:
    assert budgets() is None
    assert not BudgetsConfig().has_limits
    assert not Treasury(Budgets.of(Config()), topic="t").active


def test_global_limits_and_limits_of_apps_become_shares() -> None:
    limits = budgets(per_hour_usd=8, apps={"bot": {"per_day_usd": 16}})
    assert limits is not None
    assert limits.apps == {"bot": Budget(per_day_usd=16)}
    partition_shares = shares(limits, 3, 4)
    assert partition_shares[Span.HOUR][""] == (2_000_000_000, 1_600_000_000)
    assert partition_shares[Span.DAY]["bot"].whole == 4_000_000_000


def test_a_budget_of_an_app_alone_is_enough() -> None:
    assert budgets(apps={"bot": {"per_hour_usd": 1}}) is not None


@pytest.mark.parametrize("value", [0, -1, 1e10, float("nan"), True, "much"])
def test_invalid_amounts_are_refused(value: object) -> None:
    assert "per_hour_usd" in refusal(per_hour_usd=value)


def test_an_app_needs_a_limit_that_is_not_above_the_global_one() -> None:
    assert "bot: must set an hourly or a daily limit" in refusal(apps={"bot": {}})
    message = refusal(per_hour_usd=5, apps={"bot": {"per_hour_usd": 6}})
    assert "bot.per_hour_usd: must be at most budgets.per_hour_usd (5)" in message


def test_a_day_has_at_least_the_budget_of_an_hour() -> None:
    advice = "is less than per_hour_usd (10), which could never be spent: raise it"
    assert advice in refusal(per_hour_usd=10, per_day_usd=9)
    app_message = refusal(apps={"bot": {"per_hour_usd": 10, "per_day_usd": 9}})
    assert "apps.bot.per_day_usd" in app_message
    assert advice in app_message
    message = refusal(per_day_usd=9, apps={"bot": {"per_hour_usd": 10}})
    assert "bot.per_hour_usd: must be at most budgets.per_day_usd (9), the global limit" in message
    assert budgets(per_hour_usd=10, per_day_usd=10) is not None


def test_steps_are_listed_once_and_in_the_order_of_their_thresholds() -> None:
    twice = [{"step": "samples", "below": 0.5}, {"step": "samples", "below": 0.4}]
    assert "[1].step: is listed twice" in refusal(degrade=twice)
    rising = [{"step": "samples", "below": 0.2}, {"step": "reserves", "below": 0.3}]
    assert "[1].below: must be at most that of the previous step (0.2)" in refusal(degrade=rising)
    assert measures_of(BudgetsConfig.model_validate({"degrade": []})) == ()


def test_more_apps_than_fit_beside_an_offset_are_refused() -> None:
    large = {f"app-{number}": {"per_hour_usd": 1e6, "per_day_usd": 1e7} for number in range(MAX_APPS)}
    assert f"of {MAX_BYTES} bytes" in refusal(apps=large)
    small = {name: {"per_hour_usd": 10} for name in large}
    limits = budgets(per_day_usd=500, apps=small)
    assert limits is not None
    assert longest(shares(limits, 0, 1)) <= MAX_BYTES


def test_a_judge_without_a_price_is_refused_only_if_there_is_a_budget() -> None:
    judges = [(("judges", "panel", 0), True), (("judges", "panel", 1), False)]
    assert list(BudgetsConfig().find_unpriced(judges)) == []
    ((loc, message),) = BudgetsConfig(per_hour_usd=1.0).find_unpriced(judges)
    assert loc == ("judges", "panel", 1, "price")
    assert "{prompt: 0, completion: 0}" in message
