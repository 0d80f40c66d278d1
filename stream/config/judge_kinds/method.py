"""The keys of a judge for how it asks its model: the method, the criteria, the samples and how they are combined.

Each method is a judge of `judges.llm` with its own prompts: both are chosen here.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, FiniteFloat, Tag, ValidationInfo, field_validator

from judges.criteria.criterion import Criterion
from judges.judge import Judge
from judges.llm.methods.aspect import AspectCritic
from judges.llm.methods.direct import DirectJudge
from judges.llm.methods.guardian import GuardianJudge
from judges.llm.methods.rubric import RubricJudge
from judges.llm.methods.sentences import SentencesJudge, judges_by, split_sentences
from judges.llm.methods.two_step import TwoStepJudge
from judges.llm.persona import GENERATE, default_persona
from judges.llm.prompts.direct import direct_messages
from judges.llm.prompts.guardian import guardian_messages
from judges.llm.prompts.rubric import absolute_messages
from judges.llm.prompts.sentences import sentences_messages
from judges.llm.prompts.together import together_messages
from judges.llm.prompts.two_step import choice_messages
from judges.llm.together import Ask, grouping_of
from judges.models.base import ChatMessage, ChatModel
from judges.runtime.sitting import Sitting
from judges.values.interaction import Case
from stream.config.judge_kinds.base import JudgeSection
from stream.config.section import CriterionName, Label, Section
from stream.config.walk import shape_of

_RUBRIC_LEVELS = 5
# The length that an estimate assumes for a model's text: 120 tokens.
_EXPECTED_ASSESSMENT = "assessed" * 60


class AskTogetherConfig(Section):
    """Which criteria share a call."""

    together: Literal["quality"] = Field(
        default="quality", description="quality: all but those about safety, which are asked in calls of their own."
    )


AskConfig = Annotated[
    Annotated[Literal["single", "together"], Tag("value")] | Annotated[AskTogetherConfig, Tag("section")],
    Discriminator(lambda value: "section" if shape_of(value) == "section" else "value"),
]


class MethodSection(JudgeSection):
    """How a judge asks its model."""

    repairs: int = Field(default=2, ge=0, le=10, description="Extra calls to repair an invalid answer.")
    method: Literal["direct", "two_step", "sentences", "aspect", "rubric", "guardian"] = Field(
        default="direct",
        description="Prompting method: direct verdict, free-text assessment then verdict, groundedness sentence by "
        "sentence, pass/fail, five-level rubric, or risk.",
    )
    criteria: tuple[CriterionName, ...] | None = Field(
        default=None, min_length=1, max_length=256, description="Criteria to judge; null: all supported ones."
    )
    family: Label | None = Field(
        default=None, description="Model family, for exclude_family; null: derived from the model name."
    )
    samples: int = Field(default=1, ge=1, le=32, description="Samples per verdict.")
    combine: Literal["majority", "mean", "median", "min", "max"] | None = Field(
        default=None, description="How samples are combined; null: majority for pass/fail and options, else mean."
    )
    min_pass: int | None = Field(
        default=None, ge=1, le=32, description="For pass/fail: number of samples that must pass, instead of combine."
    )
    min_valid: int | None = Field(
        default=None, ge=1, le=32, description="Valid samples required for a verdict; null: more than half."
    )
    score_from: Literal["winner", "mean"] = Field(
        default="winner", description="Score of a majority vote: that of the winning option, or the mean of all votes."
    )
    stop_early: bool = Field(
        default=True,
        description="Stop sampling once further samples cannot change the verdict; false: request all samples at once.",
    )
    sampling_temperature: FiniteFloat = Field(
        default=0.7, gt=0, le=2, description="Temperature for multiple samples if temperature is 0 or null."
    )
    min_certainty: FiniteFloat | None = Field(
        default=None, ge=0, le=1, description="With `method: guardian`: answers below this confidence give no verdict."
    )
    check_position: bool = Field(default=False, description="Ask again with the options in reverse order.")
    on_bias: Literal["keep", "average", "abstain"] = Field(
        default="keep", description="Result when the verdict depends on the order of the options."
    )
    feedback: bool = Field(default=False, description="Ask for advice if the verdict is not the best one.")
    persona: str | None = Field(
        default=None,
        min_length=1,
        max_length=2000,
        description="Persona to judge as: a description, or `generate` to let the model write one per criterion.",
    )

    ask: AskConfig = Field(
        default="single",
        description="Calls for the criteria of one record: one for each, or one for several together.",
        examples=["together", {"together": "quality"}],
    )

    @field_validator("min_pass", "min_valid")
    @classmethod
    def _check_within_samples(cls, value: int | None, info: ValidationInfo) -> int | None:
        samples = info.data.get("samples")
        if value is not None and samples is not None and value > samples:
            raise ValueError(f"must be at most samples ({samples})")
        return value

    @field_validator("min_pass", "check_position", "feedback", "persona")
    @classmethod
    def _check_method(cls, value: Any, info: ValidationInfo) -> Any:
        method = info.data.get("method")
        if value and method in {"sentences", "rubric", "guardian"}:
            raise ValueError(f"requires method direct, two_step or aspect, not {method}")
        return value

    @field_validator("min_pass")
    @classmethod
    def _refuse_with_combine(cls, value: int | None, info: ValidationInfo) -> int | None:
        if value is not None and info.data.get("combine") is not None:
            raise ValueError("replaces combine; remove one of them")
        return value

    @field_validator("min_certainty")
    @classmethod
    def _require_guardian(cls, value: float | None, info: ValidationInfo) -> float | None:
        if value is not None and info.data.get("method") not in {"guardian", None}:
            raise ValueError("requires 'method: guardian'")
        return value

    @field_validator("on_bias")
    @classmethod
    def _require_position_check(cls, value: str, info: ValidationInfo) -> str:
        if value != "keep" and info.data.get("check_position") is False:
            raise ValueError("requires 'check_position: true'")
        return value

    @field_validator("persona")
    @classmethod
    def _refuse_empty(cls, value: str | None) -> str | None:
        if value is not None and not value.strip():
            raise ValueError("must be a description, or `generate`")
        return value

    @field_validator("ask")
    @classmethod
    def _check_grouping(cls, value: AskConfig, info: ValidationInfo) -> AskConfig:
        if value == "single":
            return value
        if info.data.get("method") not in {"direct", None}:
            raise ValueError("must be single: only the method direct asks by several criteria at once")
        if info.data.get("persona") == GENERATE:
            raise ValueError("must be single with 'persona: generate', which describes a person for each criterion")
        return value

    @property
    def only_criteria(self) -> tuple[str, ...] | None:
        return self.criteria

    def judge_with(self, model: ChatModel) -> Judge:
        """Build the judge that asks this model with the configured method."""
        judge = self._judge_by_method(model)
        judge.only = None if self.criteria is None else frozenset(self.criteria)
        return judge

    def _judge_by_method(self, model: ChatModel) -> Judge:
        options: dict[str, Any] = {
            "name": self.name,
            "repairs": self.repairs,
            "min_valid": self.min_valid,
            "score_from": self.score_from,
            "stop_early": self.stop_early,
            "family": self.family,
        }
        if self.method == "rubric":
            return RubricJudge(model, samples=self.samples, combine=self.combine, **options)
        if self.method == "sentences":
            return SentencesJudge(model, samples=self.samples, combine=self.combine, **options)
        if self.method == "guardian":
            certainty, combine = self.min_certainty, self.combine or "majority"
            return GuardianJudge(model, samples=self.samples, combine=combine, min_certainty=certainty, **options)
        options |= {
            "combine": self.combine,
            "min_pass": self.min_pass,
            "check_position": self.check_position,
            "on_bias": self.on_bias,
            "feedback": self.feedback,
            "persona": self.persona,
        }
        if self.method == "aspect":
            return AspectCritic(model, strictness=self.samples, **options)
        if self.method == "two_step":
            return TwoStepJudge(model, samples=self.samples, **options)
        return DirectJudge(model, samples=self.samples, ask=self._ask_setting, **options)

    @property
    def _ask_setting(self) -> Ask:
        return self.ask if isinstance(self.ask, str) else self.ask.model_dump()

    @property
    def calls_per_prompt(self) -> int:
        """Calls with the same prompt for one verdict, without retries."""
        return self.samples * (2 if self.check_position else 1)

    @property
    def steps(self) -> int:
        """Consecutive prompts per sample."""
        return 2 if self.method == "two_step" else 1

    def prompts(
        self, case: Case, criteria: Collection[Criterion]
    ) -> Iterator[tuple[Sequence[ChatMessage], Sequence[Criterion]]]:
        """Write the prompts for every criterion that the judge supports for the case, each with its criteria."""
        for group in self._groups(case, criteria):
            if len(group) > 1:
                yield together_messages(case, group, feedback=self.feedback, persona=self.persona), group
                continue
            [criterion] = group
            prompt = self._prompt(case, criterion)
            yield prompt, group
            if self.method == "two_step":
                chosen = choice_messages(_EXPECTED_ASSESSMENT, criterion, case.language, feedback=self.feedback)
                yield [*prompt, *chosen], group

    def _groups(self, case: Case, criteria: Collection[Criterion]) -> Iterable[tuple[Criterion, ...]]:
        """Group the criteria that the judge supports for the case by the calls that they share."""

        def is_askable(criterion: Criterion) -> bool:
            return self._judges_by(criterion) and not criterion.unmet(case) and not criterion.missing(case)

        grouping, sitting = grouping_of(self._ask_setting), Sitting(tuple(criteria))
        askable = [criterion for criterion in criteria if is_askable(criterion)]
        if grouping is None:
            return [(criterion,) for criterion in askable]
        groups = [grouping.group_of(criterion, sitting, is_askable, self.name) for criterion in askable]
        return {tuple(criterion.name for criterion in group): group for group in groups}.values()

    def _judges_by(self, criterion: Criterion) -> bool:
        if self.criteria is not None:
            return criterion.name in self.criteria
        if self.method == "guardian":
            return criterion.risk is not None
        if self.method == "sentences":
            return judges_by(criterion)
        if self.method == "rubric":
            return len(criterion.worst_first) == _RUBRIC_LEVELS
        return self.method != "aspect" or criterion.scale.kind == "binary"

    def _prompt(self, case: Case, criterion: Criterion) -> Sequence[ChatMessage]:
        if self.method == "guardian":
            return guardian_messages(case, criterion)
        if self.method == "rubric":
            return absolute_messages(case, criterion)
        if self.method == "sentences":
            answer = case.text(criterion.to_evaluate)
            sentences = [answer[place.start : place.stop] for place in split_sentences(answer)]
            return sentences_messages(case, criterion, sentences)
        persona = default_persona(case.language) if self.persona == GENERATE else self.persona
        return direct_messages(case, criterion, judge=self.method, feedback=self.feedback, persona=persona)
