"""The sections `objectives`, `alerts`, `metrics` and `telemetry`."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, FiniteFloat, SecretStr, ValidationInfo, field_serializer, field_validator

from judges.criteria.problems import InconsistentError, Loc, unknown
from sinks.base import OTHER, UNKNOWN
from sinks.telemetry.settings import TelemetryError, check_endpoint, check_header
from stream.config.section import MASK, CriterionName, Rate, Section, check_web_address


def _check_app_name(value: str) -> str:
    """Refuse a name that metrics would escape: no rule would find it."""
    if not value.isprintable():
        raise ValueError("must be a name in printable characters")
    return value


AppName = Annotated[str, Field(min_length=1, max_length=256), AfterValidator(_check_app_name)]
# Shares above 0, and shares below 1.
PositiveRate = Annotated[FiniteFloat, Field(gt=0.0, le=1.0)]
PartialRate = Annotated[FiniteFloat, Field(ge=0.0, le=0.99)]
Target = Annotated[FiniteFloat, Field(ge=0.5, le=0.9999)]
Address = Annotated[str, Field(max_length=2048)]
HeaderName = Annotated[str, Field(min_length=1, max_length=128)]


# Labels that metrics use for several apps.
_COLLECTIVE_LABELS = {
    UNKNOWN: "interactions without an app",
    OTHER: "apps beyond metrics.max_apps",
}


def _refuse_collective_labels(names: Iterable[tuple[Loc, str]]) -> None:
    """Refuse app names, each with its place, that metrics use for several apps."""
    problems = [
        (place, f"cannot be an app: metrics use it for {_COLLECTIVE_LABELS[name]}")
        for place, name in names
        if name in _COLLECTIVE_LABELS
    ]
    if problems:
        raise InconsistentError(problems)


class ObjectiveConfig(Section):
    """Objective of one app, instead of the general one."""

    good_score: Rate | None = Field(
        default=None, description="Lowest composite that counts as good; null: as for all apps."
    )
    target: Target | None = Field(default=None, description="Target share of good interactions; null: as for all apps.")


class ObjectivesConfig(Section):
    """Quality objectives: the target share of interactions with a good composite, and floors for dimensions."""

    good_score: Rate = Field(default=0.7, description="Lowest composite that counts as good.")
    target: Target = Field(default=0.95, description="Target share of good interactions.")
    days: int = Field(default=30, ge=1, le=365, description="Days over which the error budget, 1 - target, is counted.")
    min_effective: int = Field(
        default=30,
        ge=1,
        le=1_000_000,
        description="Effective number of judgements below which a mean raises no alert.",
    )
    floors: Mapping[CriterionName, Rate] = Field(
        default={"groundedness": 0.7},
        description="Alert when the mean of a dimension, or of `composite`, is below this with 95 % confidence.",
    )
    apps: Mapping[AppName, ObjectiveConfig] = Field(
        default={},
        description="Apps with their own objective.",
        examples=[{"checkout-bot": {"good_score": 0.8, "target": 0.99}}],
    )

    @field_validator("apps")
    @classmethod
    def _check_apps(cls, value: Mapping[str, ObjectiveConfig]) -> Mapping[str, ObjectiveConfig]:
        _refuse_collective_labels(((name,), name) for name in value)
        return value

    def for_app(self, app: str | None) -> tuple[float, float]:
        """Return the lowest good composite and the target of an app."""
        own = self.apps.get(app or "", ObjectiveConfig())
        good_score = self.good_score if own.good_score is None else own.good_score
        return good_score, self.target if own.target is None else own.target

    def find_unknown_criteria(self, criteria: Iterable[str]) -> Iterator[tuple[Loc, str]]:
        """Find floors for criteria that are not judged; the default floors are exempt."""
        valid = [*criteria, "composite"]
        for name in self.floors if "floors" in self.model_fields_set else ():
            if name not in valid:
                yield ("floors", name), unknown("criterion", name, valid)


class AlertsConfig(Section):
    """Alert thresholds and links that `streamjury rules` writes for Prometheus."""

    time_scale: FiniteFloat = Field(
        default=1.0,
        ge=0.001,
        le=10,
        description="Factor applied to every window and delay; use a value below 1 to try alerts out.",
    )
    coverage: PositiveRate = Field(default=0.9, description="Alert when less than this share could be scored.")
    judge_failures: PartialRate = Field(default=0.2, description="Alert when a judge fails for more than this share.")
    disagreement: PartialRate = Field(
        default=0.3, description="Alert when more than this share of judge pairs disagree."
    )
    lag_records: int = Field(
        default=1000, ge=1, le=2**53, description="Alert when the backlog exceeds this many records and grows."
    )
    deadletter_share: PartialRate = Field(default=0.01, description="Alert when more than this share is dead-lettered.")
    cost_per_day_usd: FiniteFloat | None = Field(
        default=None, gt=0, le=1e9, description="Expected daily cost of judging, for alerts; null: no alert."
    )
    cost_share: PositiveRate = Field(default=0.8, description="Alert when this share of cost_per_day_usd is spent.")
    grafana_url: Address = Field(
        default="http://localhost:3000", description="Grafana URL for dashboard links in alerts."
    )
    runbook_url: Address | None = Field(
        default=None,
        description="Base URL of the runbook pages (NAME.html), or a URL with {alert}; null: Grafana's copies.",
        examples=["https://wiki.example.com/runbooks", "https://git.example.com/ops/runbooks/{alert}.md"],
    )

    @field_validator("grafana_url", "runbook_url")
    @classmethod
    def _check_address(cls, value: str | None) -> str | None:
        if value is None:
            return None
        return check_web_address(
            value, example="http://localhost:3000", secrets="they would appear in every alert"
        ).rstrip("/")

    def runbook_link(self, alert: str) -> str:
        """Return the address of an alert's runbook."""
        base = self.runbook_url or f"{self.grafana_url}/public/runbooks"
        return base.replace("{alert}", alert) if "{alert}" in base else f"{base}/{alert}.html"


