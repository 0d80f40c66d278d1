"""`/api/audit-log`: labels and replays, and who made them."""

import json

from sinks.archive.database import Database
from sinks.archive.reading.audit_log import read_audit_log
from sinks.archive.reading.times import from_ms
from sinks.page.access import Role, Visitor
from sinks.page.endpoint import Endpoints
from sinks.page.replies import RefusedRequestError
from sinks.page.requests import read_limit, read_text
from sinks.web.routes import Request, Route


def audit_log_routes(endpoints: Endpoints, database: Database) -> tuple[Route, ...]:
    def show(request: Request, _visitor: Visitor) -> object:
        cursor, limit = read_text(request, "cursor"), read_limit(request)
        if cursor is not None and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
            raise RefusedRequestError("the cursor is not valid")
        with database.read() as connection:
            entries = read_audit_log(connection, before=None if cursor is None else int(cursor), limit=limit + 1)
        page = entries[:limit]
        return {
            "entries": [
                {**entry._asdict(), "at": from_ms(entry.at), "detail": json.loads(entry.detail)} for entry in page
            ],
            "next": str(page[-1].id) if len(entries) > limit else None,
        }

    return (endpoints.get("/api/audit-log", show, role=Role.OPERATOR),)
