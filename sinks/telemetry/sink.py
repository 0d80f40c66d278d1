"""The sink that sends spans and events of published evaluations to a collector, and never waits for it."""

import logging
import threading
import time
import uuid
from collections.abc import Sequence
from typing import Self

from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from judges.values.evaluation import Evaluation
from sinks.base import Sink
from sinks.telemetry.exporters import open_exporters
from sinks.telemetry.settings import SCOPE, TelemetrySettings
from sinks.telemetry.spans import Recorder

log = logging.getLogger(__name__)

# Items that wait for a slow or absent collector; the oldest are dropped first. A few kilobytes each.
_QUEUE = 4096
_BATCH = 512
_DELAY_MILLISECONDS = 1000


class TelemetrySink(Sink):
    """Sends every evaluation to a collector. Only items that the collector does not accept are lost."""

    def __init__(self, settings: TelemetrySettings) -> None:
        self.name = settings.name
        self._close_seconds = settings.close_seconds
        self._exporters = open_exporters(settings)
        self._recorder = Recorder(
            _resource(settings),
            InstrumentationScope(SCOPE, settings.version),
            judges=settings.judges,
            explanations=settings.explanations,
            on_trace=settings.on_trace,
        )
        self._spans = BatchSpanProcessor(
            self._exporters.spans,
            max_queue_size=_QUEUE,
            max_export_batch_size=_BATCH,
            schedule_delay_millis=_DELAY_MILLISECONDS,
        )
        self._events = BatchLogRecordProcessor(
            self._exporters.events,
            max_queue_size=_QUEUE,
            max_export_batch_size=_BATCH,
            schedule_delay_millis=_DELAY_MILLISECONDS,
        )
        self._closed = False
        self._broken = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        # After a second Ctrl-C the user does not want to wait.
        self.close(0.0 if kind is KeyboardInterrupt else self._close_seconds)

    def write(self, evaluations: Sequence[Evaluation], /) -> None:
        """Queue evaluations; one that cannot be sent does not affect the others."""
        for evaluation in () if self._closed else evaluations:
            try:
                self._queue(evaluation)
                self._broken = False
            except Exception:
                if not self._broken:  # once, not for every evaluation
                    log.exception("cannot send telemetry for evaluation %s", evaluation.evaluation_id)
                self._broken = True

    def close(self, seconds: float | None = None) -> None:
        """Send waiting items for this long, or as long as configured; the rest is lost."""
        if self._closed:
            return
        self._closed = True
        patience = self._close_seconds if seconds is None else seconds
        deadline = time.monotonic() + patience
        # Both at once, and in threads: the library waits half a minute for a collector that does not answer.
        flushing = [
            threading.Thread(target=processor.shutdown, name="telemetry-flush", daemon=True)
            for processor in (self._spans, self._events)
        ]
        for thread in flushing:
            thread.start()
        for thread in flushing:
            thread.join(max(0.0, deadline - time.monotonic()))
        if any(thread.is_alive() for thread in flushing):
            log.warning("the collector did not accept the last telemetry within %g s", patience)
            for exporter in self._exporters:
                exporter.shutdown()  # ends its attempts, so that the threads end too

    def _queue(self, evaluation: Evaluation) -> None:
        spans, events = self._recorder.records(evaluation)
        for span in spans:
            self._spans.on_end(span)
        for event in events:
            self._events.on_emit(event)


def _resource(settings: TelemetrySettings) -> Resource:
    return Resource.create(
        {
            "service.name": settings.service_name,
            "service.version": settings.version,
            "service.instance.id": str(uuid.uuid4()),
        }
    )
