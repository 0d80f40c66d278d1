"""All routes of the page."""

from collections.abc import Callable
from datetime import UTC, datetime
from http import HTTPStatus

from sinks.archive.database import Database
from sinks.page.access import Access
from sinks.page.api.alerts import alerts_routes
from sinks.page.api.answers import answers_routes
from sinks.page.api.audit_log import audit_log_routes
from sinks.page.api.judges import judges_routes
from sinks.page.api.overview import overview_routes
from sinks.page.api.pipeline import pipeline_routes
from sinks.page.api.review import review_routes
from sinks.page.api.session import session_routes
from sinks.page.assets import asset_routes
from sinks.page.audit import AuditLog
from sinks.page.backend import Backend
from sinks.page.endpoint import Endpoints, bare_route
from sinks.page.replies import RefusedRequestError
from sinks.page.reply_cache import ReplyCache
from sinks.page.settings import PageSettings
from sinks.web.routes import Reply, Request, Route


def page_routes(
    database: Database,
    access: Access,
    settings: PageSettings,
    backend: Backend,
    *,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    cache: ReplyCache | None = None,
) -> tuple[Route, ...]:
    """Return the routes of the page for the one web server of a process."""
    endpoints, audit = Endpoints(access, cache or ReplyCache()), AuditLog(database)

    def count_waiting() -> int | None:
        return None if backend.pipeline is None else backend.pipeline.count_waiting()

    return (
        *asset_routes(),
        *session_routes(access, settings),
        *overview_routes(endpoints, database, settings, count_waiting=count_waiting, now=now),
        *answers_routes(endpoints, database, settings, now=now),
        *alerts_routes(endpoints, database, backend.explainer, now=now),
        *judges_routes(endpoints, database, backend.paused_judges, now=now),
        *pipeline_routes(endpoints, backend.pipeline, backend.letters, audit),
        *review_routes(endpoints, backend.review, backend.labels, audit),
        *audit_log_routes(endpoints, database),
        # Must be last: it also matches the paths above.
        bare_route("GET", "/api/{rest:.*}", _refuse_unknown),
    )


def _refuse_unknown(_request: Request) -> Reply:
    raise RefusedRequestError("there is no such path in the API", HTTPStatus.NOT_FOUND)
