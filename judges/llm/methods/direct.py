"""The judge that shows a chat model one case and one criterion, or several, and reads their verdicts from the reply."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace

from judges.criteria.criterion import Criterion
from judges.criteria.problems import check_truth
from judges.llm.completion import PARSER_VERSION, Invalid, Valid, parse_parts, parse_verdict
from judges.llm.model_judge import Failed, ModelJudge, OnBias, Poll, Task, reply_schema
from judges.llm.persona import GENERATE, Personas, default_persona, persona_messages
from judges.llm.prompts.direct import allowed_labels, direct_messages, repair_messages
from judges.llm.prompts.layout import boundary, prompt_hash
from judges.llm.prompts.together import together_messages, together_repair
from judges.llm.together import Ask, SharedTask, ask_part, check_takes_several, grouping_of, in_order_of
from judges.llm.vote import Combine, ScoreFrom, VoteRule
from judges.models.base import ChatMessage, ChatModel, Completion
from judges.runtime.conditions import current_conditions
from judges.runtime.sitting import current_sitting
from judges.values.interaction import Case, Language

NO_FEEDBACK = "the JSON object has no `feedback`, and the verdict is not the best one"


class DirectJudge(ModelJudge):
    """Asks a model for a verdict on any scale; what it cannot read it asks for again, `repairs` times at most.

    `feedback` asks for advice too, given where the verdict is not the best one. `persona` is the description of the
    person to judge as, or "generate" to let the model describe one for each criterion. `ask` says whether criteria of
    one case share a call (`together`). `keep_prompt` leaves what was sent in the verdict's `prompt`.
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
        check_truth("feedback", feedback)
        self._feedback = feedback
        self._persona = persona
        self._personas = Personas(model) if persona == GENERATE else None
        self._prompt = prompt_hash(self._probe)
        self._grouping = grouping_of(ask)
        if self._grouping is not None:
            if self.template != DirectJudge.template:
                raise ValueError(f"{type(self).__name__} asks by one criterion at a time; leave ask out")
            if self._personas is not None:
                raise ValueError("a generated persona belongs to one criterion; leave it out, or ask")
            check_takes_several(model)
            self._prompt = f"{self._prompt}+{prompt_hash(self._probe_together)}"

    @property
    def method(self) -> str:
        together = "" if self._grouping is None else f" {self._grouping.identity}"
        return f"{self.template} prompt={self._prompt} parser={PARSER_VERSION} persona={self._persona!r}{together}"

    def asked_together(self, case: Case, criterion: Criterion) -> tuple[Criterion, ...]:
        grouping, sitting = self._grouping, current_sitting()
        if grouping is None or sitting is None:
            return (criterion,)

        def is_askable(other: Criterion) -> bool:
            judged = self.own_question_problem(other) is None and self.refusal(other) is None
            return judged and not other.unmet(case) and not other.missing(case)

        return sitting.once(
            (id(self), "group", criterion.name, _key_of(case)),
            lambda: grouping.group_of(criterion, sitting, is_askable, self.name),
        )

    async def task(self, case: Case, criterion: Criterion, *, reverse: bool) -> Task:
        group, sitting = self.asked_together(case, criterion), current_sitting()
        if len(group) < 2 or sitting is None:
            return await self._task_alone(case, criterion, reverse=reverse)
        key = (id(self), reverse, tuple(each.name for each in group), _key_of(case))
        task = sitting.once(key, lambda: self._task_together(case, group, reverse=reverse))
        return SharedTask(
            **{field.name: getattr(task, field.name) for field in fields(task)},
            sitting=sitting,
            key=key,
            name=criterion.name,
            alone=lambda: self._task_alone(case, criterion, reverse=reverse),
        )

    async def _sampled(self, task: Task, number: int | None, poll: Poll) -> Valid | Invalid | Failed:
        if isinstance(task, SharedTask):
            return await ask_part(self._model, task, poll, repairs=self._repairs, sample=number)
        return await super()._sampled(task, number, poll)

    def _task_together(self, case: Case, group: Sequence[Criterion], *, reverse: bool) -> Task:
        language, feedback = case.language, self._feedback
        # A canary has another id in every round, and must be shown in the same order in all of them.
        seed = boundary(case.fields) if current_conditions().fresh else case.id
        criteria = in_order_of(seed, group)
        messages = together_messages(case, criteria, reverse=reverse, feedback=feedback, persona=self._persona)

        def read(completion: Completion) -> Valid | Invalid:
            parsed = parse_parts(completion.text, criteria, language)
            if isinstance(parsed, Invalid):
                # What was too long for one reply is asked for in several.
                return replace(parsed, final=completion.finish_reason == "length")
            if not feedback:
                return parsed
            return replace(parsed, parts={each.name: _with_advice(parsed.parts[each.name], each) for each in criteria})

        def repair(output: str | None, reason: str) -> list[ChatMessage]:
            return together_repair(output, reason, criteria, language, feedback=feedback)

        schema = together_schema(criteria, language, feedback=feedback)
        return Task(messages=messages, read=read, repair=repair, schema=schema, answers=len(criteria))

    async def _task_alone(self, case: Case, criterion: Criterion, *, reverse: bool) -> Task:
        persona = await self._personas.of(criterion, case.language) if self._personas else self._persona
        messages = direct_messages(
            case, criterion, judge=self.template, reverse=reverse, feedback=self._feedback, persona=persona
        )

        def read(completion: Completion) -> Valid | Invalid:
            parsed = parse_verdict(completion.text, criterion, case.language)
            return _with_advice(parsed, criterion) if self._feedback else parsed

        def repair(output: str | None, reason: str) -> list[ChatMessage]:
            return repair_messages(
                output, reason, criterion, case.language, judge=self.template, feedback=self._feedback
            )

        schema = verdict_schema(criterion, case.language, feedback=self._feedback)
        return Task(messages=messages, read=read, repair=repair, schema=schema)

    def _probe(self, case: Case, criterion: Criterion) -> list[ChatMessage]:
        persona = default_persona(case.language) if self._personas else "persona"
        asked = direct_messages(case, criterion, judge=self.template, feedback=self._feedback, persona=persona)
        asked += repair_messages(None, "reason", criterion, case.language, judge=self.template, feedback=self._feedback)
        return asked + (persona_messages(criterion, case.language) if self._personas else [])

    def _probe_together(self, case: Case, criterion: Criterion) -> list[ChatMessage]:
        two = (criterion, criterion.model_copy(update={"name": "other"}))
        asked = together_messages(case, two, feedback=self._feedback, persona="persona")
        return asked + together_repair(None, "reason", two, case.language, feedback=self._feedback)


