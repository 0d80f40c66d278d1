"""Tracing: the telemetry that a configuration asks for."""

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from judges.values.evaluation import Evaluation
from sinks.base import Sink
from sinks.telemetry import JudgeModel, TelemetryError, TelemetrySettings, open_telemetry
from stream.config.model import Config
from stream.config.sections.judges import JudgesConfig
from stream.errors import StageError
from stream.service.setup.evaluator import VERSION

_PORTS = {"http": 80, "https": 443}


@contextmanager
def telemetry_of(config: Config) -> Iterator[Sink[Evaluation] | None]:
    """Where evaluations are to be told besides their topic; None when telemetry is off."""
    settings = _settings(config)
    if settings is None:
        yield None
        return
    try:
        sink = open_telemetry(settings)
    except TelemetryError as error:
        raise StageError(f"telemetry.{error}") from error
    with sink:
        yield sink


def _settings(config: Config) -> TelemetrySettings | None:
    telemetry = config.telemetry
    if telemetry.endpoint is None:
        return None
    try:
        return TelemetrySettings(
            endpoint=telemetry.endpoint,
            protocol=telemetry.protocol,
            headers={name: value.get_secret_value() for name, value in telemetry.headers.items()},
            service_name=telemetry.service_name,
            version=VERSION,
            judges=dict(_models(config.judges)),
            explanations=telemetry.explanations,
        )
    except TelemetryError as error:
        raise StageError(f"telemetry.{error}") from error


def _models(judges: JudgesConfig) -> Iterator[tuple[str, JudgeModel]]:
    for judge in judges.everyone:
        model = judge.asked_model
        if model is not None:
            parts = urlsplit(model.address)
            port = parts.port or _PORTS.get(parts.scheme)
            yield judge.name, JudgeModel(provider=model.provider, model=model.name, address=parts.hostname, port=port)
