"""The section `judges`: the panel, and how its members are asked."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Literal, Union, get_args

from pydantic import BeforeValidator, Field, FiniteFloat, ValidationInfo, field_validator

from judges.criteria.problems import InconsistentError, Loc, unknown
from judges.models.redaction import HEAVY_SHARE, Redactor
from judges.panel.tally import Combine
from stream.config.judge_kinds import JUDGE_KINDS
from stream.config.judge_kinds.base import AskedModel, JudgeName, JudgeSection
from stream.config.judge_kinds.encoder import default_encoder
from stream.config.judge_kinds.local import LocalJudgeConfig
from stream.config.section import Rate, Section, refuse_bool, refuse_repeats
from stream.config.walk import DISCRIMINATOR

if TYPE_CHECKING:
    JudgeConfig = JudgeSection
else:
    JudgeConfig = Annotated[Union[JUDGE_KINDS], Field(discriminator=DISCRIMINATOR)]  # noqa: UP007 the kinds are a value

RedactedKind = Literal[
    "email",
    "phone",
    "card",
    "iban",
    "ip",
    "ssn",
    "snils",
    "inn",
    "nino",
    "dni",
    "pesel",
    "steuer_id",
    "national_id",
    "secret",
]
PatternName = Annotated[str, Field(min_length=1, max_length=64)]
Pattern = Annotated[str, Field(min_length=1, max_length=1000)]
JudgeWeight = Annotated[FiniteFloat, Field(gt=0.0, le=1000.0), BeforeValidator(refuse_bool)]


class CacheConfig(Section):
    """Verdict cache: a judge is not asked the same question about the same texts twice."""

    entries: int = Field(default=10_000, ge=0, le=10_000_000, description="Verdicts to cache; 0: no cache.")
    seconds: FiniteFloat = Field(default=3600.0, gt=0, le=31_536_000, description="How long a verdict is cached.")
    path: str | None = Field(
        default=None, max_length=4096, description="Persistent cache file that processes can share; null: in memory."
    )


class RedactionConfig(Section):
    """Personal data and secrets that are replaced by placeholders before a prompt is sent."""

    kinds: tuple[RedactedKind, ...] = Field(default=get_args(RedactedKind), description="Kinds of data to redact.")
    custom: Mapping[PatternName, Pattern] = Field(
        default={}, description="Your own patterns, by name.", examples=[{"CUSTOMER": "C-[0-9]{8}"}]
    )
    heavy_share: Rate = Field(
        default=HEAVY_SHARE,
        description="Share of an answer's letters and digits; if more is redacted, the judge gives no safety verdict.",
    )

    @field_validator("custom")
    @classmethod
    def _check_patterns(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        problems: list[tuple[Loc, str]] = []
        for name, pattern in value.items():
            try:
                Redactor((), {name: pattern})
            except ValueError as error:
                problems.append(((name,), str(error)))
        if problems:
            raise InconsistentError(problems)
        return value


class CascadeConfig(Section):
    """Cascade: cheap judges first, the whole panel if they are in doubt, and always the whole panel for safety."""

    first: tuple[JudgeName, ...] = Field(min_length=1, max_length=32, description="Judges of the panel to ask first.")
    min_agreement: Rate = Field(
        default=0.75, description="Ask the rest of the panel if judges or samples agree less than this."
    )
    threshold: FiniteFloat | None = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Ask the rest of the panel if the score is near this; null: whatever the score.",
    )
    margin: Rate = Field(default=0.15, description="Distance from the threshold that counts as near.")

    @field_validator("first")
    @classmethod
    def _refuse_duplicates(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        refuse_repeats("must name each judge once", value)
        return value


def default_panel() -> tuple[JudgeSection, ...]:
    """Return the judges of a configuration that names none."""
    return (LocalJudgeConfig(), *default_encoder())


# The smallest panel in which one judge is outvoted.
_MEDIAN_JUDGES = 3


class JudgesConfig(Section):
    """The judges, and how their verdicts are combined."""

    panel: tuple[JudgeConfig, ...] = Field(
        default_factory=default_panel,
        min_length=1,
        max_length=32,
        description=("The judges; each scores what it can. Default: local, and encoder if its extra is installed."),
        examples=[
            [
                {
                    "kind": "openai",
                    "name": "gpt",
                    "model": "gpt-4o-mini",
                    "base_url": "https://api.openai.com/v1",
                    "api_key": "${OPENAI_API_KEY}",
                },
                {"kind": "openai", "name": "qwen", "model": "qwen2.5:7b", "base_url": "http://localhost:11434/v1"},
            ]
        ],
    )
    reserves: tuple[JudgeConfig, ...] = Field(
        default=(), max_length=32, description="Judges that replace a failing one, in this order."
    )
    combine: Literal["mean", "median", "min", "max", "majority", "weighted"] | None = Field(
        default=None,
        description=(
            "How the judges' scores are combined; null: median for three or more judges, else mean, and max for local "
            "with the shipped encoder."
        ),
    )
    weights: Mapping[JudgeName, JudgeWeight] = Field(
        default={}, description="With `combine: weighted`: weight of each judge; default 1."
    )
    quorum: int | None = Field(
        default=None, ge=1, le=32, description="Judges that must give a verdict; null: more than half of the panel."
    )
    exclude_family: bool = Field(default=False, description="Exclude judges of the model family that wrote the answer.")
    stop_early: bool = Field(
        default=False, description="Ask no further judges once they cannot change the outcome (not for means)."
    )
    cascade: CascadeConfig | None = Field(
        default=None,
        description="Ask some judges first, and the rest only if those are in doubt; null: ask all.",
    )
    language: Literal["auto", "en", "ru"] = Field(
        default="auto", description="Prompt language; auto: Russian for Russian interactions, else English."
    )
    cache: CacheConfig = Field(default_factory=CacheConfig, description="Verdict cache.")
    redaction: RedactionConfig = Field(
        default_factory=RedactionConfig,
        description="Personal data and secrets that are redacted before a prompt is sent.",
    )

    @property
    def is_panel_configured(self) -> bool:
        """Whether the panel is not the default one."""
        return "panel" in self.model_fields_set

    @property
    def combine_rule(self) -> Combine:
        """How scores are combined, also if the configuration does not say so.

        The local judge and the shipped encoder make different mistakes: what only one of them finds is more often
        wrong than right, so both must find a fault (docs/local-judge.md has the figures). From three judges on, one
        that is stuck cannot move a median far (docs/judges.md has the figures).
        """
        if self.combine is not None:
            return self.combine
        if len(self.panel) >= _MEDIAN_JUDGES:
            return "median"
        kinds = [judge.kind for judge in self.panel if judge.is_shipped]
        is_shipped_pair = len(self.panel) == len(set(kinds)) == 2
        return "max" if is_shipped_pair else "mean"

    @property
    def everyone(self) -> tuple[JudgeConfig, ...]:
        """The judges of the panel, then the reserves."""
        return (*self.panel, *self.reserves)

    def list_models(self) -> Iterator[tuple[Loc, AskedModel]]:
        """List the models that judges ask, each with the place of its judge."""
        for place, judge in self.places():
            if judge.asked_model is not None:
                yield place, judge.asked_model

    def places(self) -> Iterator[tuple[Loc, JudgeConfig]]:
        """List all judges with their places in this section."""
        for key, judges in (("panel", self.panel), ("reserves", self.reserves)):
            for number, judge in enumerate(judges):
                yield (key, number), judge

    @field_validator("panel")
    @classmethod
    def _refuse_same_names(cls, value: tuple[JudgeConfig, ...]) -> tuple[JudgeConfig, ...]:
        refuse_repeats("judges must have different names", (judge.name for judge in value))
        return value

    @field_validator("reserves")
    @classmethod
    def _check_reserve_names(cls, value: tuple[JudgeConfig, ...], info: ValidationInfo) -> tuple[JudgeConfig, ...]:
        refuse_repeats("judges must have different names", (judge.name for judge in value))
        for judge in value:
            if judge.name in _names(info):
                raise ValueError(f"judges must have different names; {judge.name!r} is in the panel")
        return value

    @field_validator("weights")
    @classmethod
    def _check_weights(cls, value: Mapping[str, float], info: ValidationInfo) -> Mapping[str, float]:
        if value and info.data.get("combine", "weighted") != "weighted":
            raise ValueError("requires 'combine: weighted'")
        names = [*_names(info), *(judge.name for judge in info.data.get("reserves", ()))]
        problems = [((name,), unknown("judge", name, names)) for name in value if name not in names]
        if problems and {"panel", "reserves"} <= info.data.keys():
            raise InconsistentError(problems)
        return value

    @field_validator("quorum")
    @classmethod
    def _check_quorum(cls, value: int | None, info: ValidationInfo) -> int | None:
        panel = info.data.get("panel")
        if value is not None and panel is not None and value > len(panel):
            raise ValueError(f"must be at most {len(panel)}, the number of judges in the panel")
        return value

    @field_validator("stop_early")
    @classmethod
    def _check_stop_early(cls, value: bool, info: ValidationInfo) -> bool:
        default = "median" if len(info.data.get("panel", ())) >= _MEDIAN_JUDGES else "mean"
        combine = info.data.get("combine", "") or default
        if value and combine in {"mean", "weighted"} and "combine" in info.data:
            raise ValueError(
                f"has no effect with 'combine: {combine}', where every judge can change the result; combine by "
                "median, majority, min or max, or remove it"
            )
        return value

    @field_validator("cascade")
    @classmethod
    def _check_cascade(cls, value: CascadeConfig | None, info: ValidationInfo) -> CascadeConfig | None:
        names = _names(info)
        if value is None or not names:
            return value
        problems: list[tuple[Loc, str]] = [
            (("first", number), unknown("judge", name, names))
            for number, name in enumerate(value.first)
            if name not in names
        ]
        if not problems and len(value.first) == len(names):
            problems.append((("first",), "must leave at least one judge of the panel to ask when in doubt"))
        if problems:
            raise InconsistentError(problems)
        return value

    @field_validator("reserves")
    @classmethod
    def _check_shared_limits(cls, value: tuple[JudgeConfig, ...], info: ValidationInfo) -> tuple[JudgeConfig, ...]:
        """Require equal limits for judges with the same endpoint."""
        first: dict[str, tuple[str, AskedModel]] = {}
        for judge in (*info.data.get("panel", ()), *value):
            model = judge.asked_model
            if model is not None:
                name, other = first.setdefault(model.address, (judge.name, model))
                if other.limits != model.limits:
                    raise ValueError(f"{name} and {judge.name} use the same endpoint and must have the same limits")
        return value

    def find_unknown_criteria(self, criteria: Iterable[str]) -> Iterator[tuple[Loc, str]]:
        """Find criteria that a judge is restricted to, but that are not judged."""
        names = list(criteria)
        for place, judge in self.places():
            for number, name in enumerate(judge.only_criteria or ()):
                if name not in names:
                    yield (*place, "criteria", number), unknown("criterion", name, names)


def _names(info: ValidationInfo) -> tuple[str, ...]:
    """Return the names of the panel's judges; none if the panel itself is wrong."""
    return tuple(judge.name for judge in info.data.get("panel", ()))
