"""Several criteria in one call: which criteria share a call, in which order, and the part of the reply for each.

    _take_sample ── ask_part ── Sitting.share ── ask      the call that the criteria share
                       └─────── ask                       one criterion alone, if its part cannot be used

The criteria of a call depend on the judge, the case and the criteria of the evaluation, never on timing: the same case
is put to the model in the same words, whatever else the panel does. So a verdict that a cascade or early stopping makes
unnecessary may still be requested, in a call that is made for the others anyway.
"""

import hashlib
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, TypeVar

from judges.criteria.criterion import Criterion
from judges.llm.completion import Invalid, Valid
from judges.llm.model_judge import Failed, Poll, Task, ask, max_of_each, sum_of_costs, sum_of_tokens
from judges.models.base import ChatModel
from judges.runtime.sitting import Shared, Sitting
from judges.values.evaluation import Tokens

Ask = Literal["single", "together"] | Mapping[str, str]
"""One call per criterion, or one for several; with `{"together": "quality"}` safety criteria do not share calls."""

MOST_TOGETHER = 8
"""More criteria than this are split into calls of about the same size."""

TOGETHER_VERSION = 1
"""Incremented when criteria may be grouped or ordered differently, or a part read differently, than before."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """Decides which criteria of a case a judge asks about in one call."""

    safety_apart: bool = False
    """Whether safety criteria are kept out of the calls that others share."""

    @property
    def identity(self) -> str:
        apart = " safety_apart" if self.safety_apart else ""
        return f"together={TOGETHER_VERSION}{apart} most={MOST_TOGETHER}"

    def group_of(
        self, criterion: Criterion, sitting: Sitting, is_askable: Callable[[Criterion], bool], judge: str
    ) -> tuple[Criterion, ...]:
        """Return the criteria that share a call with this one, itself included; itself alone if there is no other."""
        is_reversed = sitting.is_reversed(judge, criterion)
        groupable = [
            other
            for other in sitting.criteria
            if other.to_evaluate == criterion.to_evaluate
            and not (self.safety_apart and sitting.is_about_safety(other))
            and sitting.is_reversed(judge, other) is is_reversed
            and is_askable(other)
        ]
        for group in _split_evenly(groupable, MOST_TOGETHER):
            if criterion in group:
                return group
        return (criterion,)


def grouping_of(setting: Ask) -> Grouping | None:
    """Return the grouping for a value of the setting `ask`; None: one call per criterion."""
    if setting == "single":
        return None
    if setting == "together":
        return Grouping()
    if isinstance(setting, Mapping) and dict(setting) == {"together": "quality"}:
        return Grouping(safety_apart=True)
    raise ValueError(f'ask must be "single", "together" or {{"together": "quality"}}, not {setting!r}')


def check_accepts_answers(model: ChatModel) -> None:
    """Raise if a user-written model cannot be asked for several answers: every call would fail."""
    parameters = inspect.signature(model.complete).parameters.values()
    if not any(parameter.name == "answers" or parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        raise TypeError(
            'ask="together" needs a model whose `complete` takes `answers`, the number of answers in a reply'
        )


def rotate_by_seed(seed: str, items: Sequence[T]) -> tuple[T, ...]:
    """Rotate the items by a number from the seed, forwards or backwards.

    Over many seeds every item is equally often in every position, and as often before another item as after it. Random
    orders would achieve this too, but endpoints that compile a schema before its first use would compile each order.
    """
    number = int.from_bytes(hashlib.sha256(seed.encode("utf-8", "replace")).digest()[:8])
    turns, is_backward = divmod(number % (2 * len(items)), 2)
    turned = (*items[turns:], *items[:turns])
    return turned[::-1] if is_backward else turned


def _split_evenly(items: Sequence[T], limit: int) -> list[tuple[T, ...]]:
    groups = -(-len(items) // limit)
    edges = [len(items) * number // groups for number in range(groups + 1)] if groups else []
    return [tuple(items[start:end]) for start, end in pairwise(edges)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedTask(Task):
    """A question that several criteria share, from the viewpoint of one of them."""

    sitting: Sitting
    key: tuple[object, ...]
    """The same for all criteria that share the question."""

    name: str
    """The criterion whose part is read."""

    alone: Callable[[], Awaitable[Task]]
    """Builds the question about this criterion alone, in case its part cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reply:
    outcome: Valid | Invalid | Failed
    bill: Poll


async def ask_part(
    model: ChatModel, task: SharedTask, poll: Poll, *, repairs: int, sample: int | None = None
) -> Valid | Invalid | Failed:
    """Take one sample of one criterion: its part of the shared reply or, if that cannot be used, a separate reply.

    Half of the repairs, rounded down, go to a shared reply without any usable part. The remaining ones go to the
    separate call for a part that is still missing or wrong.
    """

    async def ask_all() -> _Reply:
        bill = Poll()
        outcome = await ask(model, task, bill, repairs=repairs // 2, sample=sample)
        return _Reply(outcome=outcome, bill=bill)

    shared = await task.sitting.share((task.key, sample), task.name, ask_all)
    _count_share(poll, shared, task.name)
    part = _part_of(shared.result.outcome, task.name)
    repairs_left = repairs - shared.result.bill.repairs
    if not isinstance(part, Invalid):
        return part
    if repairs_left <= 0:
        return part.usable or part
    poll.repairs += 1
    alone = replace(await task.alone(), is_redacted=task.is_redacted)
    sample_alone = await ask(model, alone, poll, repairs=repairs_left - 1, sample=sample)
    return sample_alone if isinstance(sample_alone, Valid) else part.usable or sample_alone


def _part_of(outcome: Valid | Invalid | Failed, name: str) -> Valid | Invalid | Failed:
    return outcome.parts[name] if isinstance(outcome, Valid) else outcome


def _count_share(poll: Poll, shared: Shared[_Reply], name: str) -> None:
    """Add a criterion's share of the call's cost to its poll: over all criteria, each call counts once."""
    bill = shared.result.bill
    poll.shared += shared.payers[:1] != (name,)
    poll.repairs += shared.share(bill.repairs, name)
    poll.retries += shared.share(bill.retries, name)
    poll.suspect = poll.suspect or bill.suspect
    poll.redacted = max_of_each(poll.redacted, bill.redacted)
    if bill.tokens is not None:
        prompt, completion = (shared.share(count, name) for count in (bill.tokens.prompt, bill.tokens.completion))
        poll.tokens = sum_of_tokens(poll.tokens, Tokens(prompt=prompt, completion=completion))
    if bill.cost_usd is not None:
        share = bill.cost_usd / len(shared.payers) if name in shared.payers else 0.0
        poll.cost_usd = sum_of_costs(poll.cost_usd, share)
