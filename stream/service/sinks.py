"""Makes and opens the sinks that a configuration asks for."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry

from sinks.base import Sink, SinkError
from sinks.metrics import SinkMetrics
from sinks.queued import QueuedSink, open_all
from sinks.telemetry import JudgeModel
from stream.config.judge_kinds.base import AskedModel
from stream.config.model import Config
from stream.config.sections.judges import JudgesConfig
from stream.config.sink_kinds import SinkContext
from stream.errors import StageError
from stream.service.setup.evaluator import VERSION

_PORTS = {"http": 80, "https": 443}


@contextmanager
def open_sinks(config: Config, registry: CollectorRegistry) -> Iterator[list[Sink]]:
    """Open the sinks of a worker until the end of the block. Each has a queue, so that no sink can block the worker."""
    sinks = make_sinks(config, registry)
    with open_all(sinks):
        yield list(sinks)


def make_sinks(config: Config, registry: CollectorRegistry) -> list[QueuedSink]:
    """Make the sinks without opening them; raises StageError, with the key to change, if one can never work."""
    sections = config.sinks_by_place()
    if not sections:
        return []
    context = SinkContext(version=VERSION, judges=judge_models(config.judges))
    metrics = SinkMetrics(registry)
    sinks = []
    for place, section in sections.items():
        try:
            sink = section.make(context)
        except SinkError as error:
            raise StageError(f"{place}.{error}") from error
        sinks.append(QueuedSink(sink, metrics, size=section.queue, when_full=section.overflow))
    return sinks


def judge_models(judges: JudgesConfig) -> Mapping[str, JudgeModel]:
    """Return the models that judges ask, by the judge names in verdicts."""
    return {judge.name: _model(judge.asked_model) for judge in judges.everyone if judge.asked_model is not None}


def _model(asked: AskedModel) -> JudgeModel:
    parts = urlsplit(asked.address)
    port = parts.port or _PORTS.get(parts.scheme)
    return JudgeModel(provider=asked.provider, model=asked.name, address=parts.hostname, port=port)
