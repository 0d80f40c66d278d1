"""The alert book: the alerts of the topic by series, and the lookup of one by its id."""

from collections.abc import Sequence
from datetime import timedelta
from difflib import get_close_matches

from sinks.base import COMPOSITE
from sinks.metrics.detection import GOOD_SHARE
from stream.monitor.alerts.alert import Alert, Cause, Subject
from stream.monitor.detection import EventKind

SHORT_CHARS = 8
"""Length of the ids that are shown, if they are unique at this length."""
# A drop that begins this soon before or after the judges changed may be caused by them, even if that alert is over.
_SOON = timedelta(days=1)
_WHOLE = frozenset({COMPOSITE, GOOD_SHARE})


class AlertBook:
    """Takes the records of the topic in order; those of one series are in one partition."""

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
        """Return the newest alert of each series, and its bytes on the topic.

        Open alerts come first, those about the judges at the top because all others depend on them; then the newest.
        """
        alerts = [
            (alert, value)
            for alert, value in self._newest.values()
            if app in {None, alert.series.app} and (cleared or alert.kind is not EventKind.CLEARED)
        ]
        return sorted(alerts, key=lambda entry: _rank(entry[0]))

    def latest(self) -> Alert | None:
        """Return the open alert that was raised last."""
        return max((alert for alert, _ in self.newest()), key=lambda alert: alert.raised_at, default=None)

    def apps(self) -> list[str]:
        """Return the apps that have alerts."""
        return sorted({alert.series.app for alert, _ in self._newest.values()})

    def list_apps_with_open_alerts(self, alert: Alert) -> list[str]:
        """Return the other apps whose scores by the same evaluator have an open alert."""
        others = [other for other, _ in self.newest() if other.subject is alert.subject]
        return sorted(
            {other.series.app for other in others if other.fingerprint == alert.fingerprint} - {alert.series.app}
        )

    def first_announcement(self, alert: Alert) -> Alert | None:
        """Return the first announcement of an alert, if it is still on the topic."""
        return self._raised.get(alert.alert_id)

    def find_by_prefix(self, prefix: str) -> list[Alert]:
        """Return the alerts whose id starts like this."""
        wanted = prefix.strip().lower()
        exact = self._alerts.get(prefix.strip())
        if exact is not None:
            return [exact]
        return [alert for name, alert in self._alerts.items() if name.startswith(wanted)]

    def close_to(self, name: str) -> list[Alert]:
        """Return up to three alerts with a similar id; the newest if no id is similar."""
        near = {self.short(alert): alert for alert in self._alerts.values()}
        names = get_close_matches(name.strip().lower()[:SHORT_CHARS], near, n=3, cutoff=0.5)
        newest = sorted(self._alerts.values(), key=lambda alert: alert.raised_at, reverse=True)
        return [near[similar] for similar in names] or newest[:3]

    def short(self, alert: Alert) -> str:
        """Return the shortest unique prefix of its id, of at least `SHORT_CHARS`."""
        others = [name for name in self._alerts if name != alert.alert_id]
        chars = SHORT_CHARS
        while chars < len(alert.alert_id) and any(name.startswith(alert.alert_id[:chars]) for name in others):
            chars += 1
        return alert.alert_id[:chars]

    def list_withdrawn(self, alert: Alert) -> Sequence[Alert]:
        """Return the quality alerts that were cleared because of this alert about the judges.

        The topic keeps only the newest alert of each series, so the list may be incomplete.
        """
        cleared = [
            other
            for other in self._alerts.values()
            if other.cause is Cause.JUDGES_CHANGED and self._find_reason(other) == alert.alert_id
        ]
        return sorted(cleared, key=lambda other: other.at)

    def judges_behind(self, alert: Alert) -> Alert | None:
        """Return the alert about the judges that may explain an alert about quality."""
        candidates = [judges for judges in self._judges_of(alert) if _may_be_behind(judges, alert)]
        return max(candidates, key=lambda judges: judges.onset_at, default=None)

    def _find_reason(self, alert: Alert) -> str | None:
        before = [judges for judges in self._judges_of(alert) if judges.raised_at <= alert.at]
        return max(before, key=lambda judges: judges.raised_at).alert_id if before else None

    def _judges_of(self, alert: Alert) -> list[Alert]:
        """Return all alerts about the judges whose scores an alert is about."""
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
    """Return whether the judges changed soon before or after the onset, or earlier with an alert that is still open.

    Canaries are judged only now and then, so a change of the judges may be noticed later than its effects.
    """
    if judges.onset_at > alert.raised_at + _SOON:
        return False
    return judges.kind is not EventKind.CLEARED or judges.onset_at >= alert.onset_at - _SOON
