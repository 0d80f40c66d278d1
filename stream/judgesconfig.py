"""The section of the configuration for those who judge."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, get_args
from urllib.parse import urlsplit

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    SecretStr,
    ValidationInfo,
    field_serializer,
    field_validator,
)

from judges.models.anthropic import ANTHROPIC_URL
from judges.models.ollama import OLLAMA_URL
from judges.models.presets import PRESETS, PresetName
from judges.models.prices import ModelPrice, known_price
from judges.models.redaction import Redactor, is_private
from judges.models.wire.anthropic import AnthropicWire
from judges.models.wire.ollama import OllamaWire
from judges.models.wire.openai import OpenAIWire
from judges.problems import InconsistentError, Loc, unknown
from stream.configwalk import DISCRIMINATOR
from stream.section import MASK, CriterionName, Label, Rate, Section, no_truth, refuse_repeats, web_address

JUDGE = r"^[A-Za-z0-9][A-Za-z0-9_.:/-]{0,63}$"

_Wire = type[OpenAIWire | AnthropicWire | OllamaWire]

JudgeName = Annotated[str, Field(pattern=JUDGE)]
RedactedKind = Literal[
    "email", "phone", "card", "iban", "ip", "ssn", "snils", "inn", "nino", "dni", "pesel", "steuer_id", "secret"
]
PatternName = Annotated[str, Field(min_length=1, max_length=64)]
Pattern = Annotated[str, Field(min_length=1, max_length=1000)]
JudgeWeight = Annotated[FiniteFloat, Field(gt=0.0, le=1000.0), BeforeValidator(no_truth)]


def _require_kind(schema: dict[str, Any]) -> None:
    schema["required"] = [DISCRIMINATOR, *schema.get("required", [])]


class JudgeSection(Section):
    """What all judges share: Python may leave out the kind, a file may not."""

    model_config = ConfigDict(json_schema_extra=_require_kind)

    kind: str = Field(description="The kind of judge.")
    name: JudgeName = Field(description="The name its verdicts are published under.")


class LocalJudgeConfig(JudgeSection):
    """A judge without a model: deterministic, free, and no more than a first look."""

    kind: Literal["local"] = Field(default="local", description="The kind of judge: no model and no network.")
    name: JudgeName = Field(default="local", description="The name its verdicts are published under.")


class PriceConfig(Section):
    """What a model costs, in US dollars per million tokens."""

    prompt: FiniteFloat = Field(ge=0, le=1e6, description="A million tokens that are sent.")
    completion: FiniteFloat = Field(ge=0, le=1e6, description="A million tokens that are written.")
    cached: FiniteFloat | None = Field(
        default=None,
        ge=0,
        le=1e6,
        description="A million of the tokens sent that the endpoint had in its cache; null: as the others.",
    )


class EndpointLimitsConfig(Section):
    """How much an endpoint is asked; within this, what it takes is found out."""

    concurrency: int = Field(default=64, ge=1, le=4096, description="Calls at once, at most.")
    requests_per_minute: FiniteFloat | None = Field(
        default=None, gt=0, le=1e9, description="Calls a minute; null: any."
    )
    tokens_per_minute: FiniteFloat | None = Field(
        default=None, gt=0, le=1e12, description="Tokens a minute; null: any."
    )
    retries: int = Field(default=2, ge=0, le=10, description="Further attempts of a call that failed and may pass.")
    hedge_seconds: FiniteFloat | None = Field(
        default=None, gt=0, le=600, description="Ask a second time after so long without an answer; null: never."
    )


class ModelJudgeConfig(JudgeSection):
    """What all judges that ask a model share."""

    wire: ClassVar[_Wire]
    """The API that its endpoint speaks."""

    example: ClassVar[str]
    """An address as it should be."""

    model: str = Field(min_length=1, max_length=256, description="The model, as the endpoint calls it.")
    base_url: str | None = Field(default=None, max_length=2048, description="Address of the endpoint.")
    api_key: SecretStr | None = Field(
        default=None, description="Key for the endpoint, from the environment: ${NAME}, nothing else."
    )
    api_key_file: str | None = Field(
        default=None, max_length=4096, description="File with the key, instead of api_key; a path from where it is run."
    )
    proxy: str | None = Field(
        default=None, max_length=2048, description="Proxy to the endpoint; null: none, whatever the environment says."
    )
    timeout_seconds: FiniteFloat = Field(default=30.0, gt=0, le=600, description="Longest wait for one call.")
    connect_seconds: FiniteFloat = Field(default=5.0, gt=0, le=600, description="Longest wait for a connection.")
    read_seconds: FiniteFloat | None = Field(
        default=None, gt=0, le=600, description="Longest silence of the endpoint; null: as long as timeout_seconds."
    )
    temperature: FiniteFloat | None = Field(
        default=0.0, ge=0, le=2, description="Sampling temperature; null leaves it to the endpoint."
    )
    seed: int | None = Field(
        default=0, ge=0, le=2**63 - 1, description="Seed asked of the endpoint, where it takes one; null sends none."
    )
    max_tokens: int = Field(default=512, ge=1, le=131_072, description="Longest answer of the judge, in tokens.")
    structured: bool = Field(default=True, description="Ask for JSON in the strongest form that the endpoint has.")
    repairs: int = Field(default=2, ge=0, le=10, description="Further calls made to repair an invalid answer.")
    method: Literal["direct", "aspect", "rubric", "guardian"] = Field(
        default="direct",
        description="How the model is asked: directly, to pass or fail, by a rubric of five levels, or for a risk.",
    )
    criteria: tuple[CriterionName, ...] | None = Field(
        default=None, min_length=1, max_length=256, description="The criteria it judges; null: all it can."
    )
    family: Label | None = Field(
        default=None, description="Family of the model, for exclude_family; null: told by the model's name."
    )
    samples: int = Field(default=1, ge=1, le=32, description="Answers taken for one verdict.")
    combine: Literal["majority", "mean", "median", "min", "max"] | None = Field(
        default=None, description="How samples become one; null: majority for pass/fail and options, else mean."
    )
    min_pass: int | None = Field(
        default=None, ge=1, le=32, description="For pass/fail: samples that must pass, instead of combine."
    )
    min_valid: int | None = Field(
        default=None, ge=1, le=32, description="Valid samples that a verdict takes; null: more than half."
    )
    score_from: Literal["winner", "mean"] = Field(
        default="winner", description="The score of a vote: that of what won, or the mean of all votes."
    )
    sampling_temperature: FiniteFloat = Field(
        default=0.7, gt=0, le=2, description="Temperature of several samples where temperature is 0 or null."
    )
    min_certainty: FiniteFloat | None = Field(
        default=None, ge=0, le=1, description="With `method: guardian`: a less certain answer is no verdict."
    )
    check_position: bool = Field(default=False, description="Ask again with the options in reverse order.")
    on_bias: Literal["keep", "average", "abstain"] = Field(
        default="keep", description="What a verdict that changes with the order becomes."
    )
    feedback: bool = Field(default=False, description="Ask for advice where the verdict is not the best one.")
    persona: str | None = Field(
        default=None,
        min_length=1,
        max_length=2000,
        description="Whom to judge as: a description, or `generate` to let the model describe one per criterion.",
    )
    price: PriceConfig | None = Field(
        default=None,
        description="What its tokens cost; null: as the table that comes with the program has it, where it knows the "
        "model and the endpoint is not on a private network.",
    )
    limits: EndpointLimitsConfig = Field(
        default_factory=EndpointLimitsConfig, description="How much its endpoint is asked, by all judges together."
    )
    redact: Literal["auto", "always", "never"] = Field(
        default="auto",
        description="Keep personal data and secrets from the endpoint; auto: unless it is on a private network.",
    )

    @field_validator("model")
    @classmethod
    def _printable(cls, value: str) -> str:
        if not value.isprintable():
            raise ValueError("must be a name in printable characters")
        return value

    @field_validator("temperature", "sampling_temperature")
    @classmethod
    def _cool_enough(cls, value: float | None) -> float | None:
        if value is not None and value > cls.wire.hottest:
            raise ValueError(f"must be at most {cls.wire.hottest:g} for this API")
        return value

    @field_validator("min_pass", "min_valid")
    @classmethod
    def _within_samples(cls, value: int | None, info: ValidationInfo) -> int | None:
        samples = info.data.get("samples")
        if value is not None and samples is not None and value > samples:
            raise ValueError(f"must be at most samples ({samples})")
        return value

    @field_validator("min_pass", "check_position", "feedback", "persona")
    @classmethod
    def _fits_method(cls, value: Any, info: ValidationInfo) -> Any:
        method = info.data.get("method")
        if value and method in {"rubric", "guardian"}:
            raise ValueError(f"is for the methods direct and aspect, not for {method}")
        return value

    @field_validator("min_pass")
    @classmethod
    def _instead_of_combine(cls, value: int | None, info: ValidationInfo) -> int | None:
        if value is not None and info.data.get("combine") is not None:
            raise ValueError("takes the place of combine; leave one of them out")
        return value

    @field_validator("min_certainty")
    @classmethod
    def _of_a_guardian(cls, value: float | None, info: ValidationInfo) -> float | None:
        if value is not None and info.data.get("method") not in {"guardian", None}:
            raise ValueError("is only read with 'method: guardian'")
        return value

    @field_validator("on_bias")
    @classmethod
    def _of_a_check(cls, value: str, info: ValidationInfo) -> str:
        if value != "keep" and info.data.get("check_position") is False:
            raise ValueError("is only read with 'check_position: true'")
        return value

    @field_validator("persona")
    @classmethod
    def _says_something(cls, value: str | None) -> str | None:
        if value is not None and not value.strip():
            raise ValueError("must be a description, or `generate`")
        return value

    @field_validator("base_url")
    @classmethod
    def _plain_address(cls, value: str | None) -> str | None:
        if value is None:
            return None
        web_address(value, example=cls.example, secrets="keys go in api_key")
        if value.rstrip("/").lower().endswith(cls.wire.no_endings):
            raise ValueError(f"must end before {cls.wire.path}, which is added to it, as in {cls.example}")
        return value

    @field_validator("proxy")
    @classmethod
    def _plain_proxy(cls, value: str | None) -> str | None:
        allowed = "one that wants a password cannot be used"
        return None if value is None else web_address(value, example="http://proxy:3128", secrets=allowed)

    @field_validator("api_key")
    @classmethod
    def _fits_a_header(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not re.fullmatch(r"[!-~]+", value.get_secret_value()):
            raise ValueError("must be visible ASCII characters without spaces or line breaks")
        return value

    @field_validator("api_key_file")
    @classmethod
    def _one_key(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and info.data.get("api_key") is not None:
            raise ValueError("takes the place of api_key; leave one of them out")
        return value

    @field_serializer("api_key", when_used="json-unless-none")
    def _without_secrets(self, value: SecretStr) -> str:
        return MASK

    @property
    def address(self) -> str:
        """Where the endpoint is, written or not."""
        raise NotImplementedError

    @property
    def is_private(self) -> bool:
        """Whether the endpoint is on this machine or a private network."""
        return is_private(urlsplit(self.address).hostname or "")

    @property
    def known_price(self) -> ModelPrice | None:
        """What its tokens cost, as far as is known; what somebody serves himself costs what only he can say."""
        if self.price is not None:
            return ModelPrice(**self.price.model_dump())
        return None if self.is_private else known_price(self.model)


class _PresetSection(JudgeSection):
    """Apart, because what comes later among the bases is read first: the address may be left to the preset."""

    preset: PresetName | None = Field(
        default=None, description="The service, for its address and dialect; null: any, with nothing taken for granted."
    )


class OpenAIJudgeConfig(ModelJudgeConfig, _PresetSection):
    """A model behind an endpoint that speaks the OpenAI chat protocol."""

    wire: ClassVar[_Wire] = OpenAIWire
    example: ClassVar[str] = "https://api.openai.com/v1"

    kind: Literal["openai"] = Field(
        default="openai", description="The kind of judge: any OpenAI-compatible chat endpoint."
    )
    base_url: str | None = Field(
        default=None,
        max_length=2048,
        description="Address of the endpoint, up to and without /chat/completions; null: that of the preset.",
    )

    @field_validator("base_url")
    @classmethod
    def _known_or_written(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is None and "preset" in info.data and _address_of(info.data["preset"]) is None:
            raise ValueError("is required; only presets other than azure have an address of their own")
        return value

    @property
    def address(self) -> str:
        return self.base_url or _address_of(self.preset) or ""


def _address_of(preset: PresetName | None) -> str | None:
    return None if preset is None else PRESETS[preset].base_url


class AnthropicJudgeConfig(ModelJudgeConfig):
    """A model behind an endpoint that speaks Anthropic's Messages."""

    wire: ClassVar[_Wire] = AnthropicWire
    example: ClassVar[str] = ANTHROPIC_URL

    kind: Literal["anthropic"] = Field(default="anthropic", description="The kind of judge: Anthropic's Messages.")
    base_url: str | None = Field(
        default=None,
        max_length=2048,
        description=f"Address of the endpoint, up to and without /v1/messages; null: {ANTHROPIC_URL}.",
    )

    @property
    def address(self) -> str:
        return self.base_url or ANTHROPIC_URL


