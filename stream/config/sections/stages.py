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
from stream.config.patterns import HOST, IDENTIFIER, LABEL
from stream.config.section import Section, refuse_repeats

# The group coordinator takes a partition away from a worker that needs longer than this to release it.
REBALANCE_TIMEOUT_SECONDS = 60

# Guessing a random one of this length at five attempts a minute takes longer than the universe has existed.
_SHORTEST_TOKEN = 16


Identifier = Annotated[str, Field(pattern=IDENTIFIER)]


HostName = Annotated[str, Field(pattern=HOST)]


WaitSeconds = Annotated[FiniteFloat, Field(gt=0, le=86_400)]


class SamplerConfig(Section):
    """The sampler: the stage that selects interactions for judging."""

    group: Identifier = Field(default="streamjury-sampler", description="Consumer group of the samplers.")
    batch: int = Field(default=20_000, ge=1, le=100_000, description="Maximum records per transaction.")
    instance: Identifier | None = Field(
        default=None, description="Fixed instance name in the group, kept across restarts; null: a generated name."
    )


class WorkerConfig(Section):
    """The worker: the stage that judges interactions."""

    group: Identifier = Field(default="streamjury-worker", description="Consumer group of the workers.")
    instance: Identifier | None = Field(
        default=None,
        description="Fixed instance name in the group (several processes add -1, -2, …); null: a generated name.",
    )
    concurrency: int = Field(default=64, ge=1, le=4096, description="Records judged concurrently.")
    run_ahead: int = Field(
        default=256,
        ge=1,
        le=65_536,
        description="Maximum uncommitted records: this many may be judged again after a crash.",
    )
    deadline_seconds: FiniteFloat = Field(
        default=45.0,
        gt=0,
        json_schema_extra={"exclusiveMaximum": REBALANCE_TIMEOUT_SECONDS},
        description="Timeout for one record, without waits for an endpoint; below "
        f"{REBALANCE_TIMEOUT_SECONDS} s (the rebalance timeout).",
    )
    drain_seconds: FiniteFloat = Field(
        default=8.0,
        ge=0,
        le=45,
        description="Time to finish records in flight when partitions move or the worker stops.",
    )
    commit_seconds: FiniteFloat = Field(default=0.2, ge=0.01, le=10, description="Time between transactions.")
    retry_seconds: tuple[WaitSeconds, ...] = Field(
        default=(60.0, 300.0, 1800.0),
        max_length=10,
        description="Delays between attempts for a record whose judges failed; after the last one it is dead-lettered.",
    )
    repeat_seconds: FiniteFloat = Field(
        default=3600.0,
        ge=0,
        le=604_800,
        description="Seconds during which a judged interaction is not judged again; 0 disables this.",
    )
    fair: bool = Field(
        default=True, description="Prevent an app with more records than its share from delaying the others."
    )
    stall_seconds: FiniteFloat = Field(
        default=300.0,
        ge=0,
        le=86_400,
        description="Exit when there is work but none was finished for this long; 0: never.",
    )
    excerpt_chars: int = Field(
        default=160,
        ge=0,
        le=10_000,
        description="Characters of question and answer kept with an evaluation; 0: none.",
    )

    @field_validator("stall_seconds")
    @classmethod
    def _check_stall_seconds(cls, value: float, info: ValidationInfo) -> float:
        deadline = info.data.get("deadline_seconds", 0.0)
        if 0 < value <= deadline:
            raise ValueError(f"must be above worker.deadline_seconds ({deadline:g}), or 0")
        return value

    @field_validator("run_ahead")
    @classmethod
    def _check_run_ahead(cls, value: int, info: ValidationInfo) -> int:
        concurrency = info.data.get("concurrency", 0)
        if value < concurrency:
            raise ValueError(f"must be at least worker.concurrency ({concurrency})")
        return value

    @field_validator("deadline_seconds")
    @classmethod
    def _check_deadline(cls, value: float) -> float:
        if value >= REBALANCE_TIMEOUT_SECONDS:
            raise ValueError(
                f"must be below the rebalance timeout of {REBALANCE_TIMEOUT_SECONDS} seconds (a worker that spends "
                "longer on a record is removed from its group, and its work is repeated)"
            )
        return value


