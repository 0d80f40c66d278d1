"""The audit log of labels and replays, kept in the archive."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import insert, update

from sinks.archive.database import Database
from sinks.archive.tables import audit_log
from sinks.page.access import Visitor


@dataclass(slots=True)
class AuditEntry:
    """An action in progress."""

    outcome: Mapping[str, Any] = field(default_factory=dict)
    """Set by the action; if it is not set, an error is logged instead."""


class AuditLog:
    """Writes the audit log."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @contextmanager
    def entry(self, visitor: Visitor, action: str, detail: Mapping[str, Any]) -> Iterator[AuditEntry]:
        """Log an action before it happens, and its outcome afterwards; if it cannot be logged, it does not happen."""
        with self._database.write() as connection:
            result = connection.execute(
                insert(audit_log).values(
                    at=int(time.time() * 1000),
                    who=visitor.name or "",
                    role=visitor.role or "",
                    action=action,
                    detail=_dump(detail),
                )
            )
            (number,) = result.inserted_primary_key or (None,)
        entry = AuditEntry()
        try:
            yield entry
        except Exception as error:
            entry.outcome = {"error": str(error) or type(error).__name__}
            raise
        finally:
            outcome = entry.outcome or {"error": "interrupted"}
            with self._database.write() as connection:
                connection.execute(
                    update(audit_log).where(audit_log.c.id == number).values(detail=_dump({**detail, **outcome}))
                )


def _dump(detail: Mapping[str, Any]) -> str:
    # Escaped to ASCII: PostgreSQL refuses lone surrogates.
    return json.dumps(detail)
