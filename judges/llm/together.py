"""Several criteria in one call: which go together, in which order, and each one's part of the reply.

    _sampled ── ask_part ── Sitting.share ── ask      the call that the criteria share
                   └─────── ask                       a criterion alone, where its part cannot be used

The criteria of a call follow from the judge, the case and the criteria it is judged by, and never from the time at
which they are asked: the same case is put to the model in the same words, whatever else the panel does. So a verdict
that a cascade or early stopping makes needless may be asked for, in a call that is made for the others anyway.
"""

import hashlib
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, TypeVar

from judges.criteria.criterion import Criterion
from judges.llm.completion import Invalid, Valid
from judges.llm.model_judge import Failed, Poll, Task, ask, most_of_each, sum_of_costs, sum_of_tokens
from judges.models.base import ChatModel
from judges.runtime.sitting import Shared, Sitting
from judges.values.evaluation import Tokens

Ask = Literal["single", "together"] | Mapping[str, str]
"""One call for each criterion, one for several, or with `{"together": "quality"}` those about safety alone."""

MOST_TOGETHER = 8
"""More criteria than this are split into calls of about the same size."""

TOGETHER_VERSION = 1
"""Raised when other criteria may go together, or in another order, or a part may be read differently than before."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """Which criteria of a case a judge asks about in one call."""

    safety_apart: bool = False
    """Whether criteria about safety have calls of their own."""

    @property
    def identity(self) -> str:
        apart = " safety_apart" if self.safety_apart else ""
        return f"together={TOGETHER_VERSION}{apart} most={MOST_TOGETHER}"

    def group_of(
        self, criterion: Criterion, sitting: Sitting, is_askable: Callable[[Criterion], bool], judge: str
    ) -> tuple[Criterion, ...]:
        """The criteria of one call with this one, which is among them; itself alone where no other goes with it."""
        is_reversed = sitting.is_reversed(judge, criterion)
        alike = [
            each
            for each in sitting.criteria
            if each.to_evaluate == criterion.to_evaluate
            and not (self.safety_apart and sitting.is_about_safety(each))
            and sitting.is_reversed(judge, each) is is_reversed
            and is_askable(each)
        ]
        for group in _of_similar_size(alike, MOST_TOGETHER):
            if criterion in group:
                return group
        return (criterion,)


def grouping_of(asked: Ask) -> Grouping | None:
    """How criteria go together by the setting `ask`; None: each in a call of its own."""
    if asked == "single":
        return None
    if asked == "together":
        return Grouping()
    if isinstance(asked, Mapping) and dict(asked) == {"together": "quality"}:
        return Grouping(safety_apart=True)
    raise ValueError(f'ask must be "single", "together" or {{"together": "quality"}}, not {asked!r}')


def check_takes_several(model: ChatModel) -> None:
    """Refuses a model of somebody's own that could not be asked for several answers: no verdict would ever come."""
    parameters = inspect.signature(model.complete).parameters.values()
    if not any(each.name == "answers" or each.kind is each.VAR_KEYWORD for each in parameters):
        raise TypeError("to ask together, the model's `complete` must take `answers`, the number of answers in a reply")


def in_order_of(seed: str, items: Sequence[T]) -> tuple[T, ...]:
    """The items turned round by the seed, forwards or backwards.

    Over many seeds every item stands equally often in every place, and before every other as often as behind it. All
    orders would do that too, but endpoints that compile a schema before its first use would compile each of them.
    """
    number = int.from_bytes(hashlib.sha256(seed.encode("utf-8", "replace")).digest()[:8])
    turns, is_backward = divmod(number % (2 * len(items)), 2)
    turned = (*items[turns:], *items[:turns])
    return turned[::-1] if is_backward else turned


def _of_similar_size(items: Sequence[T], most: int) -> list[tuple[T, ...]]:
    groups = -(-len(items) // most)
    edges = [len(items) * number // groups for number in range(groups + 1)] if groups else []
    return [tuple(items[start:end]) for start, end in pairwise(edges)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedTask(Task):
    """The question that several criteria share, as one of them asks it."""

    sitting: Sitting
    key: tuple[object, ...]
    """The same for all criteria that share the question."""

    name: str
    """The criterion that asks."""

    alone: Callable[[], Awaitable[Task]]
    """The question about this criterion alone, for when its part cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reply:
    outcome: Valid | Invalid | Failed
    bill: Poll


async def ask_part(
    model: ChatModel, task: SharedTask, poll: Poll, *, repairs: int, sample: int | None = None
) -> Valid | Invalid | Failed:
    """One sample of one criterion: its part of the shared reply, or else what it gets when it is asked alone.

    Half of the repairs, rounded down, may mend a reply without any usable part. A part that is still missing or wrong
    is asked for alone with those that are left.
    """

    async def ask_all() -> _Reply:
        bill = Poll()
        outcome = await ask(model, task, bill, repairs=repairs // 2, sample=sample)
        return _Reply(outcome=outcome, bill=bill)

    shared = await task.sitting.share((task.key, sample), task.name, ask_all)
    _count_share(poll, shared, task.name)
    part = _part_of(shared.result.outcome, task.name)
    left = repairs - shared.result.bill.repairs
    if not isinstance(part, Invalid):
        return part
    if left <= 0:
        return part.usable or part
    poll.repairs += 1
    alone = replace(await task.alone(), is_redacted=task.is_redacted)
    found = await ask(model, alone, poll, repairs=left - 1, sample=sample)
    return found if isinstance(found, Valid) else part.usable or found


def _part_of(outcome: Valid | Invalid | Failed, name: str) -> Valid | Invalid | Failed:
    return outcome.parts[name] if isinstance(outcome, Valid) else outcome


def _count_share(poll: Poll, shared: Shared[_Reply], name: str) -> None:
    """Adds to a criterion's poll its share of what the call cost: over all criteria, each call counts once."""
    bill = shared.result.bill
    poll.shared += shared.payers[:1] != (name,)
    poll.repairs += shared.share(bill.repairs, name)
    poll.retries += shared.share(bill.retries, name)
    poll.suspect = poll.suspect or bill.suspect
    poll.redacted = most_of_each(poll.redacted, bill.redacted)
    if bill.tokens is not None:
        prompt, completion = (shared.share(count, name) for count in (bill.tokens.prompt, bill.tokens.completion))
        poll.tokens = sum_of_tokens(poll.tokens, Tokens(prompt=prompt, completion=completion))
    if bill.cost_usd is not None:
        share = bill.cost_usd / len(shared.payers) if name in shared.payers else 0.0
        poll.cost_usd = sum_of_costs(poll.cost_usd, share)
