"""The base of all judges that ask a chat model: samples, repairs, the vote, and the check of the order of options.

    verdict ── _judge_orders ── _vote ── ask ── model.complete
    redaction   both orders      samples  repairs

A subclass defines how a case is put to the model (`task`); the rest is here.
"""

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Literal, get_args

from judges.criteria.criterion import Criterion
from judges.criteria.problems import check_bool, check_count
from judges.criteria.scale import NOT_APPLICABLE
from judges.judge import TOO_LITTLE_SHOWN, Judge, unscored_verdict
from judges.llm.completion import Invalid, Valid
from judges.llm.injection_probe import CANARY_VERSION, InjectionProbe
from judges.llm.redacted_case import mark_redacted, redact_case, redactor_of
from judges.llm.vote import VoteOutcome, VoteRule
from judges.models.base import ChatMessage, ChatModel, Completion
from judges.models.errors import ModelError, ModelOverBudget, ModelTimeout
from judges.runtime.conditions import current_conditions
from judges.runtime.gather import gather_all
from judges.values.combine import combine_numbers
from judges.values.context_verdicts import ContextVerdict, context_verdicts
from judges.values.evaluation import JudgeVerdict, Reason, Reversed, Samples, Status, Tokens
from judges.values.interaction import Case, Language
from judges.values.model_family import family_of

OnBias = Literal["keep", "average", "abstain"]

_ENDINGS = {
    "length": "it was cut off at the token limit",
    "content_filter": "the endpoint's content filter stopped it",
    "refusal": "the model refused",
}
WITHHELD = frozenset({"content_filter", "refusal"})
"""Finish reasons of outputs that were refused or withheld."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One question to a model: the messages, how to read the reply, and how to ask for a repair of an invalid one."""

    messages: Sequence[ChatMessage]
    read: Callable[[Completion], Valid | Invalid]
    repair: Callable[[str | None, str], Sequence[ChatMessage]]
    schema: Mapping[str, object] | None = None
    likelihoods: bool = False
    answers: int = 1
    """Number of answers that the reply must contain."""

    is_redacted: bool = False
    """Whether it was built from a redacted case."""

    then: Callable[[Valid], "Task"] | None = None
    """If a sample takes two steps: builds the second question from the answer to this one."""


def reply_schema(verdict: Mapping[str, object], *, feedback: bool = False) -> Mapping[str, object]:
    """Return the JSON Schema of a reply; the explanation comes first, so that the verdict follows from it."""
    properties: dict[str, object] = {"explanation": {"type": "string"}, "verdict": verdict}
    if feedback:
        properties["feedback"] = {"type": "string"}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def check_settings(repairs: int, on_bias: OnBias) -> None:
    check_count("repairs", repairs, least=0)
    if on_bias not in get_args(OnBias):
        raise ValueError(f"on_bias must be keep, average or abstain, not {on_bias!r}")


