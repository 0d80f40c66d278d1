"""The monitor's stage: the Faust app that carries evaluations to the monitor, and scores and labels to the alert agent.

Each agent has one actor and lets no exception out: with more actors, or with an exception, Faust loses records.
"""

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from tempfile import TemporaryDirectory
from typing import Any

import faust
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from faust.exceptions import ConsumerNotStarted
from faust.types import TP
from faust.types.events import EventT

from judges.values.evaluation import Evaluation
from sinks.metrics import DetectionMetrics, Stage
from sinks.topics.headers import SCHEMA_VERSION
from stream.config.model import Config
from stream.config.sections.kafka import KafkaConfig
from stream.errors import RecordError, StageError, StreamjuryError
from stream.kafka.embedded import is_embedded
from stream.kafka.errors import DENIED, start_error
from stream.kafka.record import Record
from stream.monitor.alerts.agent import AlertAgent
from stream.monitor.alerts.watch.partition import ANNOUNCER
from stream.monitor.canary_sender import CanarySender
from stream.monitor.faust_app.app import make_app
from stream.monitor.faust_app.credentials import broker_credentials
from stream.monitor.faust_app.events import record_of
from stream.monitor.record_sender import RecordSender
from stream.monitor.state import Monitor

log = logging.getLogger(__name__)


_REFRESH_SECONDS = 1.0


_STOP_SECONDS = 15.0


_SETTLE_SECONDS = 5.0


_START_SECONDS = 30.0


_ASK_SECONDS = 3.0


# Errors that waiting for the broker does not fix.
_NOT_LET_IN = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL})


