"""Everything that is watched in one partition of the scores topic: its apps, and the canaries.

Canaries are sent to every partition, so that each detects a change of the judges itself; only the first partition
announces it.
"""

import json
import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from pydantic import ValidationError

from judges.values.label import Label
from sinks.statistics.corrected import CorrectedEstimate
from sinks.statistics.judge_quality import JudgeCriterion, JudgeQuality, JudgeSlice
from stream.errors import RecordError
from stream.kafka.topics import STATE_BYTES
from stream.monitor.alerts.alert import Alert
from stream.monitor.alerts.labels.corrections import AppLabels, Reactions, collect_labels
from stream.monitor.alerts.labels.memory import LabelMemory, is_chunk_key
from stream.monitor.alerts.plan import WatchPlan
from stream.monitor.alerts.score_record import MAX_NAME_CHARS, ScoreRecord
from stream.monitor.alerts.watch.app import AppWatch
from stream.monitor.alerts.watch.canaries import CanaryWatch
from stream.monitor.alerts.watch.stored import VERSION, StoredApp, StoredCanaries
from stream.monitor.detection import EventKind, first_problem
from stream.monitor.detection.attribution import AttributionState
from stream.records.canaries import CANARIES_APP, canary_id_of

log = logging.getLogger(__name__)

ANNOUNCER = 0
"""The partition that announces facts that all partitions know."""

_CANARIES = "canaries"
_APP = "app:"
# App names come from the traffic: the app that has been silent longest is removed first.
MOST_APPS = 1000
# The broker's limit covers the record with its key and framing.
_MOST_STATE_BYTES = STATE_BYTES - 64 * 1024


