"""The sections `kafka` and `topics`: the cluster and the names of the topics."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    Field,
    FieldSerializationInfo,
    FiniteFloat,
    ValidationInfo,
    field_serializer,
    field_validator,
)

from stream.config.patterns import OPTION, TOPIC
from stream.config.section import (
    MASK,
    Section,
    check_by_loader,
)

_SECRET_NAME = re.compile(r"password|secret|key|token|jaas", re.IGNORECASE)


# The client's largest. It also limits what a batch in zstd may unpack to: beyond its default of 100 MB the client would
# read the same batch again and again.
_MAX_RECEIVED_BYTES = 2**31 - 1


_BROKER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:(?P<port>[0-9]{1,5}))?")


_PROGRAM_SETS: Mapping[str, str] = {
    "auto.offset.reset": "a group without offsets always starts at the earliest record",
    "bootstrap.servers": "use kafka.bootstrap",
    "client.id": "it is derived from the stage's group and instance",
    "enable.auto.commit": "offsets are committed with the results; use worker.commit_seconds",
    "enable.idempotence": "it is always on",
    "group.id": "use sampler.group, worker.group or monitor.group",
    "group.instance.id": "use sampler.instance or worker.instance",
    "isolation.level": "only committed records are read",
    "heartbeat.interval.ms": "the stages' guarantees depend on how soon a dead process is detected",
    "message.max.bytes": "set max.message.bytes of the topic instead",
    "message.timeout.ms": "records are never given up after a timeout",
    "metadata.broker.list": "use kafka.bootstrap",
    "partition.assignment.strategy": "assignment is always cooperative",
    "session.timeout.ms": "the stages' guarantees depend on how soon a dead process is detected",
    "transaction.timeout.ms": "the stages' guarantees depend on how long an orphaned transaction can hide results",
    "transactional.id": "it is derived from sampler.group and sampler.instance, worker.group and worker.instance",
}


def is_secret(option: str) -> bool:
    """Return whether the value of a librdkafka option must not be shown."""
    return _SECRET_NAME.search(option) is not None


def _refuse_managed_option(option: str) -> str:
    if option in _PROGRAM_SETS:
        raise ValueError(f"is set by the program: {_PROGRAM_SETS[option]}")
    return option


TopicName = Annotated[str, Field(pattern=TOPIC)]


OptionName = Annotated[str, Field(pattern=OPTION), AfterValidator(_refuse_managed_option)]


OptionValue = bool | Annotated[int, Field(ge=-(2**63), le=2**63 - 1)] | FiniteFloat | str


class KafkaOptions(Mapping[str, OptionValue]):
    """librdkafka options whose repr masks secrets, to keep them out of logs; the values are in clear."""

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
        return repr(self.mask_secrets())

    def mask_secrets(self) -> dict[str, OptionValue]:
        return {name: MASK if is_secret(name) else value for name, value in self.items()}


def _options(values: Mapping[str, OptionValue]) -> KafkaOptions:
    # YAML would read an unquoted password 1e5 as a number, and the broker would refuse 100000.0.
    for name, value in values.items():
        if is_secret(name) and not isinstance(value, str):
            raise ValueError(f"the value of {name!r} must be a string; put it in quotes")
    return KafkaOptions(values)


class KafkaConfig(Section):
    """The Kafka cluster."""

    bootstrap: str = Field(
        default="localhost:9092",
        min_length=1,
        max_length=4096,
        description="Bootstrap brokers as host:port, comma-separated.",
    )
    options: Annotated[Mapping[OptionName, OptionValue], AfterValidator(_options)] = Field(
        default={},
        description="Additional librdkafka options, such as security.protocol; passwords and keys are never shown.",
        examples=[
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": "streamjury",
                "sasl.password": "${KAFKA_PASSWORD}",
            }
        ],
    )

    _taken_by_client = field_validator("options")(check_by_loader("kafka.options"))

    def client_options(self) -> dict[str, OptionValue]:
        """Return the options of every librdkafka client, with secrets in clear: never log them."""
        return {"receive.message.max.bytes": _MAX_RECEIVED_BYTES, **self.options, "bootstrap.servers": self.bootstrap}

    @field_validator("bootstrap")
    @classmethod
    def _check_brokers(cls, value: str) -> str:
        brokers = [broker.strip() for broker in value.split(",")]
        for broker in brokers:
            if "://" in broker:
                raise ValueError("must be host:port without a protocol; see security.protocol in kafka.options")
            match = _BROKER.fullmatch(broker)
            if match is None or not 0 < int(match["port"] or 9092) < 65536:
                raise ValueError("must be host:port, several separated by commas")
        return ",".join(brokers)

    @field_serializer("options")
    def _hide_secrets(self, value: Mapping[str, OptionValue], info: FieldSerializationInfo) -> Any:
        options = KafkaOptions(value)
        return options.mask_secrets() if info.mode_is_json() else options


class TopicsConfig(Section):
    """Topic names, and their settings for `streamjury topics create`."""

    interactions: TopicName = Field(default="rag.interactions", description="Interactions logged by the RAG service.")
    sampled: TopicName = Field(default="rag.sampled", description="Interactions selected for judging.")
    retry: TopicName = Field(
        default="rag.retry",
        max_length=240,
        description="Prefix of the retry topics: rag.retry.1 and so on, one for each delay.",
    )
    overflow: TopicName = Field(
        default="rag.overflow", description="Queue for records of apps that exceed their fair share of the workers."
    )
    evaluations: TopicName = Field(default="rag.evaluations", description="Finished evaluations.")
    critical: TopicName = Field(default="rag.critical", description="Safety failures, published immediately.")
    deadletter: TopicName = Field(default="rag.deadletter", description="Records that could not be processed.")
    scores: TopicName = Field(
        default="rag.scores", description="Scores for the detectors, all of an app in one partition."
    )
    detection: TopicName = Field(default="rag.detection", description="State of the detectors for every app.")
    alerts: TopicName = Field(default="rag.alerts", description="Alerts about the quality of a series.")
    labels: TopicName = Field(default="rag.labels", description="Human verdicts, to calibrate judges with.")
    spans: TopicName = Field(default="rag.spans", description="OpenTelemetry spans by trace id.")
    traces: TopicName = Field(default="rag.traces", description="Outcome of every trace that the assembler finished.")
    partitions: int = Field(
        default=6, ge=1, le=10_000, description="Partitions per topic: the maximum number of workers."
    )
    replication: int = Field(
        default=1, ge=1, le=16, description="Replicas of each partition; 3 is usual in production."
    )
    retention_hours: int = Field(default=168, ge=1, le=87_600, description="Retention in hours.")

    def retry_topics(self, count: int) -> tuple[str, ...]:
        """Return the topics for `count` delays, in their order."""
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
        "spans",
        "traces",
    )
    @classmethod
    def _check_topic_name(cls, value: str, info: ValidationInfo) -> str:
        if value in {".", ".."}:
            raise ValueError("must not be '.' or '..'")
        for other, name in info.data.items():
            # Brokers refuse names that differ in '.' and '_' only: their metrics would be the same.
            if isinstance(name, str) and name.replace(".", "_") == value.replace(".", "_"):
                raise ValueError(f"must differ from topics.{other}, in more than '.' and '_'")
            if other == "retry" and isinstance(name, str) and value.startswith(f"{name}."):
                raise ValueError("must not start with the prefix of the retry topics, topics.retry")
        return value