def _key_of(case: Case) -> tuple[object, ...]:
    """All that a prompt is made of, so that no other case is taken for this one."""
    return case.id, case.language, tuple(case.fields.items())


def _with_advice(parsed: Valid | Invalid, criterion: Criterion) -> Valid | Invalid:
    """A verdict that is not the best one comes with the advice that was asked for."""
    if isinstance(parsed, Invalid) or parsed.feedback or not parsed.applies:
        return parsed
    score = criterion.score(parsed.choice) if parsed.choice else criterion.place(parsed.value or 0.0)
    if score is None or score == 1.0:
        return parsed
    return Invalid(reason=NO_FEEDBACK, usable=parsed)


def verdict_schema(criterion: Criterion, language: Language, *, feedback: bool = False) -> Mapping[str, object]:
    return reply_schema(_verdict_type(criterion, language), feedback=feedback)


def together_schema(
    criteria: Sequence[Criterion], language: Language, *, feedback: bool = False
) -> Mapping[str, object]:
    """The JSON Schema of a reply with a part for each criterion, in this order."""
    parts = {each.name: verdict_schema(each, language, feedback=feedback) for each in criteria}
    return {"type": "object", "properties": parts, "required": list(parts), "additionalProperties": False}


def _verdict_type(criterion: Criterion, language: Language) -> Mapping[str, object]:
    labels = list(allowed_labels(criterion, language))
    if criterion.scale.kind != "range":
        return {"type": "string", "enum": labels}
    low, high = criterion.scale.range.min, criterion.scale.range.max
    number = {"type": "number", "minimum": low, "maximum": high}
    return {"anyOf": [number, {"type": "string", "enum": labels}]} if labels else number
