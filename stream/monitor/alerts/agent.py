"""The alert agent: takes evaluations and score records from Faust, keeps the state of the apps, and publishes alerts.

Events are acknowledged only when everything that follows from them is on the broker. A stored state lists the
evaluations that it includes and its last announcements. So a monitor that resumes from it after a crash or a rebalance
takes the same records in the same order and raises the same alerts.

A partition whose writer is refused usually belongs to another monitor, and Faust will soon revoke it. Until then its
records are set aside: not published, not acknowledged. If Faust does not revoke it, the partition is still ours: it is
loaded again from the stored state, and continues with the records that were set aside.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from threading import Event
from typing import Any

from faust.types.events import EventT

from judges.values.evaluation import Evaluation
from judges.values.label import Label
from sinks.metrics import DetectionMetrics
from sinks.metrics.detection import AgreementStanding
from sinks.topics.headers import SCHEMA_VERSION, SCORES_KIND
from stream.config.model import Config
from stream.errors import RecordError, StreamjuryError
from stream.kafka.record import Record
from stream.monitor.alerts.alert import Alert, Attribution
from stream.monitor.alerts.labels.label_record import LABEL_KIND, label_message, read_label
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
# Per update of the metrics: an app with its intervals takes some milliseconds.
_APPS_SHOWN = 8
# An alert that continues is not news for readers of the log.
_LEVELS = {EventKind.RAISED: logging.WARNING, EventKind.UPDATED: logging.DEBUG, EventKind.CLEARED: logging.INFO}
# Corrected means of an app with thousands of new labels take a part of a second.
_CORRECT_SECONDS = 5.0
# Maximum number of unacknowledged events.
_MOST_TAKEN = 2000


# Longer than the group takes to notice a lost member and to notify it: its session is 10 seconds.
_RETAKE_SECONDS = 15.0
# If more events of one partition are set aside, the other partitions wait too.
_MOST_ASIDE = 500
# Below the 1,048,588 bytes that a topic accepts by default, with room for headers and framing.
_MOST_SCORE_BYTES = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Aside:
    """A partition that may no longer be ours, with its events since the last publication."""

    retake_at: float
    """Monotonic time at which it is loaded again if it is still assigned to us."""
    events: list[EventT[Any]] = field(default_factory=list)
    over: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when it was loaded again or revoked."""


