"""The list of all topics: the purpose of each, and the settings it is created with."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from stream.config.model import Config

_HOUR_MS = 3_600_000
# Services log larger records than we judge; dead letters keep them whole.
_LARGE_BYTES = 16 * 1024 * 1024
# Enough for the state of an app with many separately watched models and tenants, or of a thousand canaries.
STATE_BYTES = 4 * 1024 * 1024
"""The largest record on the topic of detector states."""
# Key, headers and framing around the largest judged record.
_ENVELOPE_BYTES = 256 * 1024


class Topic(NamedTuple):
    """The purpose of a topic."""

    holds: str
    key: str
    """The key of its records."""
    written_by: str
    read_by: str


_BY_ID = "interaction id"

TOPICS: Mapping[str, Topic] = {
    "otlp": Topic(
        "OpenTelemetry spans, with `input.otlp`",
        "trace id, or none",
        "your OpenTelemetry Collector",
        "assembler, `audit`",
    ),
    "spans": Topic(
        "OpenTelemetry spans by trace, if your Collector does not write them so",
        "trace id",
        "assembler, in transactions with its offsets",
        "assembler, `audit`",
    ),
    "traces": Topic(
        "outcome of every trace that the assembler finished",
        "trace id",
        "assembler, in transactions with the interactions",
        "assembler, when it starts or is assigned a partition; `audit`",
    ),
    "interactions": Topic(
        "all interactions",
        _BY_ID,
        "your RAG service, or the assembler; `send`, `traffic`, `replay`",
        "sampler, `audit`, `backfill`",
    ),
    "sampled": Topic(
        "interactions selected for judging: the same bytes, with the decision in headers",
        _BY_ID,
        "sampler, in transactions with its offsets; monitor, if there are canaries; `replay`",
        "workers, archivist, `audit`",
    ),
    "retry": Topic(
        "records whose judges could not be reached, until they are due",
        _BY_ID,
        "workers",
        "workers, `audit`",
    ),
    "overflow": Topic(
        "records of apps that exceed their fair share of the workers",
        _BY_ID,
        "workers",
        "workers, `audit`",
    ),
    "evaluations": Topic(
        "evaluations",
        "evaluation id",
        "workers, `backfill`",
        "monitor, archivist, `tail`, `alerts`, `audit`, your own consumers; workers, to skip duplicates",
    ),
    "critical": Topic(
        "safety notices",
        "evaluation id",
        "workers, as soon as a safety verdict is certain",
        "`tail`, on-call tooling",
    ),
    "deadletter": Topic(
        "records that could not be processed: the original bytes, with the reason in headers",
        "as the source record",
        "assembler, sampler, workers; monitor, for records it rejects on Streamjury's own topics",
        "`replay`, `audit`, `tail`",
    ),
    "scores": Topic(
        "scores of evaluations for the detectors, all of an app in one partition; and labels, in every partition",
        "app, or interaction id of a label",
        "monitor",
        "monitor",
    ),
    "detection": Topic(
        "detector state of each app, with the offsets it includes; latest answers and labels, in chunks",
        "app, or place of a chunk",
        "monitor, in transactions with the alerts",
        "monitor, when it starts or is assigned a partition",
    ),
    "alerts": Topic(
        "alerts about a series: raised, updated, cleared",
        "series and evaluator",
        "monitor, in transactions with the state they follow from",
        "archivist, `alerts`, on-call tooling; with `isolation.level=read_committed`, each alert appears once",
    ),
    "labels": Topic(
        "verdicts of people and their retractions",
        _BY_ID,
        "the page, when a person labels an answer; `labels send`; your own tools",
        "monitor, archivist, `labels`",
    ),
}
"""Every topic by its configuration key, in the order in which records pass it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    """The planned state of a topic."""

    name: str
    role: str
    """Its key in `TOPICS`; the retry topics share one."""
    partitions: int
    replication: int
    settings: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        settings = ", ".join(f"{name}={value}" for name, value in self.settings.items())
        return f"{self.name}  partitions={self.partitions}, replication={self.replication}, {settings}"


def plan_topics(config: Config, existing: Mapping[str, int] | None = None) -> list[TopicPlan]:
    """Return the topics of a configuration, in the order in which records pass them.

    `existing` has the partition counts of existing topics. Topics where records wait get as many partitions as the work
    queue, and the states as many as the scores: their records keep their partition number.
    """
    topics, partitions = config.topics, existing or {}
    followed = {
        "retry": partitions.get(topics.sampled),
        "overflow": partitions.get(topics.sampled),
        "detection": partitions.get(topics.scores),
    }
    return [
        TopicPlan(
            name=name,
            role=role,
            partitions=followed.get(role) or topics.partitions,
            replication=topics.replication,
            settings=_settings(config, role),
        )
        for role, name in _names(config)
    ]


def _names(config: Config) -> Iterator[tuple[str, str]]:
    for role in TOPICS:
        yield from ((role, name) for name in _names_of(config, role))


def _names_of(config: Config, role: str) -> tuple[str, ...]:
    otlp = config.input.otlp
    match role:
        case "otlp":
            return () if otlp is None else otlp.topics
        case "spans":
            return () if otlp is None or otlp.keyed else (config.topics.spans,)
        case "traces":
            return () if otlp is None else (config.topics.traces,)
        case "retry":
            return config.retry_topics
    return (getattr(config.topics, role),)


def _settings(config: Config, role: str) -> dict[str, str]:
    judged = config.input.limits.record_bytes + _ENVELOPE_BYTES
    retention = {"cleanup.policy": "delete", "retention.ms": str(config.topics.retention_hours * _HOUR_MS)}
    match role:
        case "interactions" | "deadletter" | "otlp" | "spans":
            return {**retention, "max.message.bytes": str(max(_LARGE_BYTES, judged))}
        case "sampled" | "retry" | "overflow":
            return {**retention, "max.message.bytes": str(judged)}
        # The newest state of every app, and the newest alert of every series, for ever.
        case "detection":
            return {
                "cleanup.policy": "compact",
                "max.message.bytes": str(STATE_BYTES),
                # The newest segment is not compacted, and a monitor that starts reads all of it.
                "segment.ms": str(_HOUR_MS),
            }
        case "alerts":
            return {"cleanup.policy": "compact"}
        # For ever: the work of people cannot be repeated. One interaction has labels of several people and criteria.
        case "labels":
            return {"cleanup.policy": "delete", "retention.ms": "-1"}
    return retention
