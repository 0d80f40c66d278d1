"""Turns functions of the API into routes: checks access, replies with JSON, and reports every failure as a sentence."""

import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Literal

from sinks.archive.database import ArchiveError, ArchiveUnavailable
from sinks.page.access import Access, Role, Visitor
from sinks.page.backend import BackendError
from sinks.page.replies import RefusedRequestError, json_reply
from sinks.page.reply_cache import ReplyCache
from sinks.web.routes import Handler, Reply, Request, Route

log = logging.getLogger(__name__)

JsonHandler = Callable[[Request, Visitor], Any]
"""Returns JSON values; raises RefusedRequestError or BackendError with a sentence for the user."""

# Enough for a comment and two ids.
_BODY_BYTES = 65_536
# Concurrent requests per route; the pool of the database has more connections.
_THREADS = 4


class Endpoints:
    """Makes the routes of the API."""

    def __init__(self, access: Access, cache: ReplyCache) -> None:
        self._access = access
        self._cache = cache

    def get(self, path: str, handler: JsonHandler, *, role: Role = Role.VIEWER, is_shared: bool = False) -> Route:
        """Make a route that reads; with `is_shared`, the reply is the same for all visitors and may be seconds old."""

        def handle(request: Request) -> Reply:
            visitor = self._access.admit(request, role)
            if not is_shared:
                return json_reply(handler(request, visitor))
            key = (request.path, tuple(sorted((name, tuple(values)) for name, values in request.query.items())))
            return self._cache.get(key, lambda: json_reply(handler(request, visitor)))

        return Route(method="GET", path=path, handler=_guard(handle), needs_token=False, max_threads=_THREADS)

    def change(self, method: Literal["POST", "DELETE"], path: str, handler: JsonHandler, *, role: Role) -> Route:
        """Make a route that changes something."""

        def handle(request: Request) -> Reply:
            return json_reply(handler(request, self._access.admit(request, role)))

        return bare_route(method, path, handle)


def bare_route(method: Literal["GET", "POST", "DELETE"], path: str, handler: Handler) -> Route:
    """Make a route that checks access itself."""
    body_bytes = 0 if method == "GET" else _BODY_BYTES
    return Route(
        method=method,
        path=path,
        handler=_guard(handler),
        needs_token=False,
        max_body_bytes=body_bytes,
        max_threads=_THREADS,
    )


def _guard(handler: Handler) -> Handler:
    def handle(request: Request) -> Reply:
        try:
            return handler(request)
        except RefusedRequestError as error:
            return error.reply()
        except BackendError as error:
            return json_reply({"error": str(error)}, error.status)
        except (ArchiveError, ArchiveUnavailable) as error:
            log.error("cannot reply to %s: %s", request.path, error)
            return json_reply({"error": "the archive does not answer; see the log"}, HTTPStatus.SERVICE_UNAVAILABLE)

    return handle
