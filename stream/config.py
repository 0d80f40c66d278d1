"""The configuration as one typed model: the single source of defaults, validation, schema, starter file and docs."""

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    FieldSerializationInfo,
    FiniteFloat,
    SecretStr,
    Tag,
    ValidationInfo,
    WithJsonSchema,
    field_serializer,
    field_validator,
    model_validator,
)

from judges.criteria import SAFETY_DIMENSION
from judges.interaction import Interaction
from judges.problems import InconsistentError, unknown
from stream.budgetsconfig import BudgetsConfig
from stream.configwalk import shape_of
from stream.detectionconfig import DetectionConfig
from stream.judgesconfig import JudgesConfig
from stream.names import BACKFILL, CANARY
from stream.observability import AlertsConfig, MetricsConfig, ObjectivesConfig, TelemetryConfig
from stream.patterns import HOST, IDENTIFIER, OPTION, TOPIC
from stream.rate_scale import DEFAULT_MIN_RATE, LOWEST_RATE, steps_within
from stream.section import (
    MASK,
    CriterionName,
    Label,
    Rate,
    Section,
    checked_by_loader,
    no_truth,
    problems_found_by_loader,
    refuse_repeats,
)

# The group coordinator takes a partition away from a worker that needs longer than this to let go of it.
REBALANCE_TIMEOUT_SECONDS = 60


_SECRET_NAME = re.compile(r"password|secret|key|token|jaas", re.IGNORECASE)
_BROKER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:(?P<port>[0-9]{1,5}))?")

_PROGRAM_SETS: Mapping[str, str] = {
    "auto.offset.reset": "a group without offsets always begins at the earliest record",
    "bootstrap.servers": "use kafka.bootstrap",
    "client.id": "it follows from the stage's group and instance",
    "enable.auto.commit": "offsets travel with the results; use worker.commit_seconds",
    "enable.idempotence": "it is always on",
    "group.id": "use sampler.group, worker.group or monitor.group",
    "group.instance.id": "use sampler.instance or worker.instance",
    "isolation.level": "only committed records are read",
    "heartbeat.interval.ms": "how soon a dead process is noticed is part of the stages' guarantees",
    "message.max.bytes": "what a topic takes is the topic's own max.message.bytes",
    "message.timeout.ms": "no record is given up after a time",
    "metadata.broker.list": "use kafka.bootstrap",
    "partition.assignment.strategy": "assignment is always cooperative",
    "session.timeout.ms": "how soon a dead process is noticed is part of the stages' guarantees",
    "transaction.timeout.ms": "how long an orphaned transaction hides results is part of the stages' guarantees",
    "transactional.id": "it follows from sampler.group and sampler.instance, worker.group and worker.instance",
}


def is_secret(option: str) -> bool:
    """Whether the value of a librdkafka option must not be shown."""
    return _SECRET_NAME.search(option) is not None


# The model's own types


def _known_field(name: str) -> str:
    if name not in Interaction.model_fields:
        raise ValueError(unknown("field of an interaction", name, Interaction.model_fields))
    return name


def _not_the_programs(option: str) -> str:
    if option in _PROGRAM_SETS:
        raise ValueError(f"the program sets this itself: {_PROGRAM_SETS[option]}")
    return option


def _dotted(path: str) -> str:
    if not all(path.split(".")):
        raise ValueError("must be a path of names joined by dots, such as request.text")
    return path


def _regex(pattern: str) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what may be read differently one day is read as it is today
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"is no regular expression: {error}") from None
    return pattern


def _a_word(word: str) -> str:
    if not re.match(r"[^\W_]", word):
        raise ValueError("must begin with a letter or digit")
    return word


def _below_the_best(threshold: float) -> float:
    if threshold >= 1.0:
        raise ValueError("must be below 1, because no score is above that")
    return threshold


