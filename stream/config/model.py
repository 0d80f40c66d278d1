"""The configuration as one typed model: the single source of defaults, validation, schema, starter file and docs."""

from typing import TypeVar

from pydantic import (
    Field,
    ValidationInfo,
    field_validator,
)

from judges.criteria.problems import InconsistentError, Loc
from judges.values.evaluation import MIN_PROBABILITY
from stream.config.section import Section, check_by_loader, find_loader_problems, refuse_repeats
from stream.config.sections.archive import ArchiveConfig
from stream.config.sections.budgets import MIN_KEEP, BudgetsConfig
from stream.config.sections.criteria import CompositeConfig, CriteriaConfig
from stream.config.sections.detection import DetectionConfig
from stream.config.sections.input import InputConfig
from stream.config.sections.judges import JudgesConfig
from stream.config.sections.kafka import KafkaConfig, TopicsConfig
from stream.config.sections.labels import LabelsConfig
from stream.config.sections.observability import AlertsConfig, MetricsConfig, ObjectivesConfig, TelemetryConfig
from stream.config.sections.page import PageConfig
from stream.config.sections.sampling import SamplingConfig
from stream.config.sections.stages import HttpConfig, LoggingConfig, MonitorConfig, SamplerConfig, WorkerConfig
from stream.config.sink_kinds import SinkConfig, TelemetrySinkConfig
from stream.config.sink_kinds.base import ConsumerSinkSection

# Labels of a rarer sample are refused unless the page queues one: a single label would outweigh all others.
_ACCEPTED_LABEL_RATE = 0.001

StageSection = TypeVar("StageSection", WorkerConfig, MonitorConfig, ArchiveConfig)


