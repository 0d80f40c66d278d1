"""The judge that shows a chat model a case with one or more criteria, and reads the verdicts from the reply."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace

from judges.criteria.criterion import Criterion
from judges.criteria.problems import check_bool
from judges.llm.completion import PARSER_VERSION, Invalid, Valid, parse_parts, parse_verdict
from judges.llm.model_judge import Failed, ModelJudge, OnBias, Poll, Task, reply_schema
from judges.llm.persona import GENERATE, Personas, default_persona, persona_messages
from judges.llm.prompts.direct import direct_messages, repair_messages, valid_labels
from judges.llm.prompts.layout import boundary, prompt_hash
from judges.llm.prompts.together import together_messages, together_repair
from judges.llm.together import Ask, SharedTask, ask_part, check_accepts_answers, grouping_of, rotate_by_seed
from judges.llm.vote import Combine, ScoreFrom, VoteRule
from judges.models.base import ChatMessage, ChatModel, Completion
from judges.runtime.conditions import current_conditions
from judges.runtime.sitting import current_sitting
from judges.values.interaction import Case, Language

NO_FEEDBACK = "the JSON object has no `feedback`, and the verdict is not the best one"


class DirectJudge(ModelJudge):
    """Asks a model for a verdict on any scale, and up to `repairs` times again if it cannot read the reply.

    `feedback` also asks for advice on how to improve, unless the verdict is the best one. `persona` describes the
    person to judge as; "generate" lets the model describe one for each criterion. `ask` decides whether the criteria of
    a case share a call (`together`). `keep_prompt` stores the messages in the verdict's `prompt`.
    """

    template = "direct"

    def __init__(
        self,
        model: ChatModel,
        *,
        name: str | None = None,
        repairs: int = 2,
        samples: int = 1,
        combine: Combine | None = None,
        min_pass: int | None = None,
        min_valid: int | None = None,
        score_from: ScoreFrom = "winner",
        stop_early: bool = True,
        check_position: bool = False,
        on_bias: OnBias = "keep",
        feedback: bool = False,
        persona: str | None = None,
        ask: Ask = "single",
        family: str | None = None,
        keep_prompt: bool = False,
    ) -> None:
        rule = VoteRule(
            samples=samples,
            combine=combine,
            min_pass=min_pass,
            min_valid=min_valid,
            score_from=score_from,
            stop_early=stop_early,
        )
        super().__init__(
            model,
            name=name,
            repairs=repairs,
            rule=rule,
            check_position=check_position,
            on_bias=on_bias,
            family=family,
            keep_prompt=keep_prompt,
        )
        if persona is not None and not isinstance(persona, str):
            raise TypeError(f"persona must be text, not {type(persona).__name__}")
        if persona is not None and not persona.strip():
            raise ValueError(f'persona must be a description or "{GENERATE}", not empty')
        check_bool("feedback", feedback)
        self._feedback = feedback
        self._persona = persona
        self._personas = Personas(model) if persona == GENERATE else None
        self._prompt = prompt_hash(self._probe)
        self._grouping = grouping_of(ask)
        if self._grouping is not None:
            if self.template != DirectJudge.template:
                raise ValueError(f"{type(self).__name__} judges one criterion per call; leave out `ask`")
            if self._personas is not None:
                raise ValueError("a generated persona is for one criterion only; leave out `persona` or `ask`")
            check_accepts_answers(model)
            self._prompt = f"{self._prompt}+{prompt_hash(self._probe_together)}"

    @property
    def method(self) -> str:
        together = "" if self._grouping is None else f" {self._grouping.identity}"
        return f"{self.template} prompt={self._prompt} parser={PARSER_VERSION} persona={self._persona!r}{together}"

    def criteria_in_call(self, case: Case, criterion: Criterion) -> tuple[Criterion, ...]:
        grouping, sitting = self._grouping, current_sitting()
        if grouping is None or sitting is None:
            return (criterion,)

        def is_askable(other: Criterion) -> bool:
            is_judged = self.own_question_problem(other) is None and self.refusal(other) is None
            return is_judged and not other.unmet(case) and not other.missing(case)

        return sitting.once(
            (id(self), "group", criterion.name, _key_of(case)),
            lambda: grouping.group_of(criterion, sitting, is_askable, self.name),
        )

    async def task(self, case: Case, criterion: Criterion, *, reverse: bool) -> Task:
        group, sitting = self.criteria_in_call(case, criterion), current_sitting()
        if len(group) < 2 or sitting is None:
            return await self._task_alone(case, criterion, reverse=reverse)
        key = (id(self), reverse, tuple(other.name for other in group), _key_of(case))
        task = sitting.once(key, lambda: self._task_together(case, group, reverse=reverse))
        return SharedTask(
            **{field.name: getattr(task, field.name) for field in fields(task)},
            sitting=sitting,
            key=key,
            name=criterion.name,
            alone=lambda: self._task_alone(case, criterion, reverse=reverse),
        )

    async def _take_sample(self, task: Task, number: int | None, poll: Poll) -> Valid | Invalid | Failed:
        if isinstance(task, SharedTask):
            return await ask_part(self._model, task, poll, repairs=self._repairs, sample=number)
        return await super()._take_sample(task, number, poll)

    def _task_together(self, case: Case, group: Sequence[Criterion], *, reverse: bool) -> Task:
        language, feedback = case.language, self._feedback
        # A canary gets a new id in every round, but the order of criteria must not change.
        seed = boundary(case.fields) if current_conditions().fresh else case.id
        criteria = rotate_by_seed(seed, group)
        messages = together_messages(case, criteria, reverse=reverse, feedback=feedback, persona=self._persona)

        def read(completion: Completion) -> Valid | Invalid:
            parsed = parse_parts(completion.text, criteria, language, items=_count_items(case, criteria[0]))
            if isinstance(parsed, Invalid):
                # A reply that was too long is not repaired: each criterion is asked for separately.
                return replace(parsed, final=completion.finish_reason == "length")
            if not feedback:
                return parsed
            return replace(
                parsed,
                parts={
                    criterion.name: _require_feedback(parsed.parts[criterion.name], criterion) for criterion in criteria
                },
            )

        def repair(output: str | None, reason: str) -> list[ChatMessage]:
            return together_repair(output, reason, criteria, language, feedback=feedback)

        schema = together_schema(criteria, language, feedback=feedback, items=_count_items(case, criteria[0]))
        return Task(messages=messages, read=read, repair=repair, schema=schema, answers=len(criteria))

    async def _task_alone(self, case: Case, criterion: Criterion, *, reverse: bool) -> Task:
        persona = await self._personas.of(criterion, case.language) if self._personas else self._persona
        messages = direct_messages(
            case, criterion, judge=self.template, reverse=reverse, feedback=self._feedback, persona=persona
        )

        def read(completion: Completion) -> Valid | Invalid:
            parsed = parse_verdict(completion.text, criterion, case.language, items=_count_items(case, criterion))
            return _require_feedback(parsed, criterion) if self._feedback else parsed

        def repair(output: str | None, reason: str) -> list[ChatMessage]:
            return repair_messages(
                output, reason, criterion, case.language, judge=self.template, feedback=self._feedback
            )

        items = _count_items(case, criterion)
        schema = verdict_schema(criterion, case.language, feedback=self._feedback, items=items)
        return Task(messages=messages, read=read, repair=repair, schema=schema)

    def _probe(self, case: Case, criterion: Criterion) -> list[ChatMessage]:
        persona = default_persona(case.language) if self._personas else "persona"
        messages = direct_messages(case, criterion, judge=self.template, feedback=self._feedback, persona=persona)
        messages += repair_messages(
            None, "reason", criterion, case.language, judge=self.template, feedback=self._feedback
        )
        return messages + (persona_messages(criterion, case.language) if self._personas else [])

    def _probe_together(self, case: Case, criterion: Criterion) -> list[ChatMessage]:
        two = (criterion, criterion.model_copy(update={"name": "other"}))
        messages = together_messages(case, two, feedback=self._feedback, persona="persona")
        return messages + together_repair(None, "reason", two, case.language, feedback=self._feedback)


def _key_of(case: Case) -> tuple[object, ...]:
    """Return all the parts of a prompt, so that no other case has the same key."""
    return case.id, case.language, tuple(case.fields.items())


def _count_items(case: Case, criterion: Criterion) -> int:
    return len(case.items(criterion.to_evaluate))


def _require_feedback(parsed: Valid | Invalid, criterion: Criterion) -> Valid | Invalid:
    """Refuse a verdict below the best one that lacks the requested feedback."""
    if isinstance(parsed, Invalid) or parsed.feedback or not parsed.applies:
        return parsed
    score = criterion.score(parsed.choice) if parsed.choice else criterion.place(parsed.value or 0.0)
    if score is None or score == 1.0:
        return parsed
    return Invalid(reason=NO_FEEDBACK, usable=parsed)


def verdict_schema(
    criterion: Criterion, language: Language, *, feedback: bool = False, items: int = 0
) -> Mapping[str, object]:
    """Return the JSON Schema of a reply; `items` is the number of items, if the criterion judges each of them."""
    verdict = _items_type(items) if criterion.ranked else _verdict_type(criterion, language)
    return reply_schema(verdict, feedback=feedback)


def together_schema(
    criteria: Sequence[Criterion], language: Language, *, feedback: bool = False, items: int = 0
) -> Mapping[str, object]:
    """Return the JSON Schema of a reply with a part for each criterion, in this order."""
    parts = {
        criterion.name: verdict_schema(criterion, language, feedback=feedback, items=items) for criterion in criteria
    }
    return {"type": "object", "properties": parts, "required": list(parts), "additionalProperties": False}


def _items_type(items: int) -> Mapping[str, object]:
    numbers = [str(number) for number in range(1, items + 1)]
    properties = {number: {"type": "boolean"} for number in numbers}
    return {"type": "object", "properties": properties, "required": numbers, "additionalProperties": False}


def _verdict_type(criterion: Criterion, language: Language) -> Mapping[str, object]:
    labels = list(valid_labels(criterion, language))
    if criterion.scale.kind != "range":
        return {"type": "string", "enum": labels}
    low, high = criterion.scale.range.min, criterion.scale.range.max
    number = {"type": "number", "minimum": low, "maximum": high}
    return {"anyOf": [number, {"type": "string", "enum": labels}]} if labels else number
