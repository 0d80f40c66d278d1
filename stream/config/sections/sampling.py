"""The section `sampling`: which interactions are judged."""

import re
import warnings
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    ConfigDict,
    Discriminator,
    Field,
    FiniteFloat,
    Tag,
    ValidationInfo,
    field_validator,
    model_validator,
)

from judges.values.evaluation import MIN_PROBABILITY
from stream.config.names import BACKFILL, CANARY
from stream.config.rate_scale import DEFAULT_MIN_RATE, LOWEST_RATE, steps_within
from stream.config.section import (
    MASK,
    Label,
    Rate,
    Section,
    check_by_loader,
    refuse_repeats,
)
from stream.config.sections.input import FieldPath
from stream.config.walk import shape_of

DEFAULT_SALT = "streamjury"
"""Never change it: without a configured salt, other records would be chosen."""


def _check_regex(pattern: str) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a pattern whose meaning may change one day has today's meaning
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"is not a valid regular expression: {error}") from None
    return pattern


def _check_word(word: str) -> str:
    if not re.match(r"[^\W_]", word):
        raise ValueError("must start with a letter or digit")
    return word


MatchText = Annotated[str, Field(min_length=1, max_length=1024)]


MatchValue = bool | Annotated[int, Field(ge=-(2**63), le=2**63 - 1)] | FiniteFloat | MatchText


TagName = Annotated[str, Field(min_length=1, max_length=128)]


HeaderName = Annotated[str, Field(min_length=1, max_length=256)]


# A condition of a rule: a value, a list of values, or a section.
_Texts = Annotated[tuple[MatchText, ...], Field(min_length=1, max_length=10_000)]


_Values = Annotated[tuple[MatchValue, ...], Field(min_length=1, max_length=10_000)]


class TextConditionConfig(Section):
    """Condition on a text: a pattern, or whether it exists; a list of texts is shorter for equality."""

    regex: Annotated[str, Field(min_length=1, max_length=1000), AfterValidator(_check_regex)] | None = Field(
        default=None,
        description="Regular expression to search for in the text; use `^` and `$` to anchor it.",
    )
    exists: bool | None = Field(
        default=None, description="Whether there must be a value, or must not be one (null counts as none)."
    )

    @model_validator(mode="after")
    def _require_one_condition(self) -> Self:
        if (self.regex is None) == (self.exists is None):
            raise ValueError("must have either regex or exists")
        return self


class ConditionConfig(TextConditionConfig):
    """Condition on a value: a pattern, a range, or whether it exists; a list of values is shorter for equality."""

    min: FiniteFloat | None = Field(default=None, ge=-1e300, le=1e300, description="Lowest number that matches.")
    max: FiniteFloat | None = Field(default=None, ge=-1e300, le=1e300, description="Highest number that matches.")

    @field_validator("max")
    @classmethod
    def _check_range(cls, value: float | None, info: ValidationInfo) -> float | None:
        low = info.data.get("min")
        if value is not None and low is not None and value < low:
            raise ValueError(f"must be at least min ({low:g})")
        return value

    @model_validator(mode="after")
    def _require_one_condition(self) -> Self:
        present = [self.regex is not None, self.min is not None or self.max is not None, self.exists is not None]
        if sum(present) != 1:
            raise ValueError("must have regex, exists, or min and/or max")
        return self


TextCondition = Annotated[
    Annotated[MatchText, Tag("value")]
    | Annotated[_Texts, Tag("list")]
    | Annotated[TextConditionConfig, Tag("section")],
    Discriminator(shape_of),
]


Condition = Annotated[
    Annotated[MatchValue, Tag("value")] | Annotated[_Values, Tag("list")] | Annotated[ConditionConfig, Tag("section")],
    Discriminator(shape_of),
]


