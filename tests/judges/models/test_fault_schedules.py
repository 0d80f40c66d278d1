"""Hundreds of generated schedules of faults on real sockets, played through a whole judge that pays for its calls.

Nothing hangs or leaks, no fault becomes a score, and every call is counted and paid for.
"""

import asyncio
import gc
import json
import logging
import math
import os
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from judges.criteria.catalogue import load_catalogue
from judges.criteria.criterion import Criterion
from judges.llm.methods.direct import DirectJudge
from judges.llm.together import Ask
from judges.models.flow import FailureKind, FlowLimits
from judges.models.prices import ModelPrice
from judges.models.providers import OpenAIModel
from judges.models.redaction import Redactor
from judges.models.spending import Hold, dollars, paying_from
from judges.values.evaluation import JudgeVerdict, Reason, Status
from judges.values.interaction import Interaction, case_of
from tests.parts.certificates import Authority
from tests.parts.endpoints.faulty_endpoint import (
    COMPLETION_TOKENS,
    PROMPT_TOKENS,
    Fault,
    FaultyEndpoint,
    Limit,
    Script,
    Step,
)
from tests.parts.endpoints.observed_flow import ObservedFlow
from tests.parts.patience import patience

SCHEDULES = 250
AT_ONCE = 16
# Time beyond the deadlines of its calls that a verdict may take: a busy machine adds seconds, a hang never ends.
GRACE = 15.0

CLARITY = load_catalogue()["clarity"]
LABELS = [choice.label.en for choice in CLARITY.scale.choices]
TOGETHER = tuple(CLARITY.model_copy(update={"name": f"clarity_{letter}"}) for letter in "abcdef")
"""The criteria of a judge that asks about several in one call; all on one scale, so that each reply fits each."""
ADDRESS = "anna.b@mail.example"
CASE = case_of(Interaction(id="1", question="Whom do I ask?", answer=f"Write to {ADDRESS}, and you will hear more."))
REDACTOR = Redactor()
PRICE = ModelPrice(prompt=2.0, completion=30.0)
COST = PRICE.cost(PROMPT_TOKENS, COMPLETION_TOKENS)
# Answers that never reached a model.
FREE = [fault for fault in Fault if isinstance(fault.value, int) and fault.value < 500] + [Fault.UNSUPPORTED]

