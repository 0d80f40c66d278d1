"""Makes and opens the sinks that a configuration asks for."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry

from sinks.base import Sink, SinkError
from sinks.metrics import SinkMetrics
from sinks.queued import CLOSE_SECONDS, QueuedSink, open_all
from sinks.telemetry import JudgeModel
from stream.config.judge_kinds.base import AskedModel
from stream.config.model import Config
from stream.config.sections.judges import JudgesConfig
from stream.config.sink_kinds import SinkContext
from stream.config.sink_kinds.base import ConsumerSinkSection, QueuedSinkSection
from stream.errors import StageError
from stream.service.setup.evaluator import VERSION
from stream.service.sink_consumer import SinkConsumer

_PORTS = {"http": 80, "https": 443}


@contextmanager
def open_sinks(config: Config, registry: CollectorRegistry) -> Iterator[list[Sink]]:
    """Open the sinks of a worker until the end of the block, and return those that the worker writes to.

    Each has a queue or reads the evaluations topic itself, so that no sink can block the worker.
    """
    queued, consumers = make_sinks(config, registry)
    with open_all(queued), _open_consumers(consumers):
        yield list(queued)


class MadeSinks(NamedTuple):
    """The sinks of a worker, by how evaluations reach them."""

    queued: list[QueuedSink]
    """Those that the worker writes to."""

    consumers: list[SinkConsumer]
    """Those that read the evaluations topic."""


def make_sinks(config: Config, registry: CollectorRegistry) -> MadeSinks:
    """Make the sinks without opening them; raises StageError, with the key to change, if one can never work."""
    made, sections = MadeSinks([], []), config.sinks_by_place()
    if not sections:
        return made
    context = SinkContext(version=VERSION, judges=judge_models(config.judges))
    metrics = SinkMetrics(registry)
    for place, section in sections.items():
        try:
            sink = section.make(context)
        except SinkError as error:
            raise StageError(f"{place}.{error}") from error
        if isinstance(section, ConsumerSinkSection):
            made.consumers.append(
                SinkConsumer(
                    sink,
                    metrics,
                    config.kafka,
                    topic=config.topics.evaluations,
                    group=section.group_name,
                    batch=section.batch,
                )
            )
        elif isinstance(section, QueuedSinkSection):
            made.queued.append(QueuedSink(sink, metrics, size=section.queue, when_full=section.overflow))
    return made


@contextmanager
def _open_consumers(consumers: Sequence[SinkConsumer]) -> Iterator[None]:
    for consumer in consumers:
        consumer.open()
    try:
        yield
    finally:
        for consumer in consumers:
            consumer.stop()
        for consumer in consumers:
            consumer.close(CLOSE_SECONDS)


def judge_models(judges: JudgesConfig) -> Mapping[str, JudgeModel]:
    """Return the models that judges ask, by the judge names in verdicts."""
    return {judge.name: _model(judge.asked_model) for judge in judges.everyone if judge.asked_model is not None}


def _model(asked: AskedModel) -> JudgeModel:
    parts = urlsplit(asked.address)
    port = parts.port or _PORTS.get(parts.scheme)
    return JudgeModel(provider=asked.provider, model=asked.name, address=parts.hostname, port=port)