class Config(Section):
    """The configuration of Streamjury. Everything has a default."""

    kafka: KafkaConfig = Field(default_factory=KafkaConfig, description="Kafka cluster.")
    topics: TopicsConfig = Field(default_factory=TopicsConfig, description="Topic names and settings.")
    input: InputConfig = Field(default_factory=InputConfig, description="Format of input records.")
    sampling: SamplingConfig = Field(default_factory=SamplingConfig, description="Which interactions are judged.")
    criteria: CriteriaConfig = Field(default_factory=CriteriaConfig, description="Criteria to judge.")
    # Before the judges, which need prices if there is a budget.
    budgets: BudgetsConfig = Field(default_factory=BudgetsConfig, description="Spending limits for judging.")
    judges: JudgesConfig = Field(default_factory=JudgesConfig, description="The judges and how they vote.")
    composite: CompositeConfig = Field(
        default_factory=CompositeConfig, description="How criteria are combined into one score."
    )
    sampler: SamplerConfig = Field(
        default_factory=SamplerConfig, description="Sampler: the stage that selects interactions."
    )
    worker: WorkerConfig = Field(default_factory=WorkerConfig, description="Worker: the stage that judges them.")
    monitor: MonitorConfig = Field(
        default_factory=MonitorConfig, description="Monitor: the stage that watches the scores."
    )
    objectives: ObjectivesConfig = Field(default_factory=ObjectivesConfig, description="Quality objectives.")
    detection: DetectionConfig = Field(default_factory=DetectionConfig, description="Detection of quality drops.")
    alerts: AlertsConfig = Field(default_factory=AlertsConfig, description="Alert thresholds and links.")
    metrics: MetricsConfig = Field(default_factory=MetricsConfig, description="Labels of score metrics.")
    telemetry: TelemetryConfig = Field(default_factory=TelemetryConfig, description="OpenTelemetry.")
    # After telemetry, which is a sink under its own key.
    sinks: tuple[SinkConfig, ...] = Field(
        default=(),
        max_length=64,
        description="Additional outputs for evaluations, besides their topic.",
        examples=[
            [
                {"kind": "telemetry", "endpoint": "http://localhost:4318"},
                {"kind": "jsonl", "path": "evaluations.jsonl", "when_full": "wait"},
                {"kind": "langfuse", "public_key": "${LANGFUSE_PUBLIC_KEY}", "secret_key": "${LANGFUSE_SECRET_KEY}"},
            ]
        ],
    )
    archive: ArchiveConfig = Field(
        default_factory=ArchiveConfig, description="Archive: evaluations and texts in an SQL database."
    )
    labels: LabelsConfig = Field(default_factory=LabelsConfig, description="Labels of people.")
    http: HttpConfig = Field(
        default_factory=HttpConfig, description="Web server for the page, metrics and health checks."
    )
    page: PageConfig = Field(default_factory=PageConfig, description="The page in the browser.")
    logging: LoggingConfig = Field(default_factory=LoggingConfig, description="Logging.")

    @property
    def retry_topics(self) -> tuple[str, ...]:
        """The retry topics, by the number of attempts so far."""
        return self.topics.retry_topics(len(self.worker.retry_seconds))

    @property
    def least_probability(self) -> float:
        """The lowest sampling probability of an evaluation that a worker of this configuration can publish."""
        return max(MIN_PROBABILITY, self.sampling.least_probability * MIN_KEEP)

    @property
    def least_label_probability(self) -> float:
        """The lowest probability, of being sampled and then labelled, that a label may claim."""
        return max(MIN_PROBABILITY, self.least_probability * min(_ACCEPTED_LABEL_RATE, self.lowest_label_rate))

    @property
    def lowest_label_rate(self) -> float:
        """The lowest probability with which the page queues a judged answer for labelling."""
        queue = self.labels.queue
        return self.page.review_rate if queue is None else queue.rate * queue.floor

    def sinks_by_place(self) -> dict[str, SinkConfig]:
        """Return all sinks by their place in the configuration; the section `telemetry` is one of them."""
        telemetry = TelemetrySinkConfig.of_section(self.telemetry)
        listed = {f"sinks[{number}]": sink for number, sink in enumerate(self.sinks)}
        return listed if telemetry is None else {"telemetry": telemetry, **listed}

    @field_validator("judges")
    @classmethod
    def _check_judges(cls, value: JudgesConfig, info: ValidationInfo) -> JudgesConfig:
        problems, budgets = find_loader_problems("judges", value, info), info.data.get("budgets")
        if budgets is not None:
            problems += budgets.find_unpriced((loc, model.price is not None) for loc, model in value.list_models())
        if problems:
            raise InconsistentError(problems)
        return value

    _composite_of_criteria = field_validator("composite")(check_by_loader("composite"))
    _objectives_of_criteria = field_validator("objectives")(check_by_loader("objectives"))
    _detection_of_criteria = field_validator("detection")(check_by_loader("detection"))

    @field_validator("sinks")
    @classmethod
    def _check_sink_names(cls, value: tuple[SinkConfig, ...], info: ValidationInfo) -> tuple[SinkConfig, ...]:
        refuse_repeats("sinks must have different names", (sink.name for sink in value))
        telemetry = info.data.get("telemetry")
        section = None if telemetry is None else TelemetrySinkConfig.of_section(telemetry)
        for number, sink in enumerate(value):
            if section is not None and sink.name == section.name:
                message = (
                    f"{sink.name} is the name of the sink in the telemetry section; choose another name, or remove "
                    "one of them"
                )
                raise InconsistentError([((number, "name"), message)])
        return value

    @field_validator("sinks")
    @classmethod
    def _check_sink_groups(cls, value: tuple[SinkConfig, ...], info: ValidationInfo) -> tuple[SinkConfig, ...]:
        """Refuse a shared group: each sink must get every evaluation."""
        groups = {
            info.data[name].group: f"{name}.group" for name in ("sampler", "worker", "monitor") if name in info.data
        }
        problems: list[tuple[Loc, str]] = []
        for number, sink in enumerate(value):
            if isinstance(sink, ConsumerSinkSection):
                if sink.group_name in groups:
                    problems.append(((number, "group"), f"must differ from {groups[sink.group_name]}"))
                groups[sink.group_name] = f"sinks[{number}].group"
        if problems:
            raise InconsistentError(problems)
        return value

    @field_validator("worker", "monitor", "archive")
    @classmethod
    def _check_group(cls, value: StageSection, info: ValidationInfo) -> StageSection:
        """Refuse a shared group: stages would take each other's partitions away."""
        for name in ("sampler", "worker", "monitor"):
            other = info.data.get(name)
            if other is not None and other.group == value.group:
                raise ValueError(f"group must differ from {name}.group")
        for number, sink in enumerate(info.data.get("sinks", ())):
            if isinstance(sink, ConsumerSinkSection) and sink.group_name == value.group:
                raise ValueError(f"group must differ from sinks[{number}].group")
        return value
