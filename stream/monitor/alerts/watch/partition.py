"""Everything that is watched in one partition of the scores topic: its apps, and the canaries.

Canaries are sent to every partition, so that each knows for itself when the judges have changed; the first one alone
announces it.
"""

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from stream.monitor.alerts.alert import Alert
from stream.monitor.alerts.plan import WatchPlan
from stream.monitor.alerts.score_record import ScoreRecord
from stream.monitor.alerts.watch.app import AppWatch
from stream.monitor.alerts.watch.canaries import CanaryWatch
from stream.monitor.detection import EventKind

log = logging.getLogger(__name__)

VERSION = 1
ANNOUNCER = 0
"""The partition that announces what is known in all of them."""

_CANARIES = "canaries"
_APP = "app:"
# Apps are named by the traffic: what has been silent for the longest makes place.
_MOST_APPS = 1000


class PartitionWatch:
    """Is told of score records, in the order of their partition."""

    def __init__(self, plan: WatchPlan, number: int) -> None:
        self._plan, self._number = plan, number
        self.apps: dict[str, AppWatch] = {}
        """The one that was heard of last is the last."""
        self.forgotten: list[str] = []
        """Apps that were given up, until somebody takes note."""
        self.canaries = CanaryWatch(plan)
        self._announced: dict[str, list[Alert]] = {}
        """The latest, which are stored too: whoever goes on from there makes sure that they are published."""
        self._changed: dict[str, None] = {}
        self._unstored: set[str] = set()
        """Of what there are alerts that are not stored yet."""

    def observe(self, record: ScoreRecord) -> list[Alert]:
        """What is to be announced now."""
        return self._observe_canary(record) if record.canary is not None else self._observe_app(record)

    def _observe_app(self, record: ScoreRecord) -> list[Alert]:
        app = self.apps.pop(record.app, None) or AppWatch(self._plan, self._judges_changed)
        self.apps[record.app] = app
        alerts = self._note(_APP + record.app, app.observe(record))
        return alerts if len(self.apps) <= _MOST_APPS else [*alerts, *self._forget(record.at)]

    def _forget(self, at: float) -> list[Alert]:
        silent = next(iter(self.apps))
        alerts = self.apps.pop(silent).forgotten(at)
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
                    withdrawn = app.judges_changed(record.fingerprint, change.series.dimension, record.at)
                    alerts += self._note(_APP + name, withdrawn)
        return alerts

    def _judges_changed(self, fingerprint: str) -> frozenset[str]:
        return self.canaries.changed(fingerprint)

    def _note(self, key: str, alerts: list[Alert]) -> list[Alert]:
        self._changed[key] = None
        if alerts:
            before = self._announced.get(key, []) if key in self._unstored else []
            self._announced[key] = [*before, *alerts]
            self._unstored.add(key)
        return alerts

    # What is kept

    def take_changes(self) -> Iterator[tuple[str, bytes | None]]:
        """What is to be stored, by key, since it was last asked for; None for what is no longer kept."""
        changed, self._changed = self._changed, {}
        self._unstored.clear()
        # What the canaries show goes last: who knows it has had the alerts withdrawn that were due to the judges.
        for key in sorted(changed, key=_CANARIES.__eq__):
            watch = self._find(key)
            yield key, None if watch is None else self._stored(key, watch)

    def restore(self, stored: Mapping[str, bytes]) -> list[Alert]:
        """Goes on from what was stored. Gives what was announced last, which may not have been published."""
        for key, value in stored.items():
            try:
                data = json.loads(value)
                self._restore(key, data)
                self._announced[key] = [Alert.model_validate(alert) for alert in data["announced"]]
            except (ValueError, TypeError, KeyError) as error:
                log.warning("what is stored about %s cannot be read (%s): its detectors begin anew", key, error)
        return [alert for alerts in self._announced.values() for alert in alerts]

    def _restore(self, key: str, data: dict[str, Any]) -> None:
        if data["v"] != VERSION:
            raise ValueError(f"it is of version {data['v']!r}")
        if key == _CANARIES:
            self.canaries = CanaryWatch.from_data(self._plan, data)
        else:
            self.apps[key.removeprefix(_APP)] = AppWatch.from_data(self._plan, self._judges_changed, data)

    def _find(self, key: str) -> AppWatch | CanaryWatch | None:
        return self.canaries if key == _CANARIES else self.apps.get(key.removeprefix(_APP))

    def _stored(self, key: str, watch: AppWatch | CanaryWatch) -> bytes:
        announced = [alert.model_dump(mode="json", exclude_defaults=True) for alert in self._announced.get(key, ())]
        data = {"v": VERSION, **watch.as_data(), "announced": announced}
        return json.dumps(data, separators=(",", ":"), allow_nan=False).encode()


def newest(records: Iterable[tuple[str, bytes | None]]) -> dict[str, bytes]:
    """Of all that was stored, what includes the most: who lost the partition may have written after who has it."""
    found: dict[str, tuple[int, bytes]] = {}
    for key, value in records:
        if value is None:
            found.pop(key, None)
            continue
        count = _count(value)  # takes as long as reading all of it
        if key not in found or count >= found[key][0]:
            found[key] = count, value
    return {key: value for key, (_count_of, value) in found.items()}


def _count(value: bytes) -> int:
    try:
        return int(json.loads(value)["included"]["count"])
    except (ValueError, TypeError, KeyError):
        return -1