class MonitorStage:
    """The Faust app with the monitor and, unless disabled, the alerts of its detectors."""

    stage = Stage.MONITOR

    def __init__(self, config: Config, monitor: Monitor, detection: DetectionMetrics) -> None:
        self._credentials = broker_credentials(config.kafka.options)
        self._config = config
        self._monitor = monitor
        self._detection = detection
        self._app: faust.App | None = None
        self._broken: Exception | None = None
        self._canaries: CanarySender | None = None
        self.assigned = False
        """Whether it has partitions. Threads may read it at any time: the app itself may be used in its own alone."""

        self.moved_at = time.monotonic()
        self.backlog = 0
        self.done = 0

    # Its producers wait for the broker by themselves.
    problem = None

    @property
    def pulse(self) -> "MonitorStage":
        return self

    def run(self, stop: threading.Event) -> None:
        """Watch evaluations until `stop` is set."""
        asyncio.run(self._serve(stop))

    async def _serve(self, stop: threading.Event) -> None:
        embedded = is_embedded(await asyncio.to_thread(_cluster_id, self._config.kafka))
        if not embedded:  # the embedded broker has no ACLs
            await asyncio.to_thread(_check_group, self._config)
        # Faust makes a data folder wherever it is started, though the monitor keeps no table in it.
        with TemporaryDirectory(prefix="streamjury-monitor-") as folder:
            self._app = app = make_app(self._config, self._credentials, embedded=embedded, folder=folder)
            if not self._config.detection.enabled:
                letters = RecordSender(self._config)
                await asyncio.to_thread(letters.check_topics, stop)
                self._watch_only(app, letters)
                try:
                    await self._keep_watch(app, stop)
                finally:
                    letters.close()
                return
            if embedded:
                log.info("the embedded broker does not isolate transactions: an alert may be published more than once")
            alerts = AlertAgent(
                self._config, self._detection, transactions=not embedded, on_refused=self._monitor.count_refused
            )
            await asyncio.to_thread(alerts.prepare, stop)
            if stop.is_set():
                return
            self._watch_for_alerts(app, alerts)
            with closing(alerts), _rebalances(app, alerts):
                async with self._settle_regularly(alerts, stop) as settling:
                    await self._keep_watch(app, stop, alerts, settling)

    # The agents

    def _watch_only(self, app: faust.App, letters: RecordSender) -> None:
        """Observe evaluations. Faust acknowledges one when it requests the next, after its dead letter has arrived."""

        async def observe(event: EventT[Any]) -> None:
            if self._observe(event, letters.dead_letter) is None:
                await asyncio.to_thread(letters.flush)

        @app.agent(_raw(app, self._config.topics.evaluations), concurrency=1)  # type: ignore[untyped-decorator]
        async def watch(stream: faust.Stream[bytes]) -> None:
            async for event in stream.events():
                await self._run_or_stop(observe(event))

    def _watch_for_alerts(self, app: faust.App, alerts: AlertAgent) -> None:
        """Connect the alert agent, which acknowledges events itself once their alerts are published."""

        async def forward(event: EventT[Any]) -> None:
            await alerts.forward(event, self._observe(event, alerts.dead_letter))

        @app.agent(_raw(app, self._config.topics.evaluations), concurrency=1)  # type: ignore[untyped-decorator]
        async def watch(stream: faust.Stream[bytes]) -> None:
            async for event in stream.noack().events():
                await self._run_or_stop(forward(event))

        @app.agent(_raw(app, self._config.topics.scores), concurrency=1)  # type: ignore[untyped-decorator]
        async def detect(stream: faust.Stream[bytes]) -> None:
            async for event in stream.noack().events():
                await self._run_or_stop(alerts.observe(event))
                self.done += 1

        if alerts.has_labels:

            @app.agent(_raw(app, self._config.topics.labels), concurrency=1)  # type: ignore[untyped-decorator]
            async def read_labels(stream: faust.Stream[bytes]) -> None:
                async for event in stream.noack().events():
                    await self._run_or_stop(alerts.forward_label(event))
                    self.done += 1

    def _observe(self, event: EventT[Any], dead_letter: Callable[[Record, RecordError], None]) -> Evaluation | None:
        schema = dict(event.headers or {}).get(SCHEMA_VERSION)
        evaluation = self._monitor.observe(event.value, schema, lambda error: dead_letter(record_of(event), error))
        self.done += 1
        return evaluation

    async def _run_or_stop(self, work: Awaitable[None]) -> None:
        """Await the work of an agent. After a failure, take no more events (Faust would lose them); the stage ends."""
        try:
            await work
        except Exception as error:
            # Our own errors explain themselves; an unexpected one needs its traceback.
            log.error("an agent failed: %s", error, exc_info=not isinstance(error, StreamjuryError))
            self._broken = error
            await asyncio.Event().wait()

    # The loop beside them

    async def _keep_watch(
        self,
        app: faust.App,
        stop: threading.Event,
        alerts: AlertAgent | None = None,
        settling: asyncio.Task[None] | None = None,
    ) -> None:
        try:
            await app.start()
            while not stop.is_set():
                self._look_around(app)
                if alerts is not None:
                    alerts.show()
                    self._send_canaries()
                if settling is not None and settling.done():
                    settling.result()
                await asyncio.sleep(_REFRESH_SECONDS / 4)
        finally:
            self.assigned = False
            if self._canaries is not None:
                self._canaries.close()
            failed = self._broken is not None or (settling is not None and settling.done())
            if failed or (alerts is not None and not await alerts.finish(_SETTLE_SECONDS)):
                # Faust must not wait for events that will never be acknowledged.
                app.conf.stream_wait_empty = False
            # Without an awaited stop, Faust's threads keep the process alive.
            try:
                await asyncio.wait_for(app.stop(), _STOP_SECONDS)
            except TimeoutError:
                if not failed:
                    raise StageError(f"its Faust app did not stop within {_STOP_SECONDS:.0f} seconds") from None
                log.warning("the Faust app did not stop within %.0f seconds", _STOP_SECONDS)

    def _look_around(self, app: faust.App) -> None:
        self.moved_at = time.monotonic()
        self.assigned = bool(self._assignment())
        self.backlog = _backlog(app)
        self._monitor.report_lag(self.backlog)
        self._monitor.refresh()
        if self._broken is not None:
            raise StageError(f"an agent failed: {self._broken!r}") from self._broken
        if app.should_stop:
            raise StageError(f"its Faust app stopped by itself ({app.crash_reason or 'without a reason'})")

    def _send_canaries(self) -> None:
        """Send canaries from one process only: the one with the first partition, from the moment when it gets it."""
        is_ours = TP(self._config.topics.scores, ANNOUNCER) in self._assignment()
        if is_ours and self._canaries is None:
            self._canaries = CanarySender(self._config)
        elif not is_ours and self._canaries is not None:
            self._canaries.close()
            self._canaries = None
        if self._canaries is not None:
            self._canaries.send_due(time.time())

    @asynccontextmanager
    async def _settle_regularly(self, alerts: AlertAgent, stop: threading.Event) -> AsyncIterator[asyncio.Task[None]]:
        """Settle the alerts every second until the app has stopped, which waits for unacknowledged events.

        Partitions are loaded at the same time, because loading may take a while and must not block settling.
        """

        async def settle() -> None:
            while True:
                await alerts.settle()
                await asyncio.sleep(_REFRESH_SECONDS)

        async def load() -> None:
            while not stop.is_set():
                await alerts.load(self._partitions_of(self._config.topics.scores))
                await asyncio.sleep(_REFRESH_SECONDS)

        async def both() -> None:
            await asyncio.gather(settle(), load())

        task = asyncio.create_task(both())
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _partitions_of(self, topic: str) -> list[int]:
        return sorted(partition.partition for partition in self._assignment() if partition.topic == topic)

    def _assignment(self) -> frozenset[TP]:
        if self._app is None or not self._app.started:
            return frozenset()
        try:
            return frozenset(self._app.consumer.assignment())
        except ConsumerNotStarted:
            return frozenset()