class MetricsConfig(Section):
    """Labels of score metrics."""

    labels: tuple[Literal["model", "tenant"], ...] = Field(
        default=(), max_length=2, description="Labels besides app and dimension; each multiplies the number of series."
    )
    top: int = Field(
        default=10,
        ge=1,
        le=1000,
        description="Frequent models, or tenants, with their own label; the rest is `other`.",
    )
    apps: tuple[AppName, ...] = Field(
        default=(),
        max_length=1000,
        description="Apps that always get their own label, however rare they are.",
        examples=[["checkout-bot", "support-bot"]],
    )
    max_apps: int = Field(
        default=50,
        ge=1,
        le=1000,
        description="Number of apps with their own label: `apps`, then the most frequent; the rest is `other`.",
    )

    @field_validator("apps", mode="before")
    @classmethod
    def _refuse_number(cls, value: Any) -> Any:
        if isinstance(value, int | float):
            raise ValueError("must be a list of names; max_apps sets the number of apps")
        return value

    @field_validator("apps")
    @classmethod
    def _check_apps(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        _refuse_collective_labels(((number,), name) for number, name in enumerate(value))
        return value

    @field_validator("labels")
    @classmethod
    def _refuse_duplicates(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(value)) < len(value):
            raise ValueError("must name each label once")
        return value


class TelemetryConfig(Section):
    """OpenTelemetry: a span for every evaluation and verdict, and an event for every result."""

    protocol: Literal["http", "grpc"] = Field(default="http", description="Protocol of the collector.")
    endpoint: Address | None = Field(
        default=None,
        description="URL of an OTLP collector, such as http://localhost:4318; null: telemetry is off.",
    )
    headers: Mapping[HeaderName, SecretStr] = Field(
        default={},
        description="Headers to send; write secrets as ${NAME}.",
        examples=[{"authorization": "${OTLP_AUTH}"}],
    )
    service_name: str = Field(
        default="streamjury", min_length=1, max_length=256, description="Service name of Streamjury in telemetry."
    )
    explanations: bool = Field(
        default=False, description="Include the judges' explanations, which may quote user text."
    )
    on_trace: bool = Field(
        default=True, description="Add a span with the results to the interaction's trace, if it was sampled."
    )

    @field_validator("endpoint")
    @classmethod
    def _check_endpoint(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and "protocol" in info.data:
            with _errors_at_key():
                check_endpoint(value, info.data["protocol"])
        return value

    @field_validator("headers")
    @classmethod
    def _check_headers(cls, value: Mapping[str, SecretStr], info: ValidationInfo) -> Mapping[str, SecretStr]:
        for name, secret in value.items() if "protocol" in info.data else ():
            with _errors_at_key(name):
                check_header(name, secret.get_secret_value(), info.data["protocol"])
        return value

    @field_serializer("headers", when_used="json")
    def _hide_secrets(self, value: Mapping[str, SecretStr]) -> dict[str, Any]:
        return dict.fromkeys(value, MASK)


@contextmanager
def _errors_at_key(*key: str) -> Iterator[None]:
    try:
        yield
    except TelemetryError as error:
        raise InconsistentError([(key, error.words)]) from None
