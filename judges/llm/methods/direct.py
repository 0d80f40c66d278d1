"""The judge that shows a chat model one case and one criterion, and takes one verdict from what it writes."""

from collections.abc import Mapping

from judges.criteria.criterion import Criterion
from judges.criteria.problems import check_truth
from judges.llm.completion import PARSER_VERSION, Invalid, Valid, parse_verdict
from judges.llm.model_judge import ModelJudge, OnBias, Task, reply_schema
from judges.llm.persona import GENERATE, Personas, default_persona, persona_messages
from judges.llm.prompts.direct import allowed_labels, direct_messages, repair_messages
from judges.llm.prompts.layout import prompt_hash
from judges.llm.vote import Combine, ScoreFrom, VoteRule
from judges.models.base import ChatMessage, ChatModel, Completion
from judges.values.interaction import Case, Language

NO_FEEDBACK = "the JSON object has no `feedback`, and the verdict is not the best one"


class DirectJudge(ModelJudge):
    """Asks a model for a verdict on any scale; what it cannot read it asks for again, `repairs` times at most.

    `feedback` asks for advice too, given where the verdict is not the best one. `persona` is the description of the
    person to judge as, or "generate" to let the model describe one for each criterion. `keep_prompt` leaves what was
    sent in the verdict's `prompt`.
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

    @property
    def method(self) -> str:
        return f"{self.template} prompt={self._prompt} parser={PARSER_VERSION} persona={self._persona!r}"

    async def task(self, case: Case, criterion: Criterion, *, reverse: bool) -> Task:
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


def _verdict_type(criterion: Criterion, language: Language) -> Mapping[str, object]:
    labels = list(allowed_labels(criterion, language))
    if criterion.scale.kind != "range":
        return {"type": "string", "enum": labels}
    low, high = criterion.scale.range.min, criterion.scale.range.max
    number = {"type": "number", "minimum": low, "maximum": high}
    return {"anyOf": [number, {"type": "string", "enum": labels}]} if labels else number
