"""The agent: takes evaluations and score records from Faust, keeps what is known of apps, and publishes.

What it was given is acknowledged only when all that follows from it is on the broker. What is stored tells which
evaluations it includes and what it announced last; so whoever goes on from there, after a crash or because partitions
moved, takes the same records in the same order, comes to the same alerts, and publishes those that are missing.
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Any

from faust.types.events import EventT
from pydantic import ValidationError

from judges.evaluation import Evaluation
from sinks.metrics import DetectionMetrics
from stream.alarms.alert import Alert
from stream.alarms.partitionwatch import ANNOUNCER, PartitionWatch
from stream.alarms.plan import WatchPlan
from stream.alarms.scores import ScoreRecord, Source
from stream.alarms.store import AlarmStore
from stream.config import Config
from stream.detection import Kind, Reading
from stream.errors import StreamjuryError

log = logging.getLogger(__name__)

_AGAIN_SECONDS = 1.0
_SHOW_SECONDS = 2.0
# More that is not acknowledged is not taken.
_MOST_TAKEN = 2000


class AlarmAgent:
    """One for a process, in Faust's loop; only the store is waited for elsewhere."""

    def __init__(self, config: Config, metrics: DetectionMetrics) -> None:
        self._topic, self._metrics = config.topics.scores, metrics
        self._plan, self._store = WatchPlan(config), AlarmStore(config)
        self._watches: dict[int, PartitionWatch] = {}
        self._taken: list[EventT[Any]] = []
        self._alerts: list[Alert] = []
        self._settling = asyncio.Lock()
        self._partitions = 0
        self._shown_at = 0.0

    def prepare(self) -> None:
        """Before anything else: raises unless there are the topics that it needs."""
        self._partitions = self._store.check_topics()

    async def forward(self, event: EventT[Any], evaluation: Evaluation | None) -> None:
        """Sends the scores of an evaluation to where all of its app comes together; a canary's to every partition."""
        source = Source(partition=event.message.partition, offset=event.message.offset)
        record = None if evaluation is None else ScoreRecord.of(evaluation, source)
        if record is not None:
            for partition in (-1,) if record.canary is None else range(self._partitions):
                self._store.send(record.message(self._topic, partition))
        await self._done_with(event)

    async def observe(self, event: EventT[Any]) -> None:
        """Takes a score record. Nothing is raised: what cannot be read is told of and left out."""
        number = event.message.partition
        watch = self._watches.get(number) or await self._loaded(number)
        try:
            alerts = watch.observe(ScoreRecord.model_validate_json(event.value or b""))
        except ValidationError as error:
            why = error.errors(include_input=False)[0]["msg"]
            log.warning("a score at %s/%d/%d cannot be read: %s", self._topic, number, event.message.offset, why)
            alerts = []
        self._alerts += alerts
        await self._done_with(event)
        for alert in alerts:
            self._metrics.announced(alert.subject.value, alert.kind.value)
            log.log(logging.INFO if alert.kind is Kind.CLEARED else logging.WARNING, "%s", alert.summary)

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

    async def let_go(self) -> None:
        """Before partitions move: nothing is left unpublished, and nothing is remembered that another may change."""
        await self.settle()
        for watch in self._watches.values():
            for app in watch.apps:
                self._metrics.withdraw(app)
        self._metrics.withdraw_judges()
        self._watches.clear()

    def show(self) -> None:
        """Brings the metrics up to date, every few seconds."""
        if time.monotonic() - self._shown_at < _SHOW_SECONDS:
            return
        self._shown_at = time.monotonic()
        for watch in self._watches.values():
            for app, watched in watch.apps.items():
                shown = {series.dimension: now for series, now in watched.shown()}
                self._metrics.keep(app, shown)
                for dimension, now in shown.items():
                    self._show(app, dimension, now)
                for standing in watched.compared(app):
                    self._metrics.versions(app=app, **standing._asdict())
        if ANNOUNCER in self._watches:
            self._show_judges(self._watches[ANNOUNCER].canaries.shown())

    def _show(self, app: str, dimension: str, now: Reading) -> None:
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

    def _show_judges(self, shown: Mapping[str, Reading]) -> None:
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

    async def _loaded(self, number: int) -> PartitionWatch:
        """Goes on from what is stored; tries again and again, because what leaves the agent would lose its record."""
        while True:
            watch = PartitionWatch(self._plan, number)
            try:
                announced = watch.restore(await asyncio.to_thread(self._store.states, number))
                missing = await asyncio.to_thread(self._store.unpublished, announced)
                await asyncio.to_thread(self._store.publish, (), missing)
            except StreamjuryError as error:
                log.warning("what is known of apps cannot be read (%s); trying again", error)
                await asyncio.sleep(_AGAIN_SECONDS)
                continue
            self._watches[number] = watch
            return watch


def _bounds(now: Reading) -> tuple[float | None, float | None]:
    """Without a score there is nothing to tell."""
    return (now.current.low, now.current.high) if now.current.scores else (None, None)