class MonitorConfig(Section):
    """The monitor: the stage that watches finished evaluations."""

    group: Identifier = Field(default="streamjury-monitor", description="Consumer group of the monitors.")
    window_minutes: int = Field(default=15, ge=1, le=1440, description="Window of the rolling means, in minutes.")
    remember: int = Field(
        default=100_000, ge=1, le=10_000_000, description="Evaluation ids remembered, to detect duplicates."
    )
    worst: int = Field(default=5, ge=0, le=100, description="Number of worst recent answers to show.")
    stall_seconds: FiniteFloat = Field(
        default=300.0,
        ge=0,
        le=86_400,
        description="Exit when there are evaluations but none was read for this long; 0: never.",
    )


class AccessTokenConfig(Section):
    """A token for the page, with the name and the role of its owner."""

    name: str = Field(pattern=LABEL, description="Name of the owner; labels and the audit log have it.")
    role: Literal["viewer", "reviewer", "operator"] = Field(
        default="viewer",
        description="viewer: read; reviewer: also label answers; operator: also replay dead letters.",
    )
    token: SecretStr = Field(
        min_length=_SHORTEST_TOKEN,
        description=f"The token, at least {_SHORTEST_TOKEN} characters; write it as ${{NAME}}.",
    )


class HttpConfig(Section):
    """Web server for the page, /metrics, /healthz and /readyz."""

    host: HostName = Field(
        default="127.0.0.1", description="Address to listen on; 0.0.0.0 accepts connections from other machines."
    )
    port: int = Field(default=9464, ge=0, le=65_535, description="Port to listen on; 0: any free port.")
    token: SecretStr | None = Field(
        default=None,
        min_length=1,
        description="Token for /metrics (Authorization: Bearer …), and a viewer's for the page; write it as ${NAME}.",
    )
    tokens: tuple[AccessTokenConfig, ...] = Field(
        default=(),
        max_length=1000,
        description="Tokens for the page. Without tokens it is served on a loopback address only, to everybody.",
        examples=[[{"name": "anna", "role": "reviewer", "token": "${ANNAS_TOKEN}"}]],
    )
    certificate: str | None = Field(
        default=None, min_length=1, max_length=4096, description="TLS certificate file for HTTPS, as PEM."
    )
    key: str | None = Field(
        default=None, min_length=1, max_length=4096, description="Key file of the certificate, as PEM."
    )

    @model_validator(mode="before")
    @classmethod
    def _refuse_empty_token(cls, data: Any) -> Any:
        """Refuse an empty token: it comes from an unset variable, and would disable the protection."""
        if isinstance(data, Mapping) and data.get("token") == "":
            raise InconsistentError([(("token",), "must not be empty; remove the key to require no token")])
        return data

    @field_validator("tokens")
    @classmethod
    def _refuse_repeated_tokens(cls, value: tuple[AccessTokenConfig, ...]) -> tuple[AccessTokenConfig, ...]:
        refuse_repeats("tokens must have different names", (token.name for token in value))
        refuse_repeats("tokens must differ", (token.token.get_secret_value() for token in value))
        return value

    @field_validator("key")
    @classmethod
    def _require_both(cls, value: str | None, info: ValidationInfo) -> str | None:
        if "certificate" in info.data and (value is None) != (info.data["certificate"] is None):
            raise ValueError("http.certificate and http.key must be set together")
        return value


class LoggingConfig(Section):
    """Logging."""

    level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="Lowest level to log.")
    format: Literal["console", "json"] = Field(
        default="console", description="Log format: text for people, or JSON for machines."
    )
