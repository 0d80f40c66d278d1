"""The sections of the stages, the web server and the log."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    Field,
    FiniteFloat,
    SecretStr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from judges.criteria.problems import InconsistentError
from stream.config.patterns import HOST, IDENTIFIER
from stream.config.section import Section

# The group coordinator takes a partition away from a worker that needs longer than this to let go of it.
REBALANCE_TIMEOUT_SECONDS = 60


Identifier = Annotated[str, Field(pattern=IDENTIFIER)]


HostName = Annotated[str, Field(pattern=HOST)]


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
        default=None,
        description="Fixed name of this worker in the group, kept over restarts, with -1, -2, … for each of several "
        "processes; null makes one up.",
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