Door = Literal["plain", "tls", "untrusted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The faults that one judge meets, and how it asks."""

    number: int
    door: Door
    steps: tuple[Step, ...]
    limits: FlowLimits
    callers: int
    verdicts: int
    """Verdicts that each caller asks for."""

    together: bool
    """Whether several criteria share each call."""

    samples: int
    repairs: int
    seconds: float
    """Deadline of each call."""

    leaving: float
    """The share of callers that leave before they have a verdict."""

    money: float
    """Budget for all calls, in nanodollars."""

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        return TOGETHER if self.together else (CLARITY,)

    server_limit: float | None
    retry_after: float | None


def schedule(seed: int, number: int) -> Schedule:
    dice = random.Random(f"{seed}/{number}")
    faults = dice.sample(list(Fault), dice.randint(1, 5))
    likely = dice.choice([0.1, 0.3, 0.6, 0.95])
    doors: list[Door] = ["plain", "tls", "untrusted"]
    [door] = dice.choices(doors, [85, 10, 5])
    return Schedule(
        number=number,
        door=door,
        steps=tuple(step(dice, faults, likely) for _ in range(20)),
        limits=limits(dice),
        callers=dice.randint(1, 4),
        verdicts=dice.randint(1, 3),
        together=number % 3 == 0,
        samples=dice.choice([1, 1, 1, 3]),
        repairs=dice.randint(0, 2),
        # On a busy machine, too few calls would end in time. But a call whose answer never ends lasts this long.
        seconds=dice.choice([0.1, 0.3, 1.0]) * patience(at_most=4.0),
        leaving=dice.choice([0.0, 0.0, 0.3]),
        money=dice.choice([math.inf, math.inf, 20 * COST, 100 * COST]),
        server_limit=dice.choice([None, None, None, 20.0, 100.0]),
        retry_after=dice.choice([None, 0.05, 0.2, 30.0]),
    )


def step(dice: random.Random, faults: list[Fault], likely: float) -> Step:
    fault = dice.choice(faults) if dice.random() < likely else Fault.NONE
    retry_after = dice.choice([None, None, 0.02, 0.1, 5.0])
    return Step(fault=fault, seconds=dice.choice([0.0, 0.0, 0.005, 0.05, 0.3]), retry_after=retry_after)


def limits(dice: random.Random) -> FlowLimits:
    return FlowLimits(
        concurrency=dice.choice([1, 2, 8, 64]),
        requests_per_minute=dice.choice([None, None, 600, 3000]),
        tokens_per_minute=dice.choice([None, None, 600_000]),
        retries=dice.randint(0, 4),
        backoff_seconds=0.01,
        longest_backoff_seconds=0.1,
        longest_hold_seconds=dice.choice([0.1, 60.0]),
        hedge_seconds=dice.choice([None, None, 0.02]),
        pause_seconds=0.05,
        probe_seconds=0.02,
        longest_probe_seconds=0.1,
    )


# The purse


class Account:
    """A limited amount of money, and how it was used."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.held = self.spent = 0
        self.settled: list[int | None] = []
        self.refused = 0
        self.left = 0
        """Callers that waited for money and gave up."""

        self._freed = asyncio.Event()

    async def reserve(self, nano: int) -> Hold | None:
        while self.held + self.spent + nano > self.limit:
            if self.spent + nano > self.limit:
                self.refused += 1
                return None
            self._freed.clear()
            try:
                await self._freed.wait()
            except asyncio.CancelledError:
                self.left += 1
                raise
        self.held += nano
        return Reservation(self, nano)

    def settle(self, reserved: int, nano: int | None) -> None:
        assert nano is None or 0 <= nano <= reserved
        self.held -= reserved
        self.spent += reserved if nano is None else nano
        self.settled.append(nano)
        self._freed.set()


@dataclass(slots=True)
class Reservation:
    account: Account
    nano: int
    open: bool = True

    def settle(self, nano: int | None) -> None:
        if self.open:
            self.open = False
            self.account.settle(self.nano, nano)


# One schedule


@dataclass(slots=True, kw_only=True)
class Played:
    """One schedule, and its observed results."""

    plan: Schedule
    script: Script
    flow: ObservedFlow
    account: Account
    verdicts: list[JudgeVerdict] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    """The criterion of each verdict."""

    left: int = 0
    longest_over: float = 0.0

    def sum_of(self, *parts: str) -> int:
        """Sum over the samples of all verdicts."""
        return sum(getattr(verdict.samples, part) for verdict in self.verdicts for part in parts)


def says(number: int) -> str:
    """Return a verdict that names its answer; the lowest level is reserved for faulty answers."""
    level = 1 + number % (len(LABELS) - 1) if number else 0
    return json.dumps({"explanation": f"This is answer {number}.", "verdict": LABELS[level]})


def says_to_several(number: int) -> str:
    """Like `says`, for all criteria and for one alone; some parts are missing or invalid."""
    alone = json.loads(says(number))
    parts = {criterion.name: alone for criterion in TOGETHER}
    broken = TOGETHER[number % len(TOGETHER)].name
    if number % 3 == 0:
        parts |= {broken: "very clear"}
    elif number % 3 == 1:
        del parts[broken]
    return json.dumps({**alone, **parts})


async def play(plan: Schedule, script: Script, places: asyncio.Semaphore) -> Played:
    played = Played(plan=plan, script=script, flow=ObservedFlow(plan.limits), account=Account(plan.money))
    model = OpenAIModel(
        "m",
        base_url=script.base_url,
        timeout_seconds=plan.seconds,
        max_tokens=50,
        price=PRICE,
        redactor=REDACTOR,
        flow=played.flow,
    )
    ask: Ask = "together" if plan.together else "single"
    judge = DirectJudge(model, samples=plan.samples, combine="min", repairs=plan.repairs, ask=ask)
    try:
        async with places:
            await play_callers(played, judge)
        # Immediately, and not only when the model is closed.
        played.flow.check_all_ended()
        assert played.account.held == 0
        assert await becomes_zero(lambda: script.answering), "answers are left half read"
    finally:
        await judge.aclose()
    assert await becomes_zero(lambda: script.open), "connections are left"
    return played


async def play_callers(played: Played, judge: DirectJudge) -> None:
    with paying_from(played.account):
        async with asyncio.TaskGroup() as group:
            for number in range(played.plan.callers):
                group.create_task(caller(played, judge, number))


async def becomes_zero(count: Callable[[], int]) -> bool:
    """Wait a moment for the endpoint to notice."""
    deadline = time.monotonic() + 10 * patience()
    while count() and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
    return not count()


async def caller(played: Played, judge: DirectJudge, number: int) -> None:
    dice = random.Random(f"{played.plan.number}/{number}")
    for _ in range(played.plan.verdicts):
        await one_verdict(played, judge, dice)


async def one_verdict(played: Played, judge: DirectJudge, dice: random.Random) -> None:
    plan = played.plan
    deadline = time.monotonic() + plan.seconds * (1 + plan.repairs)
    asking = asyncio.create_task(judge.aevaluate([CASE], plan.criteria))
    if dice.random() < plan.leaving:
        await asyncio.sleep(dice.uniform(0, plan.seconds / 2))
        asking.cancel()
    try:
        [verdicts] = await asking
        played.asked += verdicts.keys()
        played.verdicts += verdicts.values()
    except asyncio.CancelledError:
        played.left += 1
    played.longest_over = max(played.longest_over, time.monotonic() - deadline)


# Checks that hold for every schedule


def check_verdicts(played: Played) -> None:
    plan, script = played.plan, played.script
    several = len(plan.criteria)
    assert len(played.verdicts) + played.left * several == plan.callers * plan.verdicts * several
    heard: list[tuple[str, int]] = []
    for name, verdict in zip(played.asked, played.verdicts, strict=True):
        counts = verdict.samples
        assert counts.valid + counts.invalid + counts.error + counts.saved == counts.requested == plan.samples
        if verdict.status is Status.SCORED:
            heard.append((name, check_score(plan, verdict)))
        else:
            check_no_score(verdict)
    assert {number for _, number in heard} <= script.answers
    assert len(heard) == len(set(heard))
    assert played.sum_of("valid") <= several * min(len(script.answers), played.flow.seen.succeeded)
    assert script.leaked == 0


def check_score(plan: Schedule, verdict: JudgeVerdict) -> int:
    """Check that the score comes from an answer that was given; the lowest of several is not from a fault."""
    match = re.fullmatch(r"This is answer (\d+)\.", verdict.explanation)
    assert match
    number = int(match[1])
    assert verdict.level == level_of(number)
    assert verdict.score == CLARITY.normalise(level_of(number))
    assert verdict.samples.valid > plan.samples // 2
    assert verdict.redacted == {"email": 1}
    return number


def level_of(number: int) -> int:
    return LABELS.index(json.loads(says(number))["verdict"])


def check_no_score(verdict: JudgeVerdict) -> None:
    assert verdict.status is Status.INSUFFICIENT
    assert (verdict.score, verdict.level, verdict.value, verdict.option) == (None, None, None, None)
    assert verdict.reason in {Reason.UNAVAILABLE, Reason.TIMEOUT, Reason.INVALID_OUTPUT, Reason.BUDGET}
    assert verdict.detail
    assert not verdict.detail.startswith("the judge failed"), "a defect"


def check_counts(played: Played) -> None:
    plan, flow, script, account = played.plan, played.flow, played.script, played.account
    counts, failures = flow.seen, flow.state.failures
    if plan.door == "untrusted":
        assert (script.requests, counts.answered) == (0, 0)
    else:
        # Only a cancelled or unpaid attempt may not have reached the endpoint.
        unseen = flow.stopped + failures[FailureKind.TIMEOUT] + failures[FailureKind.OTHER]
        assert counts.started - unseen <= script.requests <= counts.started + script.seen[Fault.UNSUPPORTED]
    assert failures[FailureKind.THROTTLED] <= script.seen[Fault.THROTTLED]
    assert counts.succeeded <= len(script.answers) + script.seen[Fault.NO_VERDICT]
    if not played.left:
        check_calls(played, without_money=account.refused - failures[FailureKind.OTHER])


def check_calls(played: Played, *, without_money: int) -> None:
    """Check that the calls counted in the verdicts are those that were made."""
    counts = played.flow.seen
    calls = played.sum_of("valid", "invalid", "error", "repairs") - played.sum_of("shared")
    assert 0 <= calls - counts.called - without_money <= played.account.left
    assert counts.cancelled == 0
    assert played.sum_of("retries") == counts.retried
    tokens = [verdict.tokens for verdict in played.verdicts if verdict.tokens is not None]
    assert sum(usage.prompt for usage in tokens) == counts.answered * PROMPT_TOKENS
    assert sum(usage.completion for usage in tokens) == counts.answered * COMPLETION_TOKENS
    cost = sum(verdict.cost_usd or 0.0 for verdict in played.verdicts)
    assert cost == pytest.approx(counts.answered * dollars(COST))


def check_money(played: Played) -> None:
    flow, script, account = played.flow, played.script, played.account
    failures = flow.state.failures
    settled = Counter(account.settled)
    assert account.held == 0
    assert account.spent <= account.limit
    assert set(settled) <= {0, COST, None}
    # An answer has its price, and anything else that may be billed counts for at least as much.
    assert settled[COST] == flow.seen.succeeded
    assert account.spent >= COST * (script.requests - sum(script.seen[fault] for fault in FREE))
    refused = failures[FailureKind.THROTTLED] + failures[FailureKind.REFUSED]
    unreached = failures[FailureKind.UNAVAILABLE] if played.plan.door == "untrusted" else 0
    # Of the stopped attempts, those that had not begun cost nothing either.
    assert 0 <= settled[0] - refused - unreached - flow.seen.unasked <= flow.stopped


async def play_and_check(plan: Schedule, script: Script, places: asyncio.Semaphore) -> Played:
    try:
        played = await play(plan, script, places)
        assert played.longest_over < GRACE * patience(), "it hung"
        check_verdicts(played)
        check_counts(played)
        check_money(played)
    except Exception as error:
        error.add_note(f"in {plan}")
        raise
    return played


async def play_all(seed: int, endpoints: Mapping[Door, FaultyEndpoint]) -> list[Played]:
    places = asyncio.Semaphore(AT_ONCE)

    def start(number: int) -> asyncio.Task[Played]:
        plan = schedule(seed, number)
        limit = plan.server_limit and Limit(plan.server_limit, burst=3, retry_after=plan.retry_after)
        text = says_to_several if plan.together else says
        script = endpoints[plan.door].script(plan.steps, limit=limit or None, says=text)
        script.watched = ADDRESS.encode()
        return group.create_task(play_and_check(plan, script, places))

    async with asyncio.TaskGroup() as group:
        tasks = [start(number) for number in range(SCHEDULES)]
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert await becomes_zero(lambda: sum(endpoint.open for endpoint in endpoints.values()))
    return [task.result() for task in tasks]


def check_everything_happened(all_played: list[Played]) -> None:
    """Check that everything was tried, so that nothing passes by default."""
    verdicts = [verdict for played in all_played for verdict in played.verdicts]
    reasons = Counter(verdict.reason for verdict in verdicts)
    print({str(reason): count for reason, count in reasons.items()})
    assert reasons[None] >= SCHEDULES / 2
    assert set(reasons) == {None, Reason.UNAVAILABLE, Reason.TIMEOUT, Reason.INVALID_OUTPUT, Reason.BUDGET}
    assert {fault for played in all_played for fault in played.script.seen} == set(Fault)
    assert any(played.left for played in all_played)
    shared = [verdict for played in all_played if played.plan.together for verdict in played.verdicts]
    assert sum(verdict.status is Status.SCORED for verdict in shared) >= SCHEDULES / 2
    assert {verdict.reason for verdict in shared} == set(reasons)
    assert any(verdict.samples.shared and verdict.samples.repairs for verdict in shared)


@pytest.mark.slow
def test_no_schedule_of_faults_makes_a_judge_hang_leak_or_make_up_a_score(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A failure prints the seed; set FAULT_SEED to repeat it."""
    seed = int(os.environ.get("FAULT_SEED") or random.randrange(10**6))
    print("FAULT_SEED", seed)
    caplog.set_level(logging.ERROR)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    stranger = Authority(tmp_path)
    with (
        FaultyEndpoint() as plain,
        FaultyEndpoint(certificate=authority.sign("schedules"), handshake_seconds=0.03) as tls,
        FaultyEndpoint(certificate=stranger.sign("schedules"), handshake_seconds=0.03) as untrusted,
    ):
        check_everything_happened(asyncio.run(play_all(seed, {"plain": plain, "tls": tls, "untrusted": untrusted})))
    # Leaked resources warn when they are collected, and warnings are errors.
    gc.collect()