class RuleMatch(Section):
    """Conditions of a rule; it applies to interactions that meet all of them."""

    app: TextCondition | None = Field(default=None, description="Condition on `app`.")
    tenant: TextCondition | None = Field(default=None, description="Condition on `tenant`.")
    model: TextCondition | None = Field(default=None, description="Condition on `model`.")
    tags: Mapping[TagName, Condition] = Field(default={}, description="Conditions on tags.")
    headers: Mapping[HeaderName, Condition] = Field(
        default={}, description="Conditions on record headers, read as text; these do not parse the record's value."
    )
    body: Mapping[FieldPath, Condition] = Field(
        default={}, description="Conditions on values in the record, by dotted path; numbers are list indexes."
    )

    @model_validator(mode="after")
    def _refuse_empty(self) -> Self:
        if not any((self.app, self.tenant, self.model, self.tags, self.headers, self.body)):
            raise ValueError("must have a condition on app, tenant, model, tags, headers or body")
        return self


def _drop_default_rate(data: Any) -> Any:
    """Unset the default rate if there is a target and no rate."""
    if isinstance(data, Mapping) and data.get("target_per_minute") not in (None, "") and "rate" not in data:
        return {**data, "rate": None}
    return data


def _require_rate_or_target(target: float | None, info: ValidationInfo) -> float | None:
    if target is not None and info.data.get("rate") is not None:
        raise ValueError("cannot be used together with rate; remove one of them")
    if target is None and info.data.get("rate", 0.0) is None:
        raise ValueError("is required without a rate")
    return target


def _require_target(bound: float | None, info: ValidationInfo) -> float | None:
    if bound is not None and info.data.get("target_per_minute", 1.0) is None:
        raise ValueError("requires target_per_minute")
    return bound


def _check_steps(high: float | None, info: ValidationInfo) -> float | None:
    low = info.data.get("min_rate")
    low, top = DEFAULT_MIN_RATE if low is None else low, 1.0 if high is None else high
    if top < low:
        raise ValueError(f"must be at least min_rate ({low:g})")
    if not steps_within(low, top):
        raise ValueError(f"must leave one of the rates 1, 0.84, 0.71, 0.59, 0.5 and so on above min_rate ({low:g})")
    return high


_RESERVED: Mapping[str, str] = {
    "default": "which is reserved for interactions that match no rule",
    "safety": "which is reserved for the safety lane",
    "direct": "which is reserved for records that were not sampled",
    "none": "which is reserved for records without a sampling decision",
    BACKFILL: "which is reserved for backfilled history",
    CANARY: "which is reserved for canary records",
}


_NOT_LIVE: Mapping[str, str] = {
    BACKFILL: "the lane of backfilled history",
    CANARY: "the lane of canary records",
}


def _refuse_offline_lane(lane: str) -> str:
    """Refuse a lane that the monitor ignores: live traffic must not use it."""
    if lane in _NOT_LIVE:
        raise ValueError(f"must not be {lane!r}, {_NOT_LIVE[lane]}")
    return lane


Lane = Annotated[Label, AfterValidator(_refuse_offline_lane)]


def _make_rate_optional(schema: dict[str, Any]) -> None:
    schema["required"] = [name for name in schema["required"] if name != "rate"]