class AlertAgent:
    """One per process, in Faust's event loop; calls of the store run in threads."""

    def __init__(
        self,
        config: Config,
        metrics: DetectionMetrics,
        *,
        transactions: bool,
        on_refused: Callable[[RecordError], None] = lambda _error: None,
    ) -> None:
        """`transactions`: whether the broker isolates them; if so, each alert is published once.

        `on_refused` is called for every record that is dead-lettered here.
        """
        self._on_refused, self._least_probability = on_refused, config.least_probability
        self._least_label_probability = config.least_label_probability
        self._topic, self._metrics = config.topics.scores, metrics
        self._plan, self._store = WatchPlan(config), AlertStore(config, transactions=transactions)
        self._watches: dict[int, PartitionWatch] = {}
        self._aside: dict[int, _Aside] = {}
        self._taken: list[EventT[Any]] = []
        self._alerts: dict[int, list[Alert]] = {}
        """Alerts that are not published yet, by partition."""
        self._settling, self._loading = asyncio.Lock(), asyncio.Lock()
        self._moving = True
        """Whether a rebalance is in progress: our partitions may already belong to another monitor."""
        self._partitions = 0
        self.has_labels = False
        """Whether the topic of labels can be read."""
        self._stop = Event()
        self._unshown: dict[tuple[int, str], None] = {}
        """Apps whose metrics are out of date, by partition and name."""
        self._judges_unshown = False
        self._correct_at = 0.0
        canaries = config.detection.canaries
        self._canaries = () if canaries is None else tuple(canary.id for canary in read_canaries(canaries.file))
        self._round_seconds = 0.0 if canaries is None else canaries.every_minutes * 60.0
        self._rounds: CanaryRounds | None = None
        """Set while this monitor follows the canaries."""

    def prepare(self, stop: Event) -> None:
        """Call this first. Raise unless the required topics exist, or `stop` is set."""
        self._stop = stop
        self._partitions = self._store.check_topics(stop)
        self.has_labels = not stop.is_set() and self._store.has_labels()

    async def forward(self, event: EventT[Any], evaluation: Evaluation | None) -> None:
        """Send the scores of an evaluation to the partition of its app; those of a canary to every partition.

        Raise nothing, as `observe`.
        """
        source = Source(partition=event.message.partition, offset=event.message.offset)
        record = None if evaluation is None else ScoreRecord.of(evaluation, source, now=time.time())
        if record is not None:
            try:
                self._send_scores(record)
            except RecordError as error:
                self._refuse(event, error)
        self._taken.append(event)
        await self._settle_if_many()

    def _send_scores(self, record: ScoreRecord) -> None:
        """Raise `RecordError` if the scores do not fit on their topic: the broker would refuse them at every start."""
        message = record.message(self._topic)
        size = len(message.value or b"")
        if size > _MOST_SCORE_BYTES:
            raise RecordError("too_large", f"its scores have {size} bytes, the limit is {_MOST_SCORE_BYTES}")
        for partition in (-1,) if record.canary is None else range(self._partitions):
            self._store.send(replace(message, partition=partition))

    async def forward_label(self, event: EventT[Any]) -> None:
        """Send a label to every partition, because it does not name its app. Raise nothing, as `observe`."""
        try:
            label = self._read_label(event)
            for partition in range(self._partitions):
                self._store.send(label_message(label, self._topic, partition))
        except RecordError as error:
            self._refuse(event, error)
        self._taken.append(event)
        await self._settle_if_many()

    async def observe(self, event: EventT[Any]) -> None:
        """Take a score record or a label. Raise nothing: a record that cannot be used is dead-lettered."""
        number = event.message.partition
        while number not in self._watches and number not in self._aside:
            await self._load(number)
        if number in self._aside:
            await self._add_aside(number, event)
            return
        self._take(number, event)
        await self._settle_if_many()

    def _take(self, number: int, event: EventT[Any]) -> None:
        """Process an event. Do not await anything here: the event is acknowledged with the next publication."""
        watch = self._watches[number]
        try:
            if _header(event, SCORES_KIND) == LABEL_KIND:
                self._alerts.setdefault(number, []).extend(watch.observe_label(self._read_label(event)))
            else:
                schema = _header(event, SCHEMA_VERSION)
                record = read_score(event.value, schema, now=time.time(), least_probability=self._least_probability)
                self._alerts.setdefault(number, []).extend(watch.observe(record))
                self._mark_for_metrics(number, record)
        except RecordError as error:
            self._refuse(event, error)
        for app in watch.forgotten:
            self._metrics.withdraw(app)
        watch.forgotten.clear()
        self._taken.append(event)

    def _read_label(self, event: EventT[Any]) -> Label:
        schema = _header(event, SCHEMA_VERSION)
        return read_label(event.value, schema, least_probability=self._least_label_probability)

    def _refuse(self, event: EventT[Any], error: RecordError) -> None:
        message = event.message
        log.warning("rejected a record at %s/%d/%d: %s", message.topic, message.partition, message.offset, error)
        self._on_refused(error)
        self.dead_letter(record_of(event), error)

    def dead_letter(self, record: Record, error: RecordError) -> None:
        """Send a refused record to the dead-letter topic; its event is acknowledged when it has arrived."""
        self._store.dead_letter(record, error)

    async def settle(self) -> None:
        """Publish everything that follows from the taken events, then acknowledge them."""
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
        """Return the scores partition of an event; None for an evaluation or a label."""
        return event.message.partition if event.message.topic == self._topic else None

    # Partitions that may no longer be ours

    def _set_aside(self, number: int, reason: str, taken: Iterable[EventT[Any]]) -> None:
        """Stop publishing for a partition; `taken` contains the events that could not be published."""
        log.warning("stopped publishing for %s/%d: %s", self._topic, number, reason)
        events = [event for event in (*taken, *self._taken) if self._score_partition(event) == number]
        self._taken = [event for event in self._taken if self._score_partition(event) != number]
        self._alerts.pop(number, None)
        self._forget([number])
        self._aside[number] = _Aside(retake_at=time.monotonic() + _RETAKE_SECONDS, events=events)
        for event in events:
            leave_out(event)

    async def _add_aside(self, number: int, event: EventT[Any]) -> None:
        aside = self._aside[number]
        aside.events.append(event)
        leave_out(event)
        if len(aside.events) > _MOST_ASIDE:
            await aside.over.wait()

    async def _retake(self, number: int) -> None:
        """Load a partition that is still ours again, and process its events that were set aside."""
        async with self._loading:
            if number not in self._aside or self._moving:
                return
            watch = await self._restore(number)
            log.info("%s/%d is still assigned to this monitor; resuming it", self._topic, number)
            aside = self._aside.pop(number)
            aside.over.set()
            self._watch(number, watch)
            for event in aside.events:
                count_again(event)
                self._take(number, event)

    async def finish(self, seconds: float) -> bool:
        """Settle for the last time, after a partition that is being loaded; return False if that takes longer."""
        try:
            async with asyncio.timeout(seconds), self._loading:
                await self.settle()
        except (TimeoutError, StreamjuryError) as error:
            log.warning("alerts are left to the next monitor: %s", str(error) or "the broker is not responding")
            self._store.close()
            return False
        return True

    def close(self) -> None:
        """End the clients of all partitions; call this last."""
        self._store.release()

    async def on_revoked(self) -> None:
        """Before a rebalance: publish everything, and forget all state that another monitor may change."""
        self._moving = True
        await self._let_go()

    async def on_assigned(self) -> None:
        """After a rebalance: also forget what arrived during it."""
        await self._let_go()
        self._moving = False

    async def _let_go(self) -> None:
        async with self._loading:
            await self.settle()
            while self._taken:  # events that arrived meanwhile
                await self.settle()
            self._forget(list(self._watches))
            # Their events were not acknowledged, so the next owner reads them again.
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
        self._unshown = {key: None for key in self._unshown if key[0] in self._watches}

    async def load(self, partitions: Iterable[int]) -> None:
        """Load these partitions, even without new records: an open alert must not appear to have ended."""
        for number in partitions:
            if self._moving or self._stop.is_set():
                return
            if number not in self._aside:
                await self._load(number, unless_moving=True)
            elif time.monotonic() >= self._aside[number].retake_at:
                await self._retake(number)

    def show(self) -> None:
        """Update the metrics of some apps, starting with those that have waited longest."""
        for number, app in list(self._unshown)[:_APPS_SHOWN]:
            del self._unshown[number, app]
            watch = self._watches.get(number)
            if watch is not None and app in watch.apps:
                try:
                    self._show_app(app, watch.apps[app])
                except Exception:  # one app must not end the metrics of all
                    log.exception("cannot update the metrics of %s", app)
        self._show_corrections()
        if self._rounds is not None:
            self._metrics.canaries_missing(self._rounds.missing(time.time()))
        if ANNOUNCER in self._watches and self._judges_unshown:
            self._judges_unshown = False
            self._show_judges(self._watches[ANNOUNCER].canaries.readings())

    def _show_app(self, app: str, watched: AppWatch) -> None:
        readings = {series.dimension: reading for series, reading in watched.readings()}
        self._metrics.keep(app, readings)
        attributions = watched.attributions()
        for dimension, reading in readings.items():
            self._show(app, dimension, reading, attributions.get(dimension, Attribution.UNKNOWN))
        for standing in watched.comparisons(app):
            self._metrics.versions(app=app, **standing._asdict())

    def _show_corrections(self) -> None:
        """Update the corrected means of all apps with labels, some seconds after the last time."""
        if time.monotonic() < self._correct_at:
            return
        for watch in self._watches.values():
            for app in watch.corrected_apps():
                try:
                    self._metrics.correct(app, *watch.correct(app, now=time.time()))
                    readings = watch.apps[app].agreement.readings()
                    standings = {key: _standing(reading) for key, reading in readings.items()}
                    self._metrics.agree(app, watch.measure_judges(app, now=time.time()), standings)
                    self._metrics.agree_on_slices(app, watch.measure_slices(app, now=time.time()))
                except Exception:  # one app must not end the metrics of all
                    log.exception("cannot update the corrected means of %s", app)
        self._correct_at = time.monotonic() + _CORRECT_SECONDS

    def _show(self, app: str, dimension: str, reading: SeriesReading, attribution: Attribution) -> None:
        low, high = _bounds(reading)
        is_known = attribution is not Attribution.UNKNOWN
        self._metrics.show(
            app,
            dimension,
            evidence=reading.evidence,
            enough=reading.enough,
            mean=reading.current.mean,
            low=low,
            high=high,
            target=reading.target,
            raised=reading.is_raised,
            attributed_to_judges=attribution is Attribution.JUDGE if is_known else None,
        )

    def _show_judges(self, readings: Mapping[str, SeriesReading]) -> None:
        self._metrics.keep_judges(readings)
        for dimension, reading in readings.items():
            low, high = _bounds(reading)
            self._metrics.judges(
                dimension,
                evidence=reading.evidence,
                enough=reading.enough,
                low=low,
                high=high,
                changed=reading.is_raised,
            )

    async def _settle_if_many(self) -> None:
        if len(self._taken) >= _MOST_TAKEN:
            await self.settle()

    def _mark_for_metrics(self, number: int, record: ScoreRecord) -> None:
        if record.canary is None:
            self._unshown[number, record.app] = None
        else:
            self._judges_unshown = True
            if number == ANNOUNCER and self._rounds is not None:
                self._rounds.record_evaluation(record.canary, record.at)

    async def _load(self, number: int, *, unless_moving: bool = False) -> None:
        async with self._loading:
            if number in self._watches or number in self._aside or (unless_moving and self._moving):
                return
            self._watch(number, await self._restore(number))

    def _watch(self, number: int, watch: PartitionWatch) -> None:
        self._watches[number] = watch
        if number == ANNOUNCER and self._canaries:
            self._rounds = CanaryRounds(self._canaries, self._round_seconds, now=time.time())
        self._unshown |= {(number, app): None for app in watch.apps}
        self._judges_unshown = True

    async def _restore(self, number: int) -> PartitionWatch:
        """Load the stored state of a partition. Retry until it works: an exception would make Faust lose the record."""
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
        if letters := stored.list_refused():
            self._store.discard(number, stored)
            for letter in letters:
                place = letter.record.partition
                log.warning("rejected a state at %s/%d: %s", place.topic, place.number, letter.error)
                self._on_refused(letter.error)


def _header(event: EventT[Any], name: str) -> bytes | None:
    return dict(event.headers or {}).get(name)


def _standing(reading: SeriesReading) -> AgreementStanding:
    low, high = _bounds(reading)
    return AgreementStanding(
        mean=reading.current.mean,
        low=low,
        high=high,
        target=reading.target,
        evidence=reading.evidence,
        enough=reading.enough,
        fallen=reading.is_raised,
    )


def _bounds(reading: SeriesReading) -> tuple[float | None, float | None]:
    """Return the interval of the current mean; None without a mean."""
    return (None, None) if reading.current.mean is None else (reading.current.low, reading.current.high)
