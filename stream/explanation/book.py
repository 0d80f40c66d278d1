"""The book of alerts: what the alerts topic says of every series, and which alert somebody means."""

from collections.abc import Sequence
from difflib import get_close_matches

from pydantic import ValidationError

from sinks.base import COMPOSITE
from sinks.metrics.detection import GOOD_SHARE
from stream.alarms.alert import Alert, Cause
from stream.detection import Kind

SHORT_CHARS = 8
"""Of an alert's id as it is shown, where that is enough to tell it from others."""
# A shorter beginning may be anything.
_LEAST_CHARS = 4


class AlertBook:
    """Takes the records of the topic in their order; those of one series are in one partition."""

    def __init__(self) -> None:
        self._newest: dict[bytes, tuple[Alert, bytes]] = {}
        self._alarms: dict[str, Alert] = {}
        self._raised: dict[str, Alert] = {}
        self.unreadable = 0

    def take(self, key: bytes | None, value: bytes | None) -> None:
        if value is None:
            self._newest.pop(key or b"", None)
            return
        try:
            alert = Alert.read(value)
        except ValidationError:
            self.unreadable += 1
            return
        self._newest[key or alert.series.key.encode()] = (alert, value)
        self._alarms[alert.alert_id] = alert
        if alert.kind is Kind.RAISED:
            self._raised[alert.alert_id] = alert

    def newest(self, *, app: str | None = None, cleared: bool = False) -> list[tuple[Alert, bytes]]:
        """What is known of each series, and as it is on the topic: open ones first, then by time, newest first."""
        found = [
            (alert, value)
            for alert, value in self._newest.values()
            if app in {None, alert.series.app} and (cleared or alert.kind is not Kind.CLEARED)
        ]
        return sorted(found, key=lambda each: (each[0].kind is Kind.CLEARED, -each[0].raised_at.timestamp()))

    def raised(self, alert: Alert) -> Alert | None:
        """The first announcement of an alarm, if it is still there."""
        return self._raised.get(alert.alert_id)

    def meant(self, beginning: str) -> list[Alert]:
        """The alarms whose id begins so."""
        wanted = beginning.strip().lower()
        exact = self._alarms.get(beginning.strip())
        if exact is not None:
            return [exact]
        return [
            alert for name, alert in self._alarms.items() if len(wanted) >= _LEAST_CHARS and name.startswith(wanted)
        ]

    def close_to(self, name: str) -> list[Alert]:
        """Up to three alarms that may be meant by an id that none has; the newest where none is like it."""
        near = {self.short(alert): alert for alert in self._alarms.values()}
        names = get_close_matches(name.strip().lower()[:SHORT_CHARS], near, n=3, cutoff=0.5)
        newest = sorted(self._alarms.values(), key=lambda alert: alert.raised_at, reverse=True)
        return [near[each] for each in names] or newest[:3]

    def short(self, alert: Alert) -> str:
        """The shortest beginning of its id that is shown and that no other has."""
        others = [name for name in self._alarms if name != alert.alert_id]
        chars = SHORT_CHARS
        while chars < len(alert.alert_id) and any(name.startswith(alert.alert_id[:chars]) for name in others):
            chars += 1
        return alert.alert_id[:chars]

    def withdrawn(self, alert: Alert) -> Sequence[Alert]:
        """Quality alarms that were cleared because the judges had changed, on what this alert is about."""
        moved = {alert.series.dimension, COMPOSITE, GOOD_SHARE}
        return [
            other
            for other, _ in self.newest(cleared=True)
            if other.cause is Cause.JUDGES_CHANGED
            and other.series.dimension in moved
            and other.fingerprint == alert.fingerprint
            and other.at >= alert.raised_at
        ]