class PartitionWatch:
    """Takes score records in the order of their partition."""

    def __init__(self, plan: WatchPlan, number: int) -> None:
        self._plan, self._number = plan, number
        self.apps: dict[str, AppWatch] = {}
        """In order of their latest record."""
        self.forgotten: list[str] = []
        """Apps that were removed, until the agent clears this list."""
        self.refused: dict[str, RecordError] = {}
        """Why stored states could not be restored, by key."""
        self.canaries = CanaryWatch(plan)
        self.labels = LabelMemory()
        self._app_labels: dict[str, AppLabels] = {}
        """Collected when an app's labels have changed."""
        self._announced: dict[str, list[Alert]] = {}
        """The latest announcements, which are stored too: a monitor that resumes publishes those that are missing."""
        self._changed: dict[str, None] = {}
        self._unstored: set[str] = set()
        """Keys with alerts that are not stored yet."""

    def observe(self, record: ScoreRecord) -> list[Alert]:
        """Return the alerts to announce now; raise `RecordError` if the state of the record's key cannot process it.

        States that we wrote do not fail. One that does is discarded, so that only its own key starts over.
        """
        is_canary = record.canary is not None
        with self._start_over_if_broken(_CANARIES if is_canary else _APP + record.app):
            return self._observe_canary(record) if is_canary else self._observe_app(record)

    @contextmanager
    def _start_over_if_broken(self, key: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            log.exception("the state of %s cannot process a record; restarting its detectors", key)
            self._start_over(key)
            raise RecordError("internal_error", f"{type(error).__name__}: {error}") from error

    def _observe_app(self, record: ScoreRecord) -> list[Alert]:
        app = self.apps.pop(record.app, None) or AppWatch(self._plan, self._changed_dimensions, self._anchors)
        self.apps[record.app] = app
        alerts = []
        if app.include(record):
            labels = self.labels.add_answer(record)
            alerts = [*app.detect(record), *app.compare(labels)]
        self._note(_APP + record.app, alerts)
        return alerts if len(self.apps) <= MOST_APPS else [*alerts, *self._forget(record.at)]

    def observe_label(self, label: Label) -> list[Alert]:
        """Take a label of any app; it is joined if the app is one of this partition.

        Return the alerts to announce now; raise `RecordError` as `observe` does.
        """
        try:
            return self._observe_label(label)
        except RecordError:
            raise
        except Exception as error:
            log.exception("cannot process a label; leaving it out")
            raise RecordError("internal_error", f"{type(error).__name__}: {error}") from error

    def _observe_label(self, label: Label) -> list[Alert]:
        alerts = []
        if label.kind == "anchor":
            # Under its id in the file, in whichever round it was labelled.
            label = label.model_copy(update={"interaction_id": canary_id_of(label.interaction_id)})
        for joined in self.labels.add_label(label):
            name = "" if joined.answer is None else joined.answer.app
            if name in self.apps:
                with self._start_over_if_broken(_APP + name):
                    alerts += self._note(_APP + name, self.apps[name].compare([joined]))
        if label.kind == "anchor" and self.canaries.label(
            label.interaction_id, self.labels.anchor_scores(label.interaction_id)
        ):
            self._note(_CANARIES, [])
        return alerts

    def corrected_apps(self) -> list[str]:
        """Return the apps with labels, or with labels until the last call of `correct`."""
        for app in self.labels.changed:
            self._app_labels.pop(app, None)
        watched = dict.fromkeys(app for app, watch in self.apps.items() if watch.agreement.has_judges)
        return [app for app in {**self.labels.changed, **self._app_labels, **watched} if app in self.apps]

    def correct(self, app: str, *, now: float) -> tuple[dict[str, CorrectedEstimate], dict[str, Reactions]]:
        """Return the corrected means of an app by criterion, and the feedback of its users by series."""
        labels, window, design = self._collect(app), self._plan.label_days, self._plan.label_design(app)
        estimates = labels.estimates(self.apps[app].judged, now=now, window=window, design=design)
        return estimates, labels.reactions(now=now, window=window)

    def measure_judges(self, app: str, *, now: float) -> Mapping[JudgeCriterion, JudgeQuality]:
        """Return how well each judge of an app agrees with people."""
        return self._collect(app).judges.measure(now=now, window=self._plan.label_days)

    def measure_slices(self, app: str, *, now: float) -> Mapping[JudgeSlice, JudgeQuality]:
        """Return how well each judge of an app agrees with people, by model family and by language."""
        return self._collect(app).judges.measure_slices(now=now, window=self._plan.label_days)

    def _collect(self, app: str) -> AppLabels:
        if app not in self._app_labels:
            self._app_labels[app] = collect_labels(self.labels.labels_of(app), self.labels.retractions)
            self.labels.changed.pop(app, None)
        return self._app_labels[app]

    def _start_over(self, key: str) -> None:
        """Remove the state of a key, with the next changes."""
        if key == _CANARIES:
            self.canaries = CanaryWatch(self._plan)
        elif self.apps.pop(name := key.removeprefix(_APP), None) is not None:
            self.forgotten.append(name)
        self._announced.pop(key, None)
        self._changed[key] = None

    def _forget(self, at: float) -> list[Alert]:
        silent = next(iter(self.apps))
        alerts = self.apps.pop(silent).withdraw_all(silent, at)
        self._announced.pop(_APP + silent, None)
        self._changed[_APP + silent] = None
        self.forgotten.append(silent)
        return alerts

    def _observe_canary(self, record: ScoreRecord) -> list[Alert]:
        about_judges = self.canaries.observe(record)
        alerts = self._note(_CANARIES, about_judges if self._number == ANNOUNCER else [])
        for change in about_judges:
            if change.kind is EventKind.RAISED:
                for name, app in self.apps.items():
                    withdrawn = app.on_judges_changed(record.fingerprint, change.series.dimension, record.at)
                    alerts += self._note(_APP + name, withdrawn)
        return alerts

    def _changed_dimensions(self, fingerprint: str) -> frozenset[str]:
        return self.canaries.changed_dimensions(fingerprint)

    def _anchors(self, fingerprint: str, criteria: Collection[str] | None) -> list[AttributionState]:
        return self.canaries.anchors_of(fingerprint, criteria)

    def _note(self, key: str, alerts: list[Alert]) -> list[Alert]:
        self._changed[key] = None
        if alerts:
            before = self._announced.get(key, []) if key in self._unstored else []
            self._announced[key] = [*before, *alerts]
            self._unstored.add(key)
        return alerts

    # The stored state

    def take_changes(self) -> Iterator[tuple[str, bytes | None]]:
        """Yield the states to store since the last call, by key; None for a removed state."""
        changed, self._changed = self._changed, {}
        self._unstored.clear()
        # Answers come first: without transactions, an app that includes an answer must not be stored without it.
        for key, value in self.labels.take_changes():
            yield key, _within_limit(key, value)
        # Canaries come last: a state that includes them also includes the withdrawal of alerts due to the judges.
        for key in sorted(changed, key=_CANARIES.__eq__):
            watch = self._find(key)
            yield key, None if watch is None else self._dump_within_limit(key, watch)

    def restore(self, stored: Mapping[str, bytes]) -> list[Alert]:
        """Resume from stored states. Return the last announcements, which may not have been published.

        A state that cannot be read is added to `refused`, and its detectors start over.
        """
        chunks = {key: value for key, value in stored.items() if is_chunk_key(key)}
        self.refused |= self.labels.restore(chunks)
        for key, error in self.refused.items():
            log.warning("cannot read the stored labels of %s (%s); they are left out", key, error)
        for key, value in stored.items():
            if key in chunks:
                continue
            try:
                self._announced[key] = self._restore(key, value)
            except RecordError as error:
                log.warning("cannot read the stored state of %s (%s); restarting its detectors", key, error)
                self.refused[key] = error
        return [alert for alerts in self._announced.values() for alert in alerts]

    def _restore(self, key: str, value: bytes) -> list[Alert]:
        try:
            if key == _CANARIES:
                canaries = StoredCanaries.model_validate_json(value)
                self.canaries = CanaryWatch.from_data(self._plan, canaries.model_dump())
                return canaries.announced
            app = StoredApp.model_validate_json(value)
            watch = AppWatch.from_data(self._plan, self._changed_dimensions, self._anchors, app.model_dump())
        except ValidationError as error:
            raise RecordError("bad_state", first_problem(error)) from None
        except ValueError as error:
            raise RecordError("bad_state", str(error)) from None
        self.apps[key.removeprefix(_APP)] = watch
        return app.announced

    def _find(self, key: str) -> AppWatch | CanaryWatch | None:
        return self.canaries if key == _CANARIES else self.apps.get(key.removeprefix(_APP))

    def _dump_within_limit(self, key: str, watch: AppWatch | CanaryWatch) -> bytes | None:
        """Return the state as bytes: without examples if they are too long, None if all of it is too large."""
        try:
            value = self._dump(key, watch)
            if len(value) > _MOST_STATE_BYTES:
                watch.forget_examples()
                value = self._dump(key, watch)
        except Exception:
            log.exception("cannot store the state of %s; restarting its detectors", key)
        else:
            if len(value) <= _MOST_STATE_BYTES:
                return value
            log.warning("the state of %s is too large (%d bytes); restarting its detectors", key, len(value))
        self._start_over(key)
        del self._changed[key]
        return None

    def _dump(self, key: str, watch: AppWatch | CanaryWatch) -> bytes:
        announced = [alert.model_dump(mode="json", exclude_defaults=True) for alert in self._announced.get(key, ())]
        data = {"v": VERSION, **watch.as_data(), "announced": announced}
        return json.dumps(data, separators=(",", ":"), allow_nan=False).encode()


def is_key(key: str) -> bool:
    """Return whether a state can be stored under this key."""
    is_app = key.startswith(_APP) and len(key) <= len(_APP) + MAX_NAME_CHARS and key != _APP + CANARIES_APP
    return key == _CANARIES or is_app or is_chunk_key(key)


def _within_limit(key: str, value: bytes) -> bytes | None:
    if len(value) <= _MOST_STATE_BYTES:
        return value
    log.warning("the state of %s is too large (%d bytes); it is not stored", key, len(value))
    return None
