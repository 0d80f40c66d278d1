"""A model pays for its calls: before each attempt, from the purse that is bound around the work."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Unpack

import pytest

from judges.criteria.catalogue import load_catalogue
from judges.llm.methods.direct import DirectJudge
from judges.models.base import ChatMessage, Completion
from judges.models.endpoint import ModelOptions
from judges.models.errors import ModelError, ModelOverBudget, ModelTimeout, ModelUnavailable
from judges.models.flow import Flow, FlowLimits
from judges.models.prices import ModelPrice
from judges.models.providers import OpenAIModel
from judges.models.spending import NANODOLLARS, Hold, Purse, nanodollars, paying_from
from judges.values.evaluation import JudgeVerdict, Reason
from judges.values.interaction import Interaction, case_of
from tests.integration.pipeline import wait_until
from tests.parts.endpoints.judge_endpoint import (
    Fault,
    JudgeEndpoint,
    Response,
    broken,
    chat_response,
    delayed,
    error_response,
    in_turn,
    json_response,
)
from tests.parts.patience import patience
from tests.parts.server import free_port

PRICE = ModelPrice(prompt=2.0, completion=30.0, cached=0.5)
# Usage reported by the endpoint: a hundred prompt tokens and ten completion tokens.
COST = 100 * 2_000 + 10 * 30_000
MESSAGES = [ChatMessage(role="user", content="Is it so?")]
LIMITS = FlowLimits(backoff_seconds=0.001, longest_backoff_seconds=0.002)


@dataclass
class Account:
    """A purse that records reservations and their settlements."""

    limit: int = NANODOLLARS
    reserved: list[int] = field(default_factory=list)
    settled: list[int | None] = field(default_factory=list)

    async def reserve(self, nano: int) -> Hold | None:
        if nano > self.limit:
            return None
        self.reserved.append(nano)
        return Reservation(self, nano)


@dataclass
class Reservation:
    account: Account
    nano: int
    open: bool = True

    def settle(self, nano: int | None) -> None:
        if self.open:
            self.open = False
            self.account.settled.append(nano)


class NeverPays:
    async def reserve(self, _nano: int) -> Hold | None:
        await asyncio.Event().wait()
        raise AssertionError


def model(url: str, **options: Unpack[ModelOptions]) -> OpenAIModel:
    usual: ModelOptions = {"price": PRICE, "flow": Flow(LIMITS), "max_tokens": 50}
    usual.update(options)
    return OpenAIModel("m", base_url=url, **usual)


def ask_model(url: str, account: Purse, **options: Unpack[ModelOptions]) -> Completion:
    async def ask() -> Completion:
        subject = model(url, **options)
        try:
            with paying_from(account):
                return await subject.complete(MESSAGES, schema=None)
        finally:
            await subject.aclose()

    return asyncio.run(ask())


def test_the_maximum_is_reserved_first_and_replaced_by_the_cost() -> None:
    account = Account()
    with JudgeEndpoint(lambda _body: chat_response("yes")) as endpoint:
        completion = ask_model(endpoint.base_url, account)
    assert completion.cost_usd == pytest.approx(COST / NANODOLLARS)
    assert account.settled == [COST]
    (reserved,) = account.reserved
    assert reserved >= len(MESSAGES[0].content) * 2_000 + 50 * 30_000


def test_cached_tokens_have_their_own_price() -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "prompt_tokens_details": {"cached_tokens": 60}}
    answer = {
        "choices": [{"message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}],
        "usage": usage,
    }
    account = Account()
    with JudgeEndpoint(lambda _body: json_response(answer)) as endpoint:
        completion = ask_model(endpoint.base_url, account)
    cost = 40 * 2_000 + 60 * 500 + 10 * 30_000
    assert account.settled == [cost]
    assert completion.cost_usd == pytest.approx(cost / NANODOLLARS)


def test_unreported_usage_counts_in_full() -> None:
    answer = {"choices": [{"message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}]}
    account = Account()
    with JudgeEndpoint(lambda _body: json_response(answer)) as endpoint:
        assert ask_model(endpoint.base_url, account).cost_usd is None
    assert account.settled == [None]


@pytest.mark.parametrize(
    "usage",
    [
        {"completion_tokens": 5},
        {"prompt_tokens": None, "completion_tokens": 5},
        {"prompt_tokens": -1, "completion_tokens": 5},
        {"prompt_tokens": 100},
        {"prompt_tokens": 10**320, "completion_tokens": 5},
    ],
    ids=["no prompt", "null", "negative", "no completion", "absurd"],
)
def test_half_a_usage_and_nonsense_count_in_full(usage: dict[str, int | None]) -> None:
    choice = {"message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}
    account = Account()
    with JudgeEndpoint(lambda _body: json_response({"choices": [choice], "usage": usage})) as endpoint:
        assert ask_model(endpoint.base_url, account).cost_usd is None
    assert account.settled == [None]


def test_the_maximum_uses_the_most_expensive_way_of_billing() -> None:
    odd = ModelPrice(prompt=1.0, completion=1.0, cached=50.0)
    assert odd.most(1000, 10) >= odd.cost(1000, 10, 1000)


def test_without_money_nothing_is_asked() -> None:
    with JudgeEndpoint(lambda _body: chat_response("yes")) as endpoint:
        with pytest.raises(ModelOverBudget, match="not called"):
            ask_model(endpoint.base_url, Account(limit=10))
        assert not endpoint.calls


def test_a_model_that_costs_nothing_needs_no_money() -> None:
    with JudgeEndpoint(lambda _body: chat_response("yes")) as endpoint:
        free = ModelPrice(prompt=0, completion=0)
        assert ask_model(endpoint.base_url, Account(limit=0), price=free).cost_usd == 0.0


def test_money_is_not_waited_for_beyond_the_deadline() -> None:
    with JudgeEndpoint(lambda _body: chat_response("yes")) as endpoint:
        with pytest.raises(ModelTimeout, match="no budget"):
            ask_model(endpoint.base_url, NeverPays(), timeout_seconds=0.05)
        assert not endpoint.calls


def unreachable() -> str:
    return f"http://127.0.0.1:{free_port()}/v1"


def test_an_unreachable_endpoint_costs_nothing() -> None:
    account = Account()
    with pytest.raises(ModelUnavailable):
        ask_model(unreachable(), account)
    assert account.settled == [0] * (LIMITS.retries + 1)


@pytest.mark.parametrize(
    ("fails", "cost"),
    [
        (lambda: error_response(429), 0),
        (lambda: error_response(401), 0),
        (lambda: error_response(404), 0),
        (lambda: error_response(500), None),
        (lambda: error_response(503), None),
        (lambda: broken(Fault.HALF), None),
        (lambda: broken(Fault.RESET), None),
        (lambda: broken(Fault.TRICKLE), None),
        (lambda: delayed(chat_response("yes"), 600.0), None),
        (lambda: json_response({"no": "completion"}), None),
    ],
    ids=["429", "401", "404", "500", "503", "half", "reset", "trickle", "silence", "nonsense"],
)
def test_only_calls_that_may_have_been_billed_count_in_full(fails: Callable[[], Response], cost: int | None) -> None:
    account = Account()
    # What answers must do so in time, also on a busy machine: an answer that came too late may have been billed.
    response = fails()
    answers = response.fault is not Fault.TRICKLE and not response.delay
    seconds = 30.0 if answers else 0.5 * patience()
    with JudgeEndpoint(lambda _body: response) as endpoint:
        with pytest.raises(ModelError):
            ask_model(endpoint.base_url, account, flow=Flow(FlowLimits(retries=0)), timeout_seconds=seconds)
        wait_until(lambda: bool(endpoint.calls), seconds=30, what="the endpoint has read the request")
        assert len(endpoint.calls) == 1
    assert account.settled == [cost]


def test_every_further_attempt_is_paid_for_itself() -> None:
    account = Account()
    answers = in_turn(error_response(500), error_response(429), chat_response("yes"))
    with JudgeEndpoint(answers) as endpoint:
        assert ask_model(endpoint.base_url, account).retries == 2
    assert account.settled == [None, 0, COST]
    assert len(account.reserved) == 3


def test_a_call_that_never_started_returns_its_money() -> None:
    account = Account()

    async def fail_twice() -> None:
        subject = model(endpoint.base_url, flow=Flow(FlowLimits(retries=0, failures_to_open=1)))
        with paying_from(account):
            for _ in range(2):
                with pytest.raises(ModelUnavailable):
                    await subject.complete(MESSAGES, schema=None)
        await subject.aclose()

    with JudgeEndpoint(lambda _body: error_response(500)) as endpoint:
        asyncio.run(fail_twice())
        assert len(endpoint.calls) == 1
    assert account.settled == [None, 0]


def test_a_hedge_is_paid_for_too() -> None:
    account = Account()
    slow = delayed(chat_response("yes"), 2.0)
    with JudgeEndpoint(in_turn(slow, chat_response("yes"))) as endpoint:
        ask_model(endpoint.base_url, account, flow=Flow(FlowLimits(hedge_seconds=0.05)))
    # The slow one was cancelled: it may be billed.
    assert sorted(account.settled, key=str) == [COST, None]


def test_an_unpaid_verdict_says_so_and_has_no_score() -> None:
    case = case_of(Interaction(id="1", question="Is it so?", answer="It is."), None)

    async def judge_once() -> JudgeVerdict:
        subject = DirectJudge(model(endpoint.base_url))
        with paying_from(Account(limit=nanodollars(0.000001))):
            verdict = await subject.judge(case, load_catalogue()["clarity"])
        await subject.aclose()
        return verdict

    with JudgeEndpoint() as endpoint:
        verdict = asyncio.run(judge_once())
        assert not endpoint.calls
    assert (verdict.reason, verdict.score) == (Reason.BUDGET, None)
    assert "USD" in (verdict.detail or "")
