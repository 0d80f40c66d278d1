"""The alert book: the alerts of the topic by series, and the lookup of one by its id."""

from collections.abc import Sequence
from datetime import timedelta
from difflib import get_close_matches

from sinks.base import COMPOSITE
from sinks.metrics.detection import GOOD_SHARE
from stream.monitor.alerts.alert import Alert, Cause, Subject
from stream.monitor.detection import EventKind

SHORT_CHARS = 8
"""Of an alert's id as it is shown, where that is enough to tell it from others."""
# A drop that begins so soon before or after the judges changed may be their doing, even where that is over.
_SOON = timedelta(days=1)
_WHOLE = frozenset({COMPOSITE, GOOD_SHARE})


class AlertBook:
    """Takes the records of the topic in their order; those of one series are in one partition."""

    def __init__(self) -> None:
        self._newest: dict[bytes, tuple[Alert, bytes]] = {}
        self._alerts: dict[str, Alert] = {}
        self._raised: dict[str, Alert] = {}
        self.unreadable = 0

    def take(self, key: bytes | None, value: bytes | None) -> None:
        if value is None:
            self._newest.pop(key or b"", None)
            return
        try:
            alert = Alert.read(value)
        except ValueError:
            self.unreadable += 1
            return
        self._newest[key or alert.key.encode()] = (alert, value)
        self._alerts[alert.alert_id] = alert
        if alert.kind is EventKind.RAISED:
            self._raised[alert.alert_id] = alert

    def newest(self, *, app: str | None = None, cleared: bool = False) -> list[tuple[Alert, bytes]]:
        """What is known of each series, and as it is on the topic.

        Open ones come first, of them those about the judges, which all others rest on; then the newest.
        """
        found = [
            (alert, value)
            for alert, value in self._newest.values()
            if app in {None, alert.series.app} and (cleared or alert.kind is not EventKind.CLEARED)
        ]
        return sorted(found, key=lambda each: _rank(each[0]))

    def latest(self) -> Alert | None:
        """The open alert that was raised last."""
        return max((alert for alert, _ in self.newest()), key=lambda alert: alert.raised_at, default=None)

    def apps(self) -> list[str]:
        """Those that there are alerts about."""
        return sorted({alert.series.app for alert, _ in self._newest.values()})

    def raised(self, alert: Alert) -> Alert | None:
        """The first announcement of an alert, if it is still there."""
        return self._raised.get(alert.alert_id)

    def meant(self, beginning: str) -> list[Alert]:
        """The alerts whose id begins so."""
        wanted = beginning.strip().lower()
        exact = self._alerts.get(beginning.strip())
        if exact is not None:
            return [exact]
        return [alert for name, alert in self._alerts.items() if name.startswith(wanted)]

    def close_to(self, name: str) -> list[Alert]:
        """Up to three alerts that may be meant by an id that none has; the newest where none is like it."""
        near = {self.short(alert): alert for alert in self._alerts.values()}
        names = get_close_matches(name.strip().lower()[:SHORT_CHARS], near, n=3, cutoff=0.5)
        newest = sorted(self._alerts.values(), key=lambda alert: alert.raised_at, reverse=True)
        return [near[each] for each in names] or newest[:3]

    def short(self, alert: Alert) -> str:
        """The shortest beginning of its id that is shown and that no other has."""
        others = [name for name in self._alerts if name != alert.alert_id]
        chars = SHORT_CHARS
        while chars < len(alert.alert_id) and any(name.startswith(alert.alert_id[:chars]) for name in others):
            chars += 1
        return alert.alert_id[:chars]

    def withdrawn(self, alert: Alert) -> Sequence[Alert]:
        """Quality alerts that were cleared because the judges had changed, as this alert says.

        The topic keeps the newest of each series: where nothing is found, some may have been.
        """
        found = [
            other
            for other in self._alerts.values()
            if other.cause is Cause.JUDGES_CHANGED and self._withdrawn_for(other) == alert.alert_id
        ]
        return sorted(found, key=lambda other: other.at)

    def judges_behind(self, alert: Alert) -> Alert | None:
        """The alert about the judges that may be the reason for one about the quality."""
        found = [judges for judges in self._judges_of(alert) if _may_be_behind(judges, alert)]
        return max(found, key=lambda judges: judges.onset_at, default=None)

    def _withdrawn_for(self, alert: Alert) -> str | None:
        before = [judges for judges in self._judges_of(alert) if judges.raised_at <= alert.at]
        return max(before, key=lambda judges: judges.raised_at).alert_id if before else None

    def _judges_of(self, alert: Alert) -> list[Alert]:
        """All that is known of changes of the judges whose scores an alert is about."""
        dimension = alert.series.dimension
        return [
            judges
            for judges in self._alerts.values()
            if judges.subject is Subject.JUDGES
            and judges.fingerprint == alert.fingerprint
            and (dimension in _WHOLE or judges.series.dimension == dimension)
        ]


def _rank(alert: Alert) -> tuple[bool, bool, float]:
    is_cleared = alert.kind is EventKind.CLEARED
    return is_cleared, not is_cleared and alert.subject is not Subject.JUDGES, -alert.raised_at.timestamp()


def _may_be_behind(judges: Alert, alert: Alert) -> bool:
    """Whether they changed not long before or after it began, or before it and that is not yet over.

    Canaries are judged now and then: that the judges changed may show later than what comes of it.
    """
    if judges.onset_at > alert.raised_at + _SOON:
        return False
    return judges.kind is not EventKind.CLEARED or judges.onset_at >= alert.onset_at - _SOON
