"""Reads the audit log of the page."""

from typing import NamedTuple

from sqlalchemy import Connection, select

from sinks.archive.tables import audit_log


class AuditLogEntry(NamedTuple):
    id: int
    at: int
    who: str
    role: str
    action: str
    detail: str
    """JSON."""


def read_audit_log(connection: Connection, *, before: int | None, limit: int) -> list[AuditLogEntry]:
    """Return the latest entries; with `before`, the latest with a smaller id."""
    query = select(*(audit_log.c[name] for name in AuditLogEntry._fields)).order_by(audit_log.c.id.desc()).limit(limit)
    if before is not None:
        query = query.where(audit_log.c.id < before)
    return [AuditLogEntry(*row) for row in connection.execute(query)]