@contextmanager
def _rebalances(app: faust.App, alerts: AlertAgent) -> Iterator[None]:
    """Report rebalances to the alert agent.

    Faust keeps the handlers of all apps in a class attribute, by the hash of the app. Unless disconnected, they outlive
    the app with everything they refer to, and a later app with the same hash calls them.
    """

    async def on_revoked(_app: faust.App, _partitions: Any, **_more: Any) -> None:
        await alerts.on_revoked()

    async def on_assigned(_app: faust.App, _partitions: Any, **_more: Any) -> None:
        await alerts.on_assigned()

    app.on_partitions_revoked.connect(on_revoked, weak=False)
    app.on_partitions_assigned.connect(on_assigned, weak=False)
    try:
        yield
    finally:
        app.on_partitions_revoked.disconnect(on_revoked)
        app.on_partitions_assigned.disconnect(on_assigned)


def _raw(app: faust.App, name: str) -> faust.TopicT[Any]:
    return app.topic(name, value_type=bytes, value_serializer="raw", key_serializer="raw")


def _backlog(app: faust.App) -> int:
    """Count records between the client's positions and the last known ends of our partitions.

    Faust's own call for a position waits for the client's thread. This one only reads, from another thread: if the
    consumer has not started, or a partition is revoked meanwhile, the result is 0.
    """
    try:
        client = app.consumer._thread._ensure_consumer()
        assignment = client._subscription.subscription.assignment
        states = [assignment.state_value(partition) for partition in client.assignment()]
        return sum(max(0, state.highwater - state.position) for state in states if _is_known(state))
    except Exception as error:
        log.debug("cannot determine the monitor's backlog: %r", error)
        return 0


def _is_known(state: Any) -> bool:
    return state is not None and state.highwater is not None and state.has_valid_position


def _cluster_id(kafka: KafkaConfig) -> str | None:
    """Ask until the broker answers or refuses the login."""
    errors: list[KafkaError] = []
    options: dict[str, Any] = {**kafka.client_options(), "log_level": 0, "error_cb": errors.append}
    deadline = time.monotonic() + _START_SECONDS
    try:
        client = AdminClient(options, logger=log)
        while True:
            try:
                return client.list_topics(timeout=_ASK_SECONDS).cluster_id
            except KafkaException:
                client.poll(0)  # serves the callback, which knows more than the exception
                refused = [error.str() for error in errors if error.code() in _NOT_LET_IN]
                if refused:
                    raise StageError(f"Kafka at {kafka.bootstrap} refused the login: {refused[-1]}") from None
                if time.monotonic() > deadline:
                    raise
    except KafkaException as error:
        raise start_error(kafka.bootstrap, error.args[0]) from error


def _check_group(config: Config) -> None:
    """Raise if the broker denies access to the group: Faust would keep trying to join it, and log nothing."""
    client = AdminClient(config.kafka.client_options(), logger=log)
    wanted = [ConsumerGroupTopicPartitions(config.monitor.group)]
    [offsets] = client.list_consumer_group_offsets(wanted, request_timeout=_ASK_SECONDS).values()
    try:
        offsets.result()
    except KafkaException as error:
        if error.args[0].code() in DENIED:
            raise start_error(config.kafka.bootstrap, error.args[0]) from error
        log.debug("cannot check access to the group %s: %s", config.monitor.group, error)