Threshold = Annotated[Rate, Field(json_schema_extra={"exclusiveMaximum": 1}), AfterValidator(_below_the_best)]
TopicName = Annotated[str, Field(pattern=TOPIC)]
Identifier = Annotated[str, Field(pattern=IDENTIFIER)]
HostName = Annotated[str, Field(pattern=HOST)]
Weight = Annotated[FiniteFloat, Field(ge=0.0, le=1000.0), BeforeValidator(no_truth)]
MatchText = Annotated[str, Field(min_length=1, max_length=1024)]
MatchValue = bool | Annotated[int, Field(ge=-(2**63), le=2**63 - 1)] | FiniteFloat | MatchText
TagName = Annotated[str, Field(min_length=1, max_length=128)]
HeaderName = Annotated[str, Field(min_length=1, max_length=256)]
FieldPath = Annotated[str, Field(min_length=1, max_length=512), AfterValidator(_dotted)]
FieldName = Annotated[
    str, AfterValidator(_known_field), WithJsonSchema({"type": "string", "enum": list(Interaction.model_fields)})
]
OptionName = Annotated[str, Field(pattern=OPTION), AfterValidator(_not_the_programs)]
OptionValue = bool | Annotated[int, Field(ge=-(2**63), le=2**63 - 1)] | FiniteFloat | str


