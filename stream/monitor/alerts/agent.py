"""The alert agent: takes evaluations and score records from Faust, keeps the state of the apps, and publishes alerts.

What it was given is acknowledged only when all that follows from it is on the broker. What is stored tells which
evaluations it includes and what it announced last; so whoever goes on from there, after a crash or because partitions
moved, takes the same records in the same order, and comes to the same alerts.

A partition whose writer is refused belongs to another monitor, as a rule, and Faust will soon say so. Until then its
records are set aside: not published, not acknowledged. If Faust does not say so, the partition is still ours: it is
taken up again from what is stored, and goes on with what was set aside.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from faust.types.events import EventT

from judges.values.evaluation import Evaluation
from sinks.metrics import DetectionMetrics
from sinks.topics.headers import SCHEMA_VERSION
from stream.config.model import Config
from stream.errors import RecordError, StreamjuryError
from stream.kafka.record import Record
from stream.monitor.alerts.alert import Alert
from stream.monitor.alerts.plan import WatchPlan
from stream.monitor.alerts.score_record import ScoreRecord, Source
from stream.monitor.alerts.store import AlertStore, Changes
from stream.monitor.alerts.stored_states import StoredStates
from stream.monitor.alerts.watch.app import AppWatch
from stream.monitor.alerts.watch.partition import ANNOUNCER, PartitionWatch
from stream.monitor.canary_rounds import CanaryRounds
from stream.monitor.detection import EventKind, SeriesReading
from stream.monitor.faust_app.events import record_of
from stream.monitor.faust_app.unacknowledged import count_again, leave_out
from stream.monitor.reading import read_score
from stream.records.canaries import read_canaries

log = logging.getLogger(__name__)

_AGAIN_SECONDS = 1.0
# At one look: an app with its intervals takes some milliseconds.
_APPS_SHOWN = 8
# An alert that goes on is no news to who reads the log.
_LEVELS = {EventKind.RAISED: logging.WARNING, EventKind.UPDATED: logging.DEBUG, EventKind.CLEARED: logging.INFO}
# More that is not acknowledged is not taken.
_MOST_TAKEN = 2000


# Longer than the group takes to notice a member that was away, and to tell it so: its session is 10 seconds.
_RETAKE_SECONDS = 15.0
# With more set aside of one partition, the others wait too.
_MOST_ASIDE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class _Aside:
    """A partition that may not be ours any more, with its records since what was last published."""

    retake_at: float
    """When it is taken up again if it is still assigned to us, on the monotonic clock."""
    events: list[EventT[Any]] = field(default_factory=list)
    over: asyncio.Event = field(default_factory=asyncio.Event)
    """It was taken up again, or revoked."""


class AlertAgent:
    """One for a process, in Faust's loop; only the store is waited for elsewhere."""

    def __init__(
        self,
        config: Config,
        metrics: DetectionMetrics,
        *,
        transactions: bool,
        on_refused: Callable[[RecordError], None] = lambda _error: None,
    ) -> None:
        """`transactions` says whether the broker isolates them: then each alert is published once.

        `on_refused` is called for every record that becomes a dead letter here.
        """
        self._on_refused, self._least_probability = on_refused, config.least_probability
        self._topic, self._metrics = config.topics.scores, metrics
        self._plan, self._store = WatchPlan(config), AlertStore(config, transactions=transactions)
        self._watches: dict[int, PartitionWatch] = {}
        self._aside: dict[int, _Aside] = {}
        self._taken: list[EventT[Any]] = []
        self._alerts: dict[int, list[Alert]] = {}
        """Those that are not published yet, by partition."""
        self._settling, self._loading = asyncio.Lock(), asyncio.Lock()
        self._moving = True
        """Partitions are being handed out: those that we had may already be another's."""
        self._partitions = 0
        self._stop = Event()
        self._unshown: dict[tuple[int, str], None] = {}
        """Apps of which the metrics are not up to date, by partition and name."""
        self._judges_unshown = False
        canaries = config.detection.canaries
        self._canaries = () if canaries is None else tuple(canary.id for canary in read_canaries(canaries.file))
        self._round_seconds = 0.0 if canaries is None else canaries.every_minutes * 60.0
        self._rounds: CanaryRounds | None = None
        """While the canaries are followed here."""

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
        self._taken.append(event)
        await self._settle_if_many()

    async def observe(self, event: EventT[Any]) -> None:
        """Takes a score record. Nothing is raised: what cannot be used becomes a dead letter."""
        number = event.message.partition
        while number not in self._watches and number not in self._aside:
            await self._load(number)
        if number in self._aside:
            await self._put_aside(number, event)
            return
        self._take(number, event)
        await self._settle_if_many()

    def _take(self, number: int, event: EventT[Any]) -> None:
        """It is acknowledged as soon as what follows from it is published: so nothing may be awaited in between."""
        watch = self._watches[number]
        try:
            schema = dict(event.headers or {}).get(SCHEMA_VERSION)
            record = read_score(event.value, schema, now=time.time(), least_probability=self._least_probability)
            self._alerts.setdefault(number, []).extend(watch.observe(record))
            self._to_show(number, record)
        except RecordError as error:
            log.warning("rejected a score at %s/%d/%d: %s", self._topic, number, event.message.offset, error)
            self._on_refused(error)
            self.dead_letter(record_of(event), error)
        for app in watch.forgotten:
            self._metrics.withdraw(app)
        watch.forgotten.clear()
        self._taken.append(event)

    def dead_letter(self, record: Record, error: RecordError) -> None:
        """Puts a record that is refused on its way; it is acknowledged when it has arrived among the dead letters."""
        self._store.dead_letter(record, error)

    async def settle(self) -> None:
        """Publishes what follows from what was taken, then acknowledges it."""
        async with self._settling:
            if not self._taken:
                return
            taken, self._taken = self._taken, []
            changes = self._take_changes()
            refused = await asyncio.to_thread(self._store.publish, changes)
            for event in taken:
                if self._score_partition(event) not in refused:
                    event.ack()
            for number, reason in refused.items():
                self._set_aside(number, reason, taken)
            for number, change in changes.items():
                if number not in refused:
                    self._report(change.alerts)

    def _take_changes(self) -> dict[int, Changes]:
        alerts, self._alerts = self._alerts, {}
        changes = {
            number: Changes(list(watch.take_changes()), alerts.get(number, []))
            for number, watch in self._watches.items()
        }
        return {number: change for number, change in changes.items() if change.states or change.alerts}

    def _report(self, alerts: Iterable[Alert]) -> None:
        for alert in alerts:
            self._metrics.count_announcement(alert.subject.value, alert.kind.value)
            log.log(_LEVELS[alert.kind], "%s", alert.summary)

    def _score_partition(self, event: EventT[Any]) -> int | None:
        """The partition of the scores that an event is of; None for an evaluation."""
        return event.message.partition if event.message.topic == self._topic else None

    # Partitions that may not be ours any more

    def _set_aside(self, number: int, reason: str, taken: Iterable[EventT[Any]]) -> None:
        """Publishes no more of a partition; `taken` has what could not be published."""
        log.warning("stopped publishing for %s/%d: %s", self._topic, number, reason)
        events = [event for event in (*taken, *self._taken) if self._score_partition(event) == number]
        self._taken = [event for event in self._taken if self._score_partition(event) != number]
        self._alerts.pop(number, None)
        self._forget([number])
        self._aside[number] = _Aside(retake_at=time.monotonic() + _RETAKE_SECONDS, events=events)
        for event in events:
            leave_out(event)

    async def _put_aside(self, number: int, event: EventT[Any]) -> None:
        aside = self._aside[number]
        aside.events.append(event)
        leave_out(event)
        if len(aside.events) > _MOST_ASIDE:
            await aside.over.wait()

    async def _retake(self, number: int) -> None:
        """Takes a partition up again that is still ours, and what was set aside of it."""
        async with self._loading:
            if number not in self._aside or self._moving:
                return
            watch = await self._restored(number)
            log.info("%s/%d is still assigned to this monitor; resuming it", self._topic, number)
            aside = self._aside.pop(number)
            aside.over.set()
            self._watch(number, watch)
            for event in aside.events:
                count_again(event)
                self._take(number, event)

    async def finish(self, seconds: float) -> bool:
        """Settles for the last time; False if that takes longer than so many seconds, and is given up."""
        try:
            await asyncio.wait_for(self.settle(), seconds)
        except (TimeoutError, StreamjuryError) as error:
            log.warning("alerts are left to the next monitor: %s", str(error) or "the broker is not responding")
            self._store.close()
            return False
        return True

    async def on_revoked(self) -> None:
        """Before partitions move: nothing is left unpublished, and nothing is remembered that another may change."""
        self._moving = True
        await self._let_go()

    async def on_assigned(self) -> None:
        """After partitions moved: whatever came between is of no use either."""
        await self._let_go()
        self._moving = False

    async def _let_go(self) -> None:
        async with self._loading:
            await self.settle()
            while self._taken:  # what came meanwhile
                await self.settle()
            self._forget(list(self._watches))
            # They were not acknowledged: the next owner reads them again.
            for aside in self._aside.values():
                aside.over.set()
            self._aside.clear()
            await asyncio.to_thread(self._store.release)

    def _forget(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            for app in self._watches.pop(number).apps:
                self._metrics.withdraw(app)
            if number == ANNOUNCER:
                self._rounds = None
                self._metrics.withdraw_judges()
        self._unshown = {shown: None for shown in self._unshown if shown[0] in self._watches}

    async def load(self, partitions: Iterable[int]) -> None:
        """Goes on with what is known of these, also where nothing new comes: an open alert must not look ended."""
        for number in partitions:
            if self._moving or self._stop.is_set():
                return
            if number not in self._aside:
                await self._load(number, unless_moving=True)
            elif time.monotonic() >= self._aside[number].retake_at:
                await self._retake(number)

    def show(self) -> None:
        """Brings the metrics of some apps up to date, those first that have waited for the longest."""
        for number, app in list(self._unshown)[:_APPS_SHOWN]:
            del self._unshown[number, app]
            watch = self._watches.get(number)
            if watch is not None and app in watch.apps:
                try:
                    self._show_app(app, watch.apps[app])
                except Exception:  # one app must not end the metrics of all
                    log.exception("cannot update the metrics of %s", app)
        if self._rounds is not None:
            self._metrics.canaries_missing(self._rounds.missing(time.time()))
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

    async def _settle_if_many(self) -> None:
        if len(self._taken) >= _MOST_TAKEN:
            await self.settle()

    def _to_show(self, number: int, record: ScoreRecord) -> None:
        if record.canary is None:
            self._unshown[number, record.app] = None
        else:
            self._judges_unshown = True
            if number == ANNOUNCER and self._rounds is not None:
                self._rounds.hear(record.canary, record.at)

    async def _load(self, number: int, *, unless_moving: bool = False) -> None:
        async with self._loading:
            if number in self._watches or number in self._aside or (unless_moving and self._moving):
                return
            self._watch(number, await self._restored(number))

    def _watch(self, number: int, watch: PartitionWatch) -> None:
        self._watches[number] = watch
        if number == ANNOUNCER and self._canaries:
            self._rounds = CanaryRounds(self._canaries, self._round_seconds, now=time.time())
        self._unshown |= {(number, app): None for app in watch.apps}
        self._judges_unshown = True

    async def _restored(self, number: int) -> PartitionWatch:
        """Goes on from what is stored; tries again and again, because what leaves the agent would lose its record."""
        while True:
            watch = PartitionWatch(self._plan, number)
            try:
                stored = await asyncio.to_thread(self._store.take_up, number)
                announced = watch.restore(stored.states())
                await asyncio.to_thread(self._discard_refused, number, stored, watch.refused)
                await asyncio.to_thread(self._store.publish_missing, number, announced)
            except StreamjuryError as error:
                if self._stop.is_set():
                    raise
                log.warning("cannot read the state of apps (%s); retrying", error)
                await asyncio.sleep(_AGAIN_SECONDS)
                continue
            return watch

    def _discard_refused(self, number: int, stored: StoredStates, refused: Mapping[str, RecordError]) -> None:
        for key, error in refused.items():
            stored.refuse(key, error)
        if letters := stored.refused():
            self._store.discard(number, stored)
            for letter in letters:
                place = letter.record.partition
                log.warning("rejected a state at %s/%d: %s", place.topic, place.number, letter.error)
                self._on_refused(letter.error)


def _bounds(now: SeriesReading) -> tuple[float | None, float | None]:
    """Without a score there is nothing to tell."""
    return (now.current.low, now.current.high) if now.current.scores else (None, None)
