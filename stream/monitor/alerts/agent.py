"""The alert agent: takes evaluations and score records from Faust, keeps the state of the apps, and publishes alerts.

What it was given is acknowledged only when all that follows from it is on the broker. What is stored tells which
evaluations it includes and what it announced last; so whoever goes on from there, after a crash or because partitions
moved, takes the same records in the same order, comes to the same alerts, and publishes those that are missing.
"""

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping
from threading import Event
from typing import Any

from faust.types.events import EventT
from pydantic import ValidationError

from judges.values.evaluation import Evaluation
from sinks.metrics import DetectionMetrics
from sinks.topics.headers import SCHEMA_VERSION
from stream.config.model import Config
from stream.errors import RecordError, StreamjuryError
from stream.kafka.record import check_version
from stream.monitor.alerts.alert import Alert
from stream.monitor.alerts.plan import WatchPlan
from stream.monitor.alerts.score_record import ScoreRecord, Source
from stream.monitor.alerts.store import AlertStore
from stream.monitor.alerts.watch.app import AppWatch
from stream.monitor.alerts.watch.partition import ANNOUNCER, PartitionWatch
from stream.monitor.detection import EventKind, SeriesReading

log = logging.getLogger(__name__)

_AGAIN_SECONDS = 1.0
# At one look: an app with its intervals takes some milliseconds.
_APPS_SHOWN = 8
# An alert that goes on is no news to who reads the log.
_LEVELS = {EventKind.RAISED: logging.WARNING, EventKind.UPDATED: logging.DEBUG, EventKind.CLEARED: logging.INFO}
# More that is not acknowledged is not taken.
_MOST_TAKEN = 2000


