"""Reads alerts from the archive."""

import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, select

from sinks.archive.tables import alerts

QUALITY, JUDGES, AGREEMENT = "quality", "judges", "agreement"
"""Subjects of alerts: the answers of an app, the judges of all apps, and the agreement of a judge with people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedAlert:
    """The latest announcement of an alert."""

    id: str
    series: str
    """Its series in one text: app, dimension, and model or tenant."""
    app: str
    dimension: str
    attribute: str | None
    value: str | None
    subject: str
    kind: str
    raised_at: int
    onset_at: int
    cleared_at: int | None
    at: int
    record: dict[str, Any]
    """As published."""


def list_open_alerts(connection: Connection) -> list[ArchivedAlert]:
    """Return all open alerts, the latest first."""
    query = select(alerts).where(alerts.c.cleared_at.is_(None)).order_by(alerts.c.raised_at.desc(), alerts.c.alert_id)
    return [_read_alert(row) for row in connection.execute(query)]


def list_closed_alerts(connection: Connection, limit: int) -> list[ArchivedAlert]:
    """Return the latest closed alerts."""
    query = (
        select(alerts)
        .where(alerts.c.cleared_at.is_not(None))
        .order_by(alerts.c.raised_at.desc(), alerts.c.alert_id)
        .limit(limit)
    )
    return [_read_alert(row) for row in connection.execute(query)]


def find_alert(connection: Connection, alert_id: str) -> ArchivedAlert | None:
    row = connection.execute(select(alerts).where(alerts.c.alert_id == alert_id)).one_or_none()
    return None if row is None else _read_alert(row)


def _read_alert(row: Row[Any]) -> ArchivedAlert:
    return ArchivedAlert(
        id=row.alert_id,
        series=row.series_key,
        app=row.app,
        dimension=row.dimension,
        attribute=row.attribute,
        value=row.value,
        subject=row.subject,
        kind=row.kind,
        raised_at=row.raised_at,
        onset_at=row.onset_at,
        cleared_at=row.cleared_at,
        at=row.at,
        record=json.loads(row.record),
    )