class SamplingRule(Section):
    """A separate sampling rate for some of the interactions."""

    model_config = ConfigDict(json_schema_extra=_make_rate_optional)

    name: Label = Field(description="Rule name, published with every evaluation.")
    match: RuleMatch = Field(description="Interactions to which the rule applies.")
    rate: FiniteFloat | None = Field(
        ge=0, le=1, description="Share of them to judge; 0 filters them out. Alternative: target_per_minute."
    )
    target_per_minute: FiniteFloat | None = Field(
        default=None,
        gt=0,
        le=1e9,
        description="Target number of judged interactions per minute; the rate adapts to the traffic.",
    )
    min_rate: FiniteFloat | None = Field(
        default=None, ge=LOWEST_RATE, le=1, description="Lowest adaptive rate; null: 0.001."
    )
    max_rate: FiniteFloat | None = Field(
        default=None, ge=LOWEST_RATE, le=1, description="Highest adaptive rate; null: 1."
    )
    max_per_minute: int | None = Field(
        default=None,
        ge=1,
        le=10**9,
        description="Maximum number judged per minute; the rest is dropped (outcome `shed`).",
    )
    lane: Lane = Field(default="main", description="Lane (a label) under which evaluations of this rule are counted.")

    _target_before = model_validator(mode="before")(_drop_default_rate)
    _one_of_both = field_validator("target_per_minute")(_require_rate_or_target)
    _with_target = field_validator("min_rate", "max_rate")(_require_target)
    _with_steps = field_validator("max_rate")(_check_steps)

    @field_validator("name")
    @classmethod
    def _refuse_reserved(cls, value: str) -> str:
        if value in _RESERVED:
            raise ValueError(f"must not be {value!r}, {_RESERVED[value]}")
        return value