def check_model(model: object, usage: str) -> None:
    """Raise if this is not a model; the usual cause is swapped arguments."""
    if not callable(getattr(model, "complete", None)):
        raise TypeError(f"model must be a chat model, such as OpenAIModel, not {type(model).__name__}: write {usage}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A sample for which the model call failed."""

    reason: Reason
    detail: str


class ModelJudge(Judge):
    """Asks a model `rule.samples` times, and with `check_position` again with the options in reverse order."""

    def __init__(
        self,
        model: ChatModel,
        *,
        name: str | None = None,
        repairs: int = 2,
        rule: VoteRule | None = None,
        check_position: bool = False,
        on_bias: OnBias = "keep",
        family: str | None = None,
        keep_prompt: bool = False,
    ) -> None:
        check_model(model, f"{type(self).__name__}(model)")
        check_settings(repairs, on_bias)
        check_bool("check_position", check_position)
        check_bool("keep_prompt", keep_prompt)
        self._model = model
        self._name = name or model.name
        self._repairs = repairs
        self._rule = rule or VoteRule()
        self._check_position = check_position
        self._on_bias = on_bias
        self._keep_prompt = keep_prompt
        self._redactor = redactor_of(model)
        position = f"check_position={on_bias}" if check_position else "check_position=no"
        self._rules = f"repairs={repairs} canary={CANARY_VERSION} {self._rule} {position}"
        self.family = family or family_of(model.name)

    @abstractmethod
    async def task(self, case: Case, criterion: Criterion, *, reverse: bool) -> Task:
        """Return the question that puts the case to the model."""

    @property
    @abstractmethod
    def method(self) -> str:
        """The kind of judge, with the versions of its prompt and its parser, for the identity."""

    @property
    def name(self) -> str:
        return self._name

    @property
    def identity(self) -> str:
        return f"{self.method} {self._rules} model=({self._model.identity})"

    @property
    def calls(self) -> int:
        return self._rule.samples * (2 if self._check_position else 1)

    def why_not(self, criterion: Criterion) -> str | None:
        return self._rule.why_not(criterion)

    @property
    def paused(self) -> str | None:
        return self._model.paused

    async def aclose(self) -> None:
        await self._model.aclose()

    async def verdict(self, case: Case, criterion: Criterion, *, reverse: bool) -> JudgeVerdict:
        if self._redactor is None:
            return await self._judge_orders(case, criterion, reverse=reverse)
        redacted = redact_case(case, self._redactor)
        counts, is_heavy = redacted.counts(criterion), redacted.is_heavily_redacted(criterion.to_evaluate)
        if is_heavy and criterion.safety:
            verdict = unscored_verdict(
                self._name, Reason.HEAVILY_REDACTED, TOO_LITTLE_SHOWN, samples=Samples(requested=0)
            )
        else:
            verdict = await self._judge_orders(redacted.case, criterion, reverse=reverse)
        return verdict.model_copy(update={"redacted": counts, "heavily_redacted": is_heavy})

    async def _judge_orders(self, case: Case, criterion: Criterion, *, reverse: bool) -> JudgeVerdict:
        forward = await self._vote(case, criterion, reverse=reverse)
        if not self._check_position or forward.status is Status.INSUFFICIENT or not criterion.scale.choices:
            return forward
        backward = await self._vote(case, criterion, reverse=not reverse)
        return _compare_orders(forward, backward, self._on_bias).add_details(forward.votes, forward.prompt)

    async def _vote(self, case: Case, criterion: Criterion, *, reverse: bool) -> JudgeVerdict:
        """Ask for as few samples as decide the vote, and combine them into one verdict."""
        task = await self.task(case, criterion, reverse=reverse)
        if self._redactor is not None:
            task = replace(task, is_redacted=True)
        rule = self._rule.with_one_sample if current_conditions().savings.samples else self._rule
        poll = Poll()
        while needed := rule.samples_to_request(criterion, poll.valid, poll.asked):
            # A single sample has no number: it is requested like an ordinary answer.
            numbers = range(poll.asked, poll.asked + needed) if rule.samples > 1 else [None]
            poll.outcomes += await gather_all([self._take_sample(task, number, poll) for number in numbers])
        verdict = self._conclude(poll, rule, criterion, case.language)
        sent = tuple((message.role, message.content) for message in task.messages) if self._keep_prompt else None
        return verdict.add_details(poll.votes if poll.asked > 1 else None, sent)

    async def _take_sample(self, task: Task, number: int | None, poll: "Poll") -> Valid | Invalid | Failed:
        return await ask(self._model, task, poll, repairs=self._repairs, sample=number)

    def _conclude(self, poll: "Poll", rule: VoteRule, criterion: Criterion, language: Language) -> JudgeVerdict:
        samples = poll.samples(rule.samples)
        outcome = rule.find(criterion, poll.valid)
        if isinstance(outcome, Reason):
            reason, detail = poll.explain_failure(outcome)
            missing = unscored_verdict(self._name, reason, detail, samples=samples)
            spent = {"tokens": poll.tokens, "cost_usd": poll.cost_usd}
            return missing.model_copy(update={**spent, "suspect": poll.suspect, "redacted": poll.redacted})
        voice = _voice(outcome, poll.valid)
        return JudgeVerdict(
            judge=self._name,
            status=Status.SCORED if outcome.applies else Status.NOT_APPLICABLE,
            score=outcome.score,
            level=criterion.level(outcome.choice),
            option=outcome.choice.label.en if outcome.choice else None,
            label=outcome.choice.label.of(language) if outcome.choice else None,
            value=outcome.value,
            tie=outcome.tie,
            agreement=_agreement(outcome, poll.valid, criterion),
            votes_cast=len(poll.valid) if len(poll.valid) > 1 else None,
            certainty=voice.certainty,
            explanation=voice.explanation,
            contexts=_contexts(voice, criterion),
            feedback=None if outcome.score == 1.0 or not outcome.applies else voice.feedback,
            spans=voice.spans,
            samples=samples,
            tokens=poll.tokens,
            cost_usd=poll.cost_usd,
            suspect=poll.suspect,
            redacted=poll.redacted,
        )


@dataclass(slots=True, kw_only=True)
class Poll:
    """The samples of one verdict and their cost, whether or not they became votes."""

    outcomes: list[Valid | Invalid | Failed] = field(default_factory=list)
    tokens: Tokens | None = None
    cost_usd: float | None = None
    repairs: int = 0
    retries: int = 0
    shared: int = 0
    suspect: bool = False
    redacted: Mapping[str, int] = field(default_factory=dict)

    @property
    def asked(self) -> int:
        return len(self.outcomes)

    @property
    def valid(self) -> list[Valid]:
        return [outcome for outcome in self.outcomes if isinstance(outcome, Valid)]

    @property
    def votes(self) -> tuple[str | float, ...]:
        """The vote of each valid sample; options by their English label, which is the same for every language."""
        votes = (sample.choice.label.en if sample.choice else sample.value for sample in self.valid)
        return tuple(NOT_APPLICABLE if vote is None else vote for vote in votes)

    def samples(self, requested: int) -> Samples:
        invalid = sum(isinstance(outcome, Invalid) for outcome in self.outcomes)
        error = sum(isinstance(outcome, Failed) for outcome in self.outcomes)
        valid = self.asked - invalid - error
        return Samples(
            requested=requested,
            valid=valid,
            invalid=invalid,
            error=error,
            saved=requested - self.asked,
            repairs=self.repairs,
            retries=self.retries,
            shared=self.shared,
        )

    def explain_failure(self, reason: Reason) -> tuple[Reason, str]:
        """Return the most common reason of the failed samples, with the detail of the first such sample.

        `reason` is the reason why there is no vote.
        """
        if reason is Reason.NO_MAJORITY:
            return reason, "several options tied for the most votes, and the scale does not rank them"
        bad = [outcome for outcome in self.outcomes if not isinstance(outcome, Valid)]
        if not bad:
            return reason, "too few valid samples"
        [(most_common, _)] = Counter(_reason(outcome) for outcome in bad).most_common(1)
        first = next(outcome for outcome in bad if _reason(outcome) is most_common)
        return most_common, first.detail if isinstance(first, Failed) else first.reason

    def count(self, completion: Completion) -> None:
        self.retries += completion.retries
        self.redacted = max_of_each(self.redacted, completion.redacted)
        self.cost_usd = sum_of_costs(self.cost_usd, completion.cost_usd)
        if completion.prompt_tokens is None and completion.completion_tokens is None:
            return
        used = Tokens(prompt=completion.prompt_tokens or 0, completion=completion.completion_tokens or 0)
        self.tokens = sum_of_tokens(self.tokens, used)


async def ask(
    model: ChatModel, task: Task, poll: Poll, *, repairs: int, sample: int | None = None
) -> Valid | Invalid | Failed:
    """Take one sample, whatever happens; the poll counts its cost."""
    try:
        return await _ask_with_repairs(model, task, poll, repairs, sample)
    except ModelError as error:
        poll.retries += error.retries
        return Failed(reason=_failure(error), detail=str(error))


def _failure(error: ModelError) -> Reason:
    reasons = {ModelTimeout: Reason.TIMEOUT, ModelOverBudget: Reason.BUDGET}
    return reasons.get(type(error), Reason.UNAVAILABLE)


async def _ask_with_repairs(
    model: ChatModel, task: Task, poll: Poll, repairs: int, sample: int | None
) -> Valid | Invalid:
    """Send the task, then up to `repairs` times the task with the last output and the reason why it is invalid.

    The second step, if any, follows a valid first one; both share the repairs.
    """
    messages, calls, probe = list(task.messages), 0, InjectionProbe(task.messages)
    usable: Valid | None = None
    is_redacted = task.is_redacted
    while True:
        outgoing = mark_redacted(messages) if is_redacted else messages
        completion = await _complete(model, outgoing, task, sample)
        poll.count(completion)
        calls += 1
        parsed = _unless_withheld(probe.check(completion.text, task.read(completion)), completion.finish_reason)
        poll.suspect = poll.suspect or parsed.suspect
        if isinstance(parsed, Valid) and task.then is None:
            return parsed
        if isinstance(parsed, Valid) and task.then is not None and not parsed.suspect:
            task, repairs = task.then(parsed), repairs + 1
            messages, probe = list(task.messages), InjectionProbe(task.messages)
            continue
        if isinstance(parsed, Valid):
            # Quoted in the second step, it would instruct the model a second time.
            parsed = Invalid(reason="it repeats instructions from the judged text", suspect=True)
        usable = parsed.usable or usable
        parsed = _with_ending(parsed, completion.finish_reason)
        if usable is not None and (parsed.final or calls > repairs):
            return usable
        if parsed.final or calls > repairs:
            return Invalid(reason=f"{parsed.reason} (after {calls} call{'s' if calls > 1 else ''})")
        repeated_output = None if parsed.suspect else completion.text
        messages = [*task.messages, *task.repair(repeated_output, parsed.reason)]
        poll.repairs += 1


async def _complete(model: ChatModel, messages: Sequence[ChatMessage], task: Task, sample: int | None) -> Completion:
    if task.answers == 1:
        # Model classes written by users need not support several answers.
        return await model.complete(messages, schema=task.schema, sample=sample, likelihoods=task.likelihoods)
    return await model.complete(
        messages, schema=task.schema, sample=sample, likelihoods=task.likelihoods, answers=task.answers
    )


def _reason(outcome: Invalid | Failed) -> Reason:
    return outcome.reason if isinstance(outcome, Failed) else Reason.INVALID_OUTPUT


def _unless_withheld(parsed: Valid | Invalid, finish_reason: str | None) -> Valid | Invalid:
    """Treat an output that the endpoint reports as a refusal as one, whatever its text."""
    if finish_reason not in WITHHELD:
        return parsed
    reason = parsed.reason if isinstance(parsed, Invalid) else "the output is a refusal"
    return Invalid(reason=reason, final=isinstance(parsed, Invalid) and parsed.final, suspect=parsed.suspect)


def _with_ending(parsed: Invalid, finish_reason: str | None) -> Invalid:
    ending = _ENDINGS.get(finish_reason or "")
    return parsed if ending is None else replace(parsed, reason=f"{parsed.reason}; {ending}")


def _voice(outcome: VoteOutcome, answers: Sequence[Valid]) -> Valid:
    """Return the sample that speaks for all: the first with the winning choice, or the one nearest to the number."""
    if outcome.choice is None and outcome.value is not None:
        value = outcome.value
        return min(answers, key=lambda answer: abs(value - answer.value) if answer.value is not None else float("inf"))
    return next((answer for answer in answers if _agrees(answer, outcome)), answers[0])


def _contexts(voice: Valid, criterion: Criterion) -> tuple[ContextVerdict, ...] | None:
    """Return the verdicts on contexts; on items of other fields they are not published."""
    return None if voice.items is None or criterion.to_evaluate != "contexts" else context_verdicts(voice.items)


def _agreement(outcome: VoteOutcome, answers: Sequence[Valid], criterion: Criterion) -> float | None:
    """Return the share of samples that agree; on a range, where numbers rarely coincide, how close they are."""
    if len(answers) < 2:
        return None
    if outcome.choice is not None or outcome.score is None:
        return fmean(_agrees(answer, outcome) for answer in answers)
    places = [None if answer.value is None else criterion.place(answer.value) for answer in answers]
    return fmean(0.0 if place is None else 1.0 - abs(place - outcome.score) for place in places)


def _agrees(answer: Valid, outcome: VoteOutcome) -> bool:
    return answer.choice == outcome.choice and answer.applies == outcome.applies


def _compare_orders(forward: JudgeVerdict, backward: JudgeVerdict, on_bias: OnBias) -> JudgeVerdict:
    """Return the verdict of the first order, adjusted by `on_bias` if the reverse order gave another one."""
    both = forward.model_copy(
        update={
            "samples": sum_of_samples(forward.samples, backward.samples),
            "tokens": sum_of_tokens(forward.tokens, backward.tokens),
            "cost_usd": sum_of_costs(forward.cost_usd, backward.cost_usd),
            "suspect": forward.suspect or backward.suspect,
            "redacted": max_of_each(forward.redacted, backward.redacted),
        }
    )
    if backward.status is Status.INSUFFICIENT:
        # Whether the order matters is unknown: a check that failed to run has not passed.
        both = both.model_copy(update={"detail": f"the order of options could not be checked: {backward.detail}"})
        return _abstain(both, backward.reason) if on_bias == "abstain" else both
    biased = backward.option != forward.option
    in_reverse = Reversed(score=backward.score, option=backward.option)
    both = both.model_copy(update={"position_bias": biased, "reversed": in_reverse})
    if not biased:
        return both
    first, second = (verdict.label or verdict.status.value for verdict in (forward, backward))
    both = both.model_copy(update={"detail": f"{first!r} became {second!r} with the options in reverse order"})
    if on_bias == "keep":
        return both
    return (_average(both, forward, backward) if on_bias == "average" else None) or _abstain(both)


def _abstain(both: JudgeVerdict, reason: Reason | None = Reason.POSITION_BIAS) -> JudgeVerdict:
    empty = dict.fromkeys(("score", "option", "label", "level", "value", "feedback", "agreement", "votes_cast"))
    return both.model_copy(update={**empty, "status": Status.INSUFFICIENT, "reason": reason})


def _average(both: JudgeVerdict, forward: JudgeVerdict, backward: JudgeVerdict) -> JudgeVerdict | None:
    """Return the mean of both scores with the worse option and its explanation; None if a score is missing."""
    if forward.score is None or backward.score is None or forward.value is None or backward.value is None:
        return None
    worse = min(forward, backward, key=lambda verdict: verdict.score or 0.0)
    mean = {
        "score": combine_numbers("mean", [forward.score, backward.score]),
        "value": combine_numbers("mean", [forward.value, backward.value]),
        "option": worse.option,
        "label": worse.label,
        "level": worse.level,
        "explanation": worse.explanation,
        "feedback": worse.feedback,
        # Both describe the first order only.
        "agreement": None,
        "votes_cast": None,
    }
    return both.model_copy(update=mean)


def sum_of_samples(one: Samples, other: Samples) -> Samples:
    return Samples(**{name: getattr(one, name) + getattr(other, name) for name in Samples.model_fields})


def sum_of_tokens(one: Tokens | None, other: Tokens | None) -> Tokens | None:
    if one is None or other is None:
        return one or other
    return Tokens(prompt=one.prompt + other.prompt, completion=one.completion + other.completion)


def sum_of_costs(one: float | None, other: float | None) -> float | None:
    """Add two costs; an unknown cost counts as 0, and two unknown costs stay unknown."""
    return one if other is None else other if one is None else one + other


def max_of_each(one: Mapping[str, int], other: Mapping[str, int]) -> Mapping[str, int]:
    """Return the larger count of each kind: calls about one case redact the same values, which count once."""
    return {kind: max(one.get(kind, 0), other.get(kind, 0)) for kind in {**one, **other}}