class OllamaJudgeConfig(ModelJudgeConfig):
    """A model of an Ollama server, asked by Ollama's own API."""

    wire: ClassVar[_Wire] = OllamaWire
    example: ClassVar[str] = OLLAMA_URL

    kind: Literal["ollama"] = Field(default="ollama", description="The kind of judge: Ollama's own API.")
    base_url: str | None = Field(
        default=None,
        max_length=2048,
        description=f"Address of the server, up to and without /api/chat; null: {OLLAMA_URL}.",
    )

    @property
    def address(self) -> str:
        return self.base_url or OLLAMA_URL


JudgeConfig = Annotated[
    LocalJudgeConfig | OpenAIJudgeConfig | AnthropicJudgeConfig | OllamaJudgeConfig,
    Field(discriminator=DISCRIMINATOR),
]


class CacheConfig(Section):
    """Verdicts that are given again without asking, where a judge was asked the same about the same texts."""

    entries: int = Field(default=10_000, ge=0, le=10_000_000, description="Verdicts that are kept; 0: none.")
    seconds: FiniteFloat = Field(default=3600.0, gt=0, le=31_536_000, description="How long a verdict is kept.")
    path: str | None = Field(
        default=None, max_length=4096, description="File to keep them in, shared and lasting; null: in memory."
    )