class SafetyConfig(Section):
    """A separate rate for interactions with signs of trouble; interactions filtered out by a rule are not checked."""

    rate: Rate = Field(default=1.0, description="Share of them to judge, if higher than the rate of their rule.")
    lane: Lane = Field(default="safety", description="Lane (a label) under which their evaluations are counted.")
    triggers: tuple[Literal["lexicon", "thumbs_down", "refusal", "empty_contexts"], ...] = Field(
        default=("lexicon", "thumbs_down", "refusal", "empty_contexts"),
        min_length=1,
        max_length=4,
        description="Triggers: words in question or answer, negative user feedback, a refusal, an empty list of "
        "contexts.",
    )
    words: tuple[Annotated[str, Field(min_length=1, max_length=100), AfterValidator(_check_word)], ...] = Field(
        default=(),
        max_length=10_000,
        description="Additional words and phrases for the lexicon, in any case; `word*` matches every word that "
        "starts with it.",
        examples=[["acme*", "class action"]],
    )
    thumbs_down: Mapping[FieldPath, Condition] = Field(
        default={},
        description="Dotted paths of user feedback; one negative is enough; empty: the tags feedback, thumbs and "
        "rating.",
        examples=[{"feedback.stars": {"max": 2}}],
    )

    @field_validator("triggers")
    @classmethod
    def _refuse_duplicates(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        refuse_repeats("must name each trigger once", value)
        return value

    @field_validator("words", "thumbs_down")
    @classmethod
    def _require_trigger(cls, value: Any, info: ValidationInfo) -> Any:
        trigger = {"words": "lexicon"}.get(str(info.field_name), str(info.field_name))
        if value and trigger not in info.data.get("triggers", (trigger,)):
            raise ValueError(f"requires {trigger} among the triggers")
        return value


class SamplingConfig(Section):
    """Which interactions are judged. The choice depends only on the interaction's id, the salt and the rate."""

    rate: FiniteFloat | None = Field(
        default=0.1,
        ge=0,
        le=1,
        description="Share of interactions to judge if no rule matches. Alternative: target_per_minute.",
    )
    target_per_minute: FiniteFloat | None = Field(
        default=None,
        gt=0,
        le=1e9,
        description="Target number of them judged per minute; the rate adapts to the traffic.",
    )
    min_rate: FiniteFloat | None = Field(
        default=None, ge=LOWEST_RATE, le=1, description="Lowest adaptive rate; null: 0.001."
    )
    max_rate: FiniteFloat | None = Field(
        default=None, ge=LOWEST_RATE, le=1, description="Highest adaptive rate; null: 1."
    )
    max_per_minute: int | None = Field(
        default=None,
        ge=1,
        le=10**9,
        description="Maximum number of them judged per minute; the rest is dropped (`shed`).",
    )
    min_probability: FiniteFloat | None = Field(
        default=None,
        ge=MIN_PROBABILITY,
        le=1,
        description="Lowest probability a record may claim; null: the lowest rate, at most 0.001.",
    )
    salt: str = Field(
        default=DEFAULT_SALT,
        min_length=1,
        max_length=200,
        description="Determines which ids are chosen: keep it unchanged, and secret from anyone who can choose ids.",
    )
    id: Literal["key", "body"] = Field(
        default="key",
        description="Value that the choice is based on: the record's key (if missing, as `body`), or `id` in the body.",
    )
    safety: SafetyConfig | None = Field(
        default=None, description="Separate sampling rate for interactions with signs of trouble; null: none."
    )
    step_log: str | None = Field(
        default=None,
        min_length=1,
        max_length=4096,
        description="File that logs the steps of adaptive rates, for this process only; a restart resumes from the "
        "last step.",
    )
    replay_steps: str | None = Field(
        default=None,
        min_length=1,
        max_length=4096,
        description="A step log to replay by record time, instead of adapting to the traffic.",
    )
    rules: tuple[SamplingRule, ...] = Field(
        default=(),
        max_length=1000,
        description="Rates for parts of the traffic; the first matching rule applies.",
        examples=[
            [
                {"name": "checkout", "match": {"app": "shop", "tenant": ["acme", "globex"]}, "rate": 0.5},
                {"name": "slow", "match": {"body": {"timing.total_ms": {"min": 5000}}}, "target_per_minute": 60},
                {"name": "tests", "match": {"headers": {"x-synthetic": {"exists": True}}}, "rate": 0},
            ]
        ],
    )

    _target_before = model_validator(mode="before")(_drop_default_rate)
    _one_of_both = field_validator("target_per_minute")(_require_rate_or_target)
    _with_target = field_validator("min_rate", "max_rate")(_require_target)
    _with_steps = field_validator("max_rate")(_check_steps)

    @field_validator("salt")
    @classmethod
    def _refuse_mask(cls, value: str) -> str:
        if value == MASK:
            raise ValueError("must be the salt itself, not the *** that `streamjury config show` prints for it")
        return value

    @property
    def lowest_rate(self) -> float:
        return lowest_rate([self, *self.rules])

    @property
    def highest_rate(self) -> float:
        """The rate below which the draw of a record must be, for a sampler of this configuration to choose it.

        It is 1 with a target: a rate that follows the traffic needs to see all of it.
        """
        parts: list[SamplingConfig | SamplingRule] = [self, *self.rules]
        if any(part.rate is None for part in parts):
            return 1.0
        return max([*(part.rate or 0.0 for part in parts), self.safety.rate if self.safety is not None else 0.0])

    @property
    def least_probability(self) -> float:
        """The lowest probability of a record that a sampler of this configuration can choose.

        Usual rates are above it, so records that were chosen before a rate was raised are still accepted.
        """
        if self.min_probability is not None:
            return self.min_probability
        return max(MIN_PROBABILITY, min(DEFAULT_MIN_RATE, self.lowest_rate or DEFAULT_MIN_RATE))

    @field_validator("rules")
    @classmethod
    def _refuse_same_names(cls, value: tuple[SamplingRule, ...]) -> tuple[SamplingRule, ...]:
        refuse_repeats("rules must have different names", (rule.name for rule in value))
        return value

    @field_validator("replay_steps")
    @classmethod
    def _refuse_with_log(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and info.data.get("step_log") is not None:
            raise ValueError("cannot be used together with step_log; remove one of them")
        return value

    _can_be_replayed = field_validator("replay_steps")(check_by_loader("sampling.replay_steps"))


def lowest_rate(parts: Iterable[SamplingConfig | SamplingRule]) -> float:
    """Return the lowest rate above 0; 0 if there is none."""
    rates = [(part.min_rate or DEFAULT_MIN_RATE) if part.rate is None else part.rate for part in parts]
    return min(filter(None, rates), default=0.0)