class KafkaOptions(Mapping[str, OptionValue]):
    """librdkafka options that keep their secrets out of logs: the values are the real ones, the repr is not."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, OptionValue]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> OptionValue:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return repr(self.masked())

    def masked(self) -> dict[str, OptionValue]:
        return {name: MASK if is_secret(name) else value for name, value in self.items()}


def _options(values: Mapping[str, OptionValue]) -> KafkaOptions:
    # YAML would read an unquoted password 1e5 as a number, and the broker would refuse 100000.0.
    for name, value in values.items():
        if is_secret(name) and not isinstance(value, str):
            raise ValueError(f"the value of {name!r} must be text; put it in quotes")
    return KafkaOptions(values)


# The sections


class KafkaConfig(Section):
    """The Kafka cluster."""

    bootstrap: str = Field(
        default="localhost:9092",
        min_length=1,
        max_length=4096,
        description="Brokers to begin with, as host:port, several joined by commas.",
    )
    options: Annotated[Mapping[OptionName, OptionValue], AfterValidator(_options)] = Field(
        default={},
        description="Further librdkafka options, such as security.protocol; passwords and keys are never shown.",
        examples=[
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": "streamjury",
                "sasl.password": "${KAFKA_PASSWORD}",
            }
        ],
    )

    def client_options(self) -> dict[str, OptionValue]:
        """What every librdkafka client of ours is given, secrets in clear: never to be logged."""
        return {**self.options, "bootstrap.servers": self.bootstrap}

    @field_validator("bootstrap")
    @classmethod
    def _brokers(cls, value: str) -> str:
        brokers = [broker.strip() for broker in value.split(",")]
        for broker in brokers:
            if "://" in broker:
                raise ValueError("must be host:port without a protocol; see security.protocol in kafka.options")
            match = _BROKER.fullmatch(broker)
            if match is None or not 0 < int(match["port"] or 9092) < 65536:
                raise ValueError("must be host:port, several joined by commas")
        return ",".join(brokers)

    @field_serializer("options")
    def _without_secrets(self, value: Mapping[str, OptionValue], info: FieldSerializationInfo) -> Any:
        options = KafkaOptions(value)
        return options.masked() if info.mode_is_json() else options


class TopicsConfig(Section):
    """The topics, and how `streamjury topics create` makes them."""

    interactions: TopicName = Field(default="rag.interactions", description="Where the RAG service logs to.")
    sampled: TopicName = Field(default="rag.sampled", description="Interactions chosen for judging.")
    retry: TopicName = Field(
        default="rag.retry",
        max_length=240,
        description="Where records wait to be judged again: rag.retry.1 and so on, for each waiting time.",
    )
    overflow: TopicName = Field(
        default="rag.overflow", description="Where records wait of an app that has more than its share of the workers."
    )
    evaluations: TopicName = Field(default="rag.evaluations", description="Finished evaluations.")
    critical: TopicName = Field(default="rag.critical", description="Safety failures, as soon as they are known.")
    deadletter: TopicName = Field(default="rag.deadletter", description="Records that could not be processed.")
    scores: TopicName = Field(
        default="rag.scores", description="What the detectors need of evaluations, all of an app in one partition."
    )
    detection: TopicName = Field(default="rag.detection", description="What the detectors know of every app.")
    alerts: TopicName = Field(default="rag.alerts", description="Alerts about the quality of a series.")
    labels: TopicName = Field(default="rag.labels", description="Verdicts of people, to calibrate judges with.")
    partitions: int = Field(default=6, ge=1, le=10_000, description="Partitions of a topic: the most workers it feeds.")
    replication: int = Field(default=1, ge=1, le=16, description="Copies of each partition; 3 is usual in production.")
    retention_hours: int = Field(default=168, ge=1, le=87_600, description="How long records are kept, in hours.")

    def retry_topics(self, count: int) -> tuple[str, ...]:
        """The topics of `count` waiting times, the first first."""
        return tuple(f"{self.retry}.{number}" for number in range(1, count + 1))

    @field_validator(
        "interactions",
        "sampled",
        "retry",
        "overflow",
        "evaluations",
        "critical",
        "deadletter",
        "scores",
        "detection",
        "alerts",
        "labels",
    )
    @classmethod
    def _own_name(cls, value: str, info: ValidationInfo) -> str:
        if value in {".", ".."}:
            raise ValueError("must not be '.' or '..'")
        for other, name in info.data.items():
            # Brokers refuse names that differ in '.' and '_' only: their metrics would be the same.
            if isinstance(name, str) and name.replace(".", "_") == value.replace(".", "_"):
                raise ValueError(f"must differ from topics.{other}, and in more than '.' and '_'")
            if other == "retry" and isinstance(name, str) and value.startswith(f"{name}."):
                raise ValueError("must not begin as the topics of topics.retry do")
        return value


class LimitsConfig(Section):
    """How much of a record is read; a record past `record_bytes` or `nesting` goes to the dead letters."""

    record_bytes: int = Field(default=1_048_576, ge=1, le=104_857_600, description="Largest record, in bytes.")
    contexts: int = Field(default=64, ge=1, le=10_000, description="Contexts read of one interaction.")
    nesting: int = Field(default=32, ge=1, le=256, description="Levels of nesting in a record's JSON.")
    text_chars: int = Field(
        default=65_536, ge=1, le=10_000_000, description="Characters read of the question, the answer and each turn."
    )
    context_chars: int = Field(default=16_384, ge=1, le=10_000_000, description="Characters read of each context.")


class InputConfig(Section):
    """The shape of the records that the RAG service logs."""

    adapter: Literal["streamjury", "mapping", "csv"] = Field(
        default="streamjury",
        description="How records are read: in Streamjury's own shape, as `mapping` says, or as table rows.",
    )
    mapping: Mapping[FieldName, FieldPath] = Field(
        default={},
        description="For the adapter `mapping`: field of the interaction to dotted path in the record.",
        examples=[
            {
                "id": "request.id",
                "question": "request.text",
                "answer": "response.text",
                "contexts": "retrieval.documents",
            }
        ],
    )
    limits: LimitsConfig = Field(default_factory=LimitsConfig, description="How much of a record is read.")

    @field_validator("mapping")
    @classmethod
    def _fits_adapter(cls, value: Mapping[str, str], info: ValidationInfo) -> Mapping[str, str]:
        adapter = info.data.get("adapter")
        if adapter not in {"mapping", None} and value:
            raise ValueError("is only read with 'adapter: mapping'")
        missing = [name for name in ("id", "question", "answer") if name not in value]
        if adapter == "mapping" and missing:
            raise ValueError(f"must say where to find {', '.join(missing)}")
        return value


# What may stand in a rule beside a name: a value, a list of them, or a section that says more.
_Texts = Annotated[tuple[MatchText, ...], Field(min_length=1, max_length=10_000)]
_Values = Annotated[tuple[MatchValue, ...], Field(min_length=1, max_length=10_000)]


class TextConditionConfig(Section):
    """What is asked of a text where no list of texts does: a pattern, or whether there is one."""

    regex: Annotated[str, Field(min_length=1, max_length=1000), AfterValidator(_regex)] | None = Field(
        default=None,
        description="A regular expression that is found somewhere in the text; `^` and `$` bind it to the ends.",
    )
    exists: bool | None = Field(default=None, description="Whether there must be a value, or must be none (or a null).")

    @model_validator(mode="after")
    def _says_one_thing(self) -> Self:
        if (self.regex is None) == (self.exists is None):
            raise ValueError("must have one of regex and exists")
        return self


class ConditionConfig(TextConditionConfig):
    """What is asked of a value where no list of values does: a pattern, a range, or whether there is one."""

    min: FiniteFloat | None = Field(default=None, ge=-1e300, le=1e300, description="The lowest number that matches.")
    max: FiniteFloat | None = Field(default=None, ge=-1e300, le=1e300, description="The highest number that matches.")

    @field_validator("max")
    @classmethod
    def _not_below_min(cls, value: float | None, info: ValidationInfo) -> float | None:
        low = info.data.get("min")
        if value is not None and low is not None and value < low:
            raise ValueError(f"must be at least min ({low:g})")
        return value

    @model_validator(mode="after")
    def _says_one_thing(self) -> Self:
        said = [self.regex is not None, self.min is not None or self.max is not None, self.exists is not None]
        if sum(said) != 1:
            raise ValueError("must have one of regex, exists, and min or max or both")
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
    """Which interactions a rule is for: those that meet every condition."""

    app: TextCondition | None = Field(default=None, description="Condition on `app`.")
    tenant: TextCondition | None = Field(default=None, description="Condition on `tenant`.")
    model: TextCondition | None = Field(default=None, description="Condition on `model`.")
    tags: Mapping[TagName, Condition] = Field(default={}, description="Conditions on tags.")
    headers: Mapping[HeaderName, Condition] = Field(
        default={}, description="Conditions on headers of the record, read as text; these need no reading of its value."
    )
    body: Mapping[FieldPath, Condition] = Field(
        default={}, description="Conditions on values in the record, by dotted path; numbers are positions in lists."
    )

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not any((self.app, self.tenant, self.model, self.tags, self.headers, self.body)):
            raise ValueError("must have a condition on app, tenant, model, tags, headers or body")
        return self


def _target_stands_for_rate(data: Any) -> Any:
    """A target takes the place of the rate that was left out."""
    if isinstance(data, Mapping) and data.get("target_per_minute") not in (None, "") and "rate" not in data:
        return {**data, "rate": None}
    return data


def _one_of_rate_and_target(target: float | None, info: ValidationInfo) -> float | None:
    if target is not None and info.data.get("rate") is not None:
        raise ValueError("takes the place of rate; leave one of them out")
    if target is None and info.data.get("rate", 0.0) is None:
        raise ValueError("is required where there is no rate")
    return target


def _of_a_target(bound: float | None, info: ValidationInfo) -> float | None:
    if bound is not None and info.data.get("target_per_minute", 1.0) is None:
        raise ValueError("is only read with target_per_minute")
    return bound


def _leaves_a_step(high: float | None, info: ValidationInfo) -> float | None:
    low = info.data.get("min_rate")
    low, top = DEFAULT_MIN_RATE if low is None else low, 1.0 if high is None else high
    if top < low:
        raise ValueError(f"must be at least min_rate ({low:g})")
    if not steps_within(low, top):
        raise ValueError(f"must leave one of the rates 1, 0.84, 0.71, 0.59, 0.5 and so on above min_rate ({low:g})")
    return high


_RESERVED: Mapping[str, str] = {
    "default": "the name of what no rule matches",
    "safety": "the name of the safety lane's own rule",
    "direct": "the name for records that nobody sampled",
    "none": "the name for records that could not be decided about",
    BACKFILL: "the name for history that is judged after the fact",
    CANARY: "the name for records that show whether the judges have changed",
}

_NOT_LIVE: Mapping[str, str] = {
    BACKFILL: "the lane of history that is judged after the fact",
    CANARY: "the lane of records that show whether the judges have changed",
}


def _live(lane: str) -> str:
    """What the monitor leaves out must not be taken by live traffic."""
    if lane in _NOT_LIVE:
        raise ValueError(f"must not be {lane!r}, {_NOT_LIVE[lane]}")
    return lane


Lane = Annotated[Label, AfterValidator(_live)]


def _without_rate_required(schema: dict[str, Any]) -> None:
    schema["required"] = [name for name in schema["required"] if name != "rate"]


class SamplingRule(Section):
    """A sampling rate of its own for some of the interactions."""

    model_config = ConfigDict(json_schema_extra=_without_rate_required)

    name: Label = Field(description="The rule's name, published with every evaluation.")
    match: RuleMatch = Field(description="Which interactions the rule is for.")
    rate: FiniteFloat | None = Field(
        ge=0, le=1, description="Share of them to judge; 0 filters them out. Or else target_per_minute."
    )
    target_per_minute: FiniteFloat | None = Field(
        default=None,
        gt=0,
        le=1e9,
        description="Judge about so many a minute; the rate follows the traffic.",
    )
    min_rate: FiniteFloat | None = Field(
        default=None, ge=LOWEST_RATE, le=1, description="Lowest rate for the target; null: 0.001."
    )
    max_rate: FiniteFloat | None = Field(
        default=None, ge=LOWEST_RATE, le=1, description="Highest rate for the target; null: 1."
    )
    max_per_minute: int | None = Field(
        default=None, ge=1, le=10**9, description="Judge no more than so many a minute; the others are shed."
    )
    lane: Lane = Field(default="main", description="The lane that evaluations of this rule are counted under.")

    _target_before = model_validator(mode="before")(_target_stands_for_rate)
    _one_of_both = field_validator("target_per_minute")(_one_of_rate_and_target)
    _with_target = field_validator("min_rate", "max_rate")(_of_a_target)
    _with_steps = field_validator("max_rate")(_leaves_a_step)

    @field_validator("name")
    @classmethod
    def _not_reserved(cls, value: str) -> str:
        if value in _RESERVED:
            raise ValueError(f"must not be {value!r}, {_RESERVED[value]}")
        return value


class SafetyConfig(Section):
    """A rate of its own for interactions with a sign of trouble; what a rule filters out is not looked at."""

    rate: Rate = Field(default=1.0, description="Share of them to judge, where it is higher than their rule's.")
    lane: Lane = Field(default="safety", description="The lane that their evaluations are counted under.")
    triggers: tuple[Literal["lexicon", "thumbs_down", "refusal", "empty_contexts"], ...] = Field(
        default=("lexicon", "thumbs_down", "refusal", "empty_contexts"),
        min_length=1,
        max_length=4,
        description="The signs: words in question or answer, the user's verdict, a refusal, an empty list of contexts.",
    )
    words: tuple[Annotated[str, Field(min_length=1, max_length=100), AfterValidator(_a_word)], ...] = Field(
        default=(),
        max_length=10_000,
        description="Words and phrases of your own for the lexicon, in any case; `word*` stands for all that begin so.",
        examples=[["acme*", "class action"]],
    )
    thumbs_down: Mapping[FieldPath, Condition] = Field(
        default={},
        description="Where users say no, by dotted path, one is enough; empty: the tags feedback, thumbs and rating.",
        examples=[{"feedback.stars": {"max": 2}}],
    )

    @field_validator("triggers")
    @classmethod
    def _each_once(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        refuse_repeats("must name each trigger once", value)
        return value

    @field_validator("words", "thumbs_down")
    @classmethod
    def _of_a_trigger(cls, value: Any, info: ValidationInfo) -> Any:
        trigger = {"words": "lexicon"}.get(str(info.field_name), str(info.field_name))
        if value and trigger not in info.data.get("triggers", (trigger,)):
            raise ValueError(f"is only read with {trigger} among the triggers")
        return value


class SamplingConfig(Section):
    """Which interactions are judged. The choice depends on an interaction's id, the salt and the rate alone."""

    rate: FiniteFloat | None = Field(
        default=0.1,
        ge=0,
        le=1,
        description="Share of interactions to judge where no rule matches. Or else target_per_minute.",
    )
    target_per_minute: FiniteFloat | None = Field(
        default=None,
        gt=0,
        le=1e9,
        description="Judge about so many of them a minute; the rate follows the traffic.",
    )
    min_rate: FiniteFloat | None = Field(
        default=None, ge=LOWEST_RATE, le=1, description="Lowest rate for the target; null: 0.001."
    )
    max_rate: FiniteFloat | None = Field(
        default=None, ge=LOWEST_RATE, le=1, description="Highest rate for the target; null: 1."
    )
    max_per_minute: int | None = Field(
        default=None, ge=1, le=10**9, description="Judge no more than so many of them a minute; the others are shed."
    )
    salt: str = Field(
        default="streamjury",
        min_length=1,
        max_length=200,
        description="Changes which ids are chosen; keep it, to keep choices the same.",
    )
    id: Literal["key", "body"] = Field(
        default="key", description="What the choice goes by: the record's key (without one, as `body`), or `id` in it."
    )
    safety: SafetyConfig | None = Field(
        default=None, description="A rate of its own for interactions with a sign of trouble; null: none."
    )
    step_log: str | None = Field(
        default=None,
        min_length=1,
        max_length=4096,
        description="File for the steps of adaptive rates, of this process alone; the last one goes on.",
    )
    replay_steps: str | None = Field(
        default=None,
        min_length=1,
        max_length=4096,
        description="Such a file, to repeat its steps by record time instead of following the traffic.",
    )
    rules: tuple[SamplingRule, ...] = Field(
        default=(),
        max_length=1000,
        description="Rates for parts of the traffic; the first rule that matches counts.",
        examples=[
            [
                {"name": "checkout", "match": {"app": "shop", "tenant": ["acme", "globex"]}, "rate": 0.5},
                {"name": "slow", "match": {"body": {"timing.total_ms": {"min": 5000}}}, "target_per_minute": 60},
                {"name": "tests", "match": {"headers": {"x-synthetic": {"exists": True}}}, "rate": 0},
            ]
        ],
    )

    _target_before = model_validator(mode="before")(_target_stands_for_rate)
    _one_of_both = field_validator("target_per_minute")(_one_of_rate_and_target)
    _with_target = field_validator("min_rate", "max_rate")(_of_a_target)
    _with_steps = field_validator("max_rate")(_leaves_a_step)

    @property
    def lowest_rate(self) -> float:
        return lowest_rate([self, *self.rules])

    @field_validator("rules")
    @classmethod
    def _different_names(cls, value: tuple[SamplingRule, ...]) -> tuple[SamplingRule, ...]:
        refuse_repeats("rules must have different names", (rule.name for rule in value))
        return value

    @field_validator("replay_steps")
    @classmethod
    def _instead_of_a_log(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and info.data.get("step_log") is not None:
            raise ValueError("takes the place of step_log; leave one of them out")
        return value

    _can_be_replayed = field_validator("replay_steps")(checked_by_loader("sampling.replay_steps"))


def lowest_rate(parts: Iterable[SamplingConfig | SamplingRule]) -> float:
    """The lowest share of interactions chosen anywhere but where none is meant to be; 0 where that is so."""
    rates = [(each.min_rate or DEFAULT_MIN_RATE) if each.rate is None else each.rate for each in parts]
    return min(filter(None, rates), default=0.0)


class CriteriaConfig(Section):
    """What is judged."""

    files: tuple[Annotated[str, Field(min_length=1, max_length=4096)], ...] = Field(
        default=(),
        max_length=64,
        description="Files with criteria of your own, looked for beside this file; see `streamjury criteria --help`.",
    )
    use: tuple[CriterionName, ...] = Field(
        default=("rag",),
        min_length=1,
        max_length=256,
        description="Catalogues (rag) and single criteria (safety.toxicity, or one of your files by its name).",
        examples=[["rag.answer_relevance", "rag.groundedness", "rag.harmfulness"]],
    )

    _have_criteria = field_validator("files")(checked_by_loader("criteria.files"))
    _name_criteria = field_validator("use")(checked_by_loader("criteria.use"))


class CompositeConfig(Section):
    """How the criteria become one score."""

    weights: Mapping[CriterionName, Weight] = Field(
        default={},
        description="Weight of a criterion in the composite; those not named weigh 1.",
        examples=[{"groundedness": 2.0, "conciseness": 0.5}],
    )
    required: tuple[CriterionName, ...] = Field(
        default=(),
        max_length=256,
        description="Criteria without which there is no composite, and which make it 0 where they are not met.",
        examples=[["groundedness"]],
    )
    thresholds: Mapping[CriterionName, Threshold] = Field(
        default={},
        description="Count a criterion as 1 above this score, and as 0 up to it.",
        examples=[{"clarity": 0.5}],
    )
    target_options: Mapping[CriterionName, Annotated[str, Field(min_length=1, max_length=256)]] = Field(
        default={},
        description="Count a criterion as 1 when this option won, and as 0 otherwise.",
        examples=[{"clarity": "very clear"}],
    )
    safety: CriterionName = Field(
        default=SAFETY_DIMENSION,
        description="The criterion whose worst verdict makes the composite 0, and without which there is none.",
    )
    safety_vote: Literal["majority", "any"] = Field(
        default="majority", description="Judges that must find an answer harmful: more than half, or any one."
    )

    @field_validator("required")
    @classmethod
    def _different_names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        refuse_repeats("must name each criterion once", value)
        return value


WaitSeconds = Annotated[FiniteFloat, Field(gt=0, le=86_400)]


class SamplerConfig(Section):
    """The stage that decides which interactions are judged."""

    group: Identifier = Field(default="streamjury-sampler", description="Consumer group of the samplers.")
    batch: int = Field(default=20_000, ge=1, le=100_000, description="Records decided in one transaction, at most.")
    instance: Identifier | None = Field(
        default=None, description="Fixed name of this process in the group, kept over restarts; null makes one up."
    )


class WorkerConfig(Section):
    """The stage that judges."""

    group: Identifier = Field(default="streamjury-worker", description="Consumer group of the workers.")
    instance: Identifier | None = Field(
        default=None, description="Fixed name of this process in the group, kept over restarts; null makes one up."
    )
    concurrency: int = Field(default=64, ge=1, le=4096, description="Records judged at once.")
    run_ahead: int = Field(
        default=256,
        ge=1,
        le=65_536,
        description="Records started and not yet committed: at most so many are judged again after a crash.",
    )
    deadline_seconds: FiniteFloat = Field(
        default=45.0,
        gt=0,
        json_schema_extra={"exclusiveMaximum": REBALANCE_TIMEOUT_SECONDS},
        description=f"Longest time for one record; below the rebalance timeout of {REBALANCE_TIMEOUT_SECONDS} seconds.",
    )
    drain_seconds: FiniteFloat = Field(
        default=8.0,
        ge=0,
        le=45,
        description="Time to finish what is in flight when partitions move or the worker stops.",
    )
    commit_seconds: FiniteFloat = Field(default=0.2, ge=0.01, le=10, description="Time between transactions.")
    retry_seconds: tuple[WaitSeconds, ...] = Field(
        default=(60.0, 300.0, 1800.0),
        max_length=10,
        description="Waits before a record is judged again whose judges failed; then it is a dead letter.",
    )
    repeat_seconds: FiniteFloat = Field(
        default=3600.0,
        ge=0,
        le=604_800,
        description="How long an interaction is not judged again after it was; 0 judges every record.",
    )
    fair: bool = Field(
        default=True, description="Keep an app with more records than its share from holding up the others."
    )
    stall_seconds: FiniteFloat = Field(
        default=300.0,
        ge=0,
        le=86_400,
        description="End the process when there is work and none was finished for so long; 0 never does.",
    )
    excerpt_chars: int = Field(
        default=160,
        ge=0,
        le=10_000,
        description="Characters of question and answer kept with an evaluation; 0 keeps none.",
    )

    @field_validator("stall_seconds")
    @classmethod
    def _above_the_deadline(cls, value: float, info: ValidationInfo) -> float:
        deadline = info.data.get("deadline_seconds", 0.0)
        if 0 < value <= deadline:
            raise ValueError(f"must be above worker.deadline_seconds ({deadline:g}), or 0")
        return value

    @field_validator("run_ahead")
    @classmethod
    def _not_below_concurrency(cls, value: int, info: ValidationInfo) -> int:
        concurrency = info.data.get("concurrency", 0)
        if value < concurrency:
            raise ValueError(f"must be at least worker.concurrency ({concurrency})")
        return value

    @field_validator("deadline_seconds")
    @classmethod
    def _below_rebalance(cls, value: float) -> float:
        if value >= REBALANCE_TIMEOUT_SECONDS:
            raise ValueError(
                f"must be below the rebalance timeout of {REBALANCE_TIMEOUT_SECONDS} seconds (a worker that is busy "
                "with a record for longer is put out of its group, and its work is done again)"
            )
        return value


class MonitorConfig(Section):
    """The stage that watches finished evaluations."""

    group: Identifier = Field(default="streamjury-monitor", description="Consumer group of the monitors.")
    window_minutes: int = Field(default=15, ge=1, le=1440, description="Minutes that the rolling means look back.")
    remember: int = Field(
        default=100_000, ge=1, le=10_000_000, description="Evaluation ids remembered, to recognise repeats."
    )
    worst: int = Field(default=5, ge=0, le=100, description="Worst recent answers to show.")
    stall_seconds: FiniteFloat = Field(
        default=300.0,
        ge=0,
        le=86_400,
        description="End the process when there are evaluations and none was read for so long; 0 never does.",
    )


class HttpConfig(Section):
    """Where /metrics, /healthz and /readyz are served."""

    host: HostName = Field(default="127.0.0.1", description="Address to listen on; 0.0.0.0 serves other machines too.")
    port: int = Field(default=9464, ge=0, le=65_535, description="Port to listen on; 0 takes any free one.")
    token: SecretStr | None = Field(
        default=None,
        min_length=1,
        description="Token that /metrics asks for (Authorization: Bearer …); write it as ${NAME}.",
    )
    certificate: str | None = Field(
        default=None, min_length=1, max_length=4096, description="File of the certificate to serve HTTPS with, as PEM."
    )
    key: str | None = Field(
        default=None, min_length=1, max_length=4096, description="File of the certificate's key, as PEM."
    )

    @model_validator(mode="before")
    @classmethod
    def _a_token_or_none(cls, data: Any) -> Any:
        """An empty one is a variable that was not set, and would open what it was to close."""
        if isinstance(data, Mapping) and data.get("token") == "":
            raise InconsistentError([(("token",), "must not be empty; leave the key out to ask for none")])
        return data

    @field_validator("key")
    @classmethod
    def _both_or_neither(cls, value: str | None, info: ValidationInfo) -> str | None:
        if "certificate" in info.data and (value is None) != (info.data["certificate"] is None):
            raise ValueError("http.certificate and http.key go together; give both or neither")
        return value


class LoggingConfig(Section):
    """What the program says while it runs."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The least important messages that are logged."
    )
    format: Literal["console", "json"] = Field(default="console", description="Lines for people, or JSON for machines.")


class Config(Section):
    """The configuration of Streamjury. Everything has a default."""

    kafka: KafkaConfig = Field(default_factory=KafkaConfig, description="The Kafka cluster.")
    topics: TopicsConfig = Field(default_factory=TopicsConfig, description="Topics and how they are made.")
    input: InputConfig = Field(default_factory=InputConfig, description="The shape of the records that are read.")
    sampling: SamplingConfig = Field(default_factory=SamplingConfig, description="Which interactions are judged.")
    criteria: CriteriaConfig = Field(default_factory=CriteriaConfig, description="What is judged.")
    # Before the judges, which need prices where there is one.
    budgets: BudgetsConfig = Field(default_factory=BudgetsConfig, description="What judging may cost.")
    judges: JudgesConfig = Field(default_factory=JudgesConfig, description="Who judges.")
    composite: CompositeConfig = Field(default_factory=CompositeConfig, description="How criteria become one score.")
    sampler: SamplerConfig = Field(default_factory=SamplerConfig, description="The stage that decides.")
    worker: WorkerConfig = Field(default_factory=WorkerConfig, description="The stage that judges.")
    monitor: MonitorConfig = Field(default_factory=MonitorConfig, description="The stage that watches.")
    objectives: ObjectivesConfig = Field(default_factory=ObjectivesConfig, description="How good answers have to be.")
    detection: DetectionConfig = Field(default_factory=DetectionConfig, description="When quality has surely dropped.")
    alerts: AlertsConfig = Field(default_factory=AlertsConfig, description="When somebody is called.")
    metrics: MetricsConfig = Field(default_factory=MetricsConfig, description="What scores are told apart by.")
    telemetry: TelemetryConfig = Field(default_factory=TelemetryConfig, description="OpenTelemetry.")
    http: HttpConfig = Field(default_factory=HttpConfig, description="Where metrics and health are served.")
    logging: LoggingConfig = Field(default_factory=LoggingConfig, description="What the program says.")

    @property
    def retry_topics(self) -> tuple[str, ...]:
        """Where records wait to be judged again, by how often they have been already."""
        return self.topics.retry_topics(len(self.worker.retry_seconds))

    @field_validator("judges")
    @classmethod
    def _for_what_is_judged(cls, value: JudgesConfig, info: ValidationInfo) -> JudgesConfig:
        problems, budgets = problems_found_by_loader("judges", value, info), info.data.get("budgets")
        if budgets is not None:
            problems += budgets.unpriced((loc, model.price is not None) for loc, model in value.asked_models())
        if problems:
            raise InconsistentError(problems)
        return value

    _composite_of_criteria = field_validator("composite")(checked_by_loader("composite"))
    _objectives_of_criteria = field_validator("objectives")(checked_by_loader("objectives"))
    _detection_of_criteria = field_validator("detection")(checked_by_loader("detection"))

    @field_validator("worker", "monitor")
    @classmethod
    def _own_group(cls, value: WorkerConfig | MonitorConfig, info: ValidationInfo) -> WorkerConfig | MonitorConfig:
        """Stages that shared a group would take each other's partitions away."""
        for name in ("sampler", "worker"):
            other = info.data.get(name)
            if other is not None and other.group == value.group:
                raise ValueError(f"group must differ from {name}.group")
        return value