class RedactionConfig(Section):
    """What is kept from the judges' endpoints, and replaced by placeholders."""

    kinds: tuple[RedactedKind, ...] = Field(default=get_args(RedactedKind), description="What is looked for.")
    custom: Mapping[PatternName, Pattern] = Field(
        default={}, description="Patterns of your own, by name.", examples=[{"CUSTOMER": "C-[0-9]{8}"}]
    )

    @field_validator("custom")
    @classmethod
    def _usable(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        wrong: list[tuple[Loc, str]] = []
        for name, pattern in value.items():
            try:
                Redactor((), {name: pattern})
            except ValueError as error:
                wrong.append(((name,), str(error)))
        if wrong:
            raise InconsistentError(wrong)
        return value


class CascadeConfig(Section):
    """Cheap judges first, the whole panel where they are in doubt, and always for safety."""

    first: tuple[JudgeName, ...] = Field(min_length=1, max_length=32, description="Judges of the panel asked first.")
    min_agreement: Rate = Field(default=0.75, description="In doubt below this agreement of judges or samples.")
    threshold: FiniteFloat | None = Field(
        default=0.5, ge=0, le=1, description="In doubt near this score; null: near none."
    )
    margin: Rate = Field(default=0.15, description="How near is near.")

    @field_validator("first")
    @classmethod
    def _each_once(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        refuse_repeats("must name each judge once", value)
        return value


class JudgesConfig(Section):
    """Who judges, and how their verdicts become one."""

    panel: tuple[JudgeConfig, ...] = Field(
        default=(LocalJudgeConfig(),),
        min_length=1,
        max_length=32,
        description="The judges; each scores every dimension.",
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
        default=(), max_length=32, description="Judges that take the seat of one that fails, in this order."
    )
    combine: Literal["mean", "median", "min", "max", "majority", "weighted"] = Field(
        default="mean", description="How the judges' scores of a criterion become one."
    )
    weights: Mapping[JudgeName, JudgeWeight] = Field(
        default={}, description="With `combine: weighted`: weight of a judge; those not named weigh 1."
    )
    quorum: int | None = Field(
        default=None, ge=1, le=32, description="Judges that must have a verdict; null: more than half of the panel."
    )
    exclude_family: bool = Field(
        default=False, description="Leave out judges of the model family that wrote the answer."
    )
    stop_early: bool = Field(
        default=False, description="Ask no further judges once they cannot change the outcome (not for means)."
    )
    cascade: CascadeConfig | None = Field(
        default=None,
        description="Ask some judges first, and the others only where those are in doubt; null: ask all.",
    )
    language: Literal["auto", "en", "ru"] = Field(
        default="auto", description="Language of the prompts; auto follows each interaction."
    )
    cache: CacheConfig = Field(default_factory=CacheConfig, description="Verdicts that are given again.")
    redaction: RedactionConfig = Field(default_factory=RedactionConfig, description="What endpoints are not shown.")

    def models(self) -> Iterator[tuple[Loc, ModelJudgeConfig]]:
        """Judges that ask a model, and where they are."""
        for key, judges in (("panel", self.panel), ("reserves", self.reserves)):
            for place, judge in enumerate(judges):
                if isinstance(judge, ModelJudgeConfig):
                    yield (key, place), judge

    @field_validator("panel")
    @classmethod
    def _different_names(cls, value: tuple[JudgeConfig, ...]) -> tuple[JudgeConfig, ...]:
        refuse_repeats("judges must have different names", (judge.name for judge in value))
        return value

    @field_validator("reserves")
    @classmethod
    def _other_names(cls, value: tuple[JudgeConfig, ...], info: ValidationInfo) -> tuple[JudgeConfig, ...]:
        refuse_repeats("judges must have different names", (judge.name for judge in value))
        for judge in value:
            if judge.name in _names(info):
                raise ValueError(f"judges must have different names; {judge.name!r} is in the panel")
        return value

    @field_validator("weights")
    @classmethod
    def _of_the_panel(cls, value: Mapping[str, float], info: ValidationInfo) -> Mapping[str, float]:
        if value and info.data.get("combine") not in {"weighted", None}:
            raise ValueError("is only read with 'combine: weighted'")
        known = [*_names(info), *(judge.name for judge in info.data.get("reserves", ()))]
        strangers = [((name,), unknown("judge", name, known)) for name in value if name not in known]
        if strangers and {"panel", "reserves"} <= info.data.keys():
            raise InconsistentError(strangers)
        return value

    @field_validator("quorum")
    @classmethod
    def _within_panel(cls, value: int | None, info: ValidationInfo) -> int | None:
        panel = info.data.get("panel")
        if value is not None and panel is not None and value > len(panel):
            raise ValueError(f"must be at most {len(panel)}, the number of judges in the panel")
        return value

    @field_validator("stop_early")
    @classmethod
    def _can_be_decided_early(cls, value: bool, info: ValidationInfo) -> bool:
        combine = info.data.get("combine")
        if value and combine in {"mean", "weighted"}:
            raise ValueError(
                f"does nothing with 'combine: {combine}', which every judge can change; combine by median, majority, "
                "min or max, or leave it out"
            )
        return value

    @field_validator("cascade")
    @classmethod
    def _first_of_the_panel(cls, value: CascadeConfig | None, info: ValidationInfo) -> CascadeConfig | None:
        names = _names(info)
        if value is None or not names:
            return value
        strangers: list[tuple[Loc, str]] = [
            (("first", number), unknown("judge", name, names))
            for number, name in enumerate(value.first)
            if name not in names
        ]
        if not strangers and len(value.first) == len(names):
            strangers.append((("first",), "must leave out some of the panel, who are asked in doubt"))
        if strangers:
            raise InconsistentError(strangers)
        return value

    @field_validator("reserves")
    @classmethod
    def _one_measure(cls, value: tuple[JudgeConfig, ...], info: ValidationInfo) -> tuple[JudgeConfig, ...]:
        """Judges of one endpoint share what it takes."""
        first: dict[str, ModelJudgeConfig] = {}
        for judge in (*info.data.get("panel", ()), *value):
            if isinstance(judge, ModelJudgeConfig):
                other = first.setdefault(judge.address, judge)
                if other.limits != judge.limits:
                    raise ValueError(f"{other.name} and {judge.name} ask one endpoint, and must have the same limits")
        return value

    def strangers(self, criteria: Iterable[str]) -> Iterator[tuple[Loc, str]]:
        """Criteria that a judge is kept for and nobody asked for."""
        names = list(criteria)
        for key, seats in (("panel", self.panel), ("reserves", self.reserves)):
            for place, judge in enumerate(seats):
                wanted = () if isinstance(judge, LocalJudgeConfig) else judge.criteria or ()
                for number, name in enumerate(wanted):
                    if name not in names:
                        yield (key, place, "criteria", number), unknown("criterion", name, names)


def _names(info: ValidationInfo) -> tuple[str, ...]:
    """The panel's judges, none when the panel itself is wrong."""
    return tuple(judge.name for judge in info.data.get("panel", ()))