class AlertAgent:
    """One for a process, in Faust's loop; only the store is waited for elsewhere."""

    def __init__(self, config: Config, metrics: DetectionMetrics) -> None:
        self._topic, self._metrics = config.topics.scores, metrics
        self._plan, self._store = WatchPlan(config), AlertStore(config)
        self._watches: dict[int, PartitionWatch] = {}
        self._taken: list[EventT[Any]] = []
        self._alerts: list[Alert] = []
        self._settling, self._loading = asyncio.Lock(), asyncio.Lock()
        self._partitions = 0
        self._stop = Event()
        self._unshown: dict[tuple[int, str], None] = {}
        """Apps of which the metrics are not up to date, by partition and name."""
        self._judges_unshown = False

    def prepare(self, stop: Event) -> None:
        """Before anything else: raises unless there are the topics that it needs, or `stop` is set."""
        self._stop = stop
        self._partitions = self._store.check_topics(stop)

    async def forward(self, event: EventT[Any], evaluation: Evaluation | None) -> None:
        """Sends the scores of an evaluation to where all of its app comes together; a canary's to every partition."""
        source = Source(partition=event.message.partition, offset=event.message.offset)
        record = None if evaluation is None else ScoreRecord.of(evaluation, source, now=time.time())
        if record is not None:
            for partition in (-1,) if record.canary is None else range(self._partitions):
                self._store.send(record.message(self._topic, partition))
        await self._done_with(event)

    async def observe(self, event: EventT[Any]) -> None:
        """Takes a score record. Nothing is raised: what cannot be read is told of and left out."""
        number = event.message.partition
        watch = self._watches.get(number) or await self._loaded(number)
        try:
            record = _read(event)
            alerts = watch.observe(record)
            self._to_show(number, record)
        except (RecordError, ValueError, OverflowError) as error:
            why = error.errors(include_input=False)[0]["msg"] if isinstance(error, ValidationError) else error
            log.warning("a score at %s/%d/%d cannot be read: %s", self._topic, number, event.message.offset, why)
            alerts = []
        self._alerts += alerts
        for app in watch.forgotten:
            self._metrics.withdraw(app)
        watch.forgotten.clear()
        await self._done_with(event)
        for alert in alerts:
            self._metrics.announced(alert.subject.value, alert.kind.value)
            log.log(_LEVELS[alert.kind], "%s", alert.summary)

    async def settle(self) -> None:
        """Publishes what follows from what was taken, then acknowledges it."""
        async with self._settling:
            taken, self._taken = self._taken, []
            alerts, self._alerts = self._alerts, []
            states = [
                (number, key, value) for number, watch in self._watches.items() for key, value in watch.take_changes()
            ]
            if taken:
                await asyncio.to_thread(self._store.publish, states, alerts)
            for event in taken:
                event.ack()

    async def finish(self, seconds: float) -> bool:
        """Settles for the last time; False if that takes longer than so many seconds, and is given up."""
        try:
            await asyncio.wait_for(self.settle(), seconds)
        except (TimeoutError, StreamjuryError) as error:
            log.warning("alarms are left to the next monitor: %s", error or "the broker does not answer")
            self._store.close()
            return False
        return True

    async def let_go(self) -> None:
        """Before partitions move: nothing is left unpublished, and nothing is remembered that another may change."""
        async with self._loading:
            await self.settle()
            while self._taken:  # what came meanwhile
                await self.settle()
            self._forget()

    def _forget(self) -> None:
        for watch in self._watches.values():
            for app in watch.apps:
                self._metrics.withdraw(app)
        self._metrics.withdraw_judges()
        self._watches.clear()
        self._unshown.clear()

    async def load(self, partitions: Iterable[int]) -> None:
        """Goes on with what is known of these, also where nothing new comes: an open alert must not look ended."""
        for number in partitions:
            if number not in self._watches and not self._stop.is_set():
                await self._loaded(number)

    def show(self) -> None:
        """Brings the metrics of some apps up to date, those first that have waited for the longest."""
        for number, app in list(self._unshown)[:_APPS_SHOWN]:
            del self._unshown[number, app]
            watch = self._watches.get(number)
            if watch is not None and app in watch.apps:
                self._show_app(app, watch.apps[app])
        if ANNOUNCER in self._watches and self._judges_unshown:
            self._judges_unshown = False
            self._show_judges(self._watches[ANNOUNCER].canaries.shown())

    def _show_app(self, app: str, watched: AppWatch) -> None:
        shown = {series.dimension: now for series, now in watched.shown()}
        self._metrics.keep(app, shown)
        for dimension, now in shown.items():
            self._show(app, dimension, now)
        for standing in watched.compared(app):
            self._metrics.versions(app=app, **standing._asdict())

    def _show(self, app: str, dimension: str, now: SeriesReading) -> None:
        low, high = _bounds(now)
        self._metrics.show(
            app,
            dimension,
            evidence=now.evidence,
            enough=now.enough,
            mean=now.current.mean,
            low=low,
            high=high,
            target=now.target,
            raised=now.is_raised,
        )

    def _show_judges(self, shown: Mapping[str, SeriesReading]) -> None:
        self._metrics.keep_judges(shown)
        for dimension, now in shown.items():
            low, high = _bounds(now)
            self._metrics.judges(
                dimension, evidence=now.evidence, enough=now.enough, low=low, high=high, changed=now.is_raised
            )

    async def _done_with(self, event: EventT[Any]) -> None:
        """It is acknowledged as soon as what follows from it is published: so nothing may be awaited in between."""
        self._taken.append(event)
        if len(self._taken) >= _MOST_TAKEN:
            await self.settle()

    def _to_show(self, number: int, record: ScoreRecord) -> None:
        if record.canary is None:
            self._unshown[number, record.app] = None
        else:
            self._judges_unshown = True

    async def _loaded(self, number: int) -> PartitionWatch:
        async with self._loading:
            known = self._watches.get(number) or await self._restored(number)
            self._watches[number] = known
            self._unshown |= {(number, app): None for app in known.apps}
            self._judges_unshown = True
            return known

    async def _restored(self, number: int) -> PartitionWatch:
        """Goes on from what is stored; tries again and again, because what leaves the agent would lose its record."""
        while True:
            watch = PartitionWatch(self._plan, number)
            try:
                announced = watch.restore(await asyncio.to_thread(self._store.states, number))
                missing = await asyncio.to_thread(self._store.unpublished, announced)
                await asyncio.to_thread(self._store.publish, (), missing)
            except StreamjuryError as error:
                if self._stop.is_set():
                    raise
                log.warning("what is known of apps cannot be read (%s); trying again", error)
                await asyncio.sleep(_AGAIN_SECONDS)
                continue
            return watch


def _bounds(now: SeriesReading) -> tuple[float | None, float | None]:
    """Without a score there is nothing to tell."""
    return (now.current.low, now.current.high) if now.current.scores else (None, None)


def _read(event: EventT[Any]) -> ScoreRecord:
    check_version(dict(event.headers or {}).get(SCHEMA_VERSION))
    return ScoreRecord.model_validate_json(event.value or b"")
