"""From a request to a reply: an aiohttp application made of routes, with the token, the limits and the deadlines."""

import asyncio
import hmac
import logging
import socket
import ssl
from collections.abc import Iterable
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler as AiohttpHandler

from sinks.web.connections import Connection, Connections, current_connection
from sinks.web.limits import Limits
from sinks.web.routes import Reply, Request, Route, text_reply
from sinks.web.threads import Threads

log = logging.getLogger(__name__)

_UNAUTHORIZED = Reply(
    status=HTTPStatus.UNAUTHORIZED,
    body=b"this page needs the token of http.token: Authorization: Bearer ...\n",
    headers={"WWW-Authenticate": 'Bearer realm="streamjury"', "Cache-Control": "no-store"},
)
_ERROR = text_reply("internal error; see the log", HTTPStatus.INTERNAL_SERVER_ERROR)


async def serve(
    listener: socket.socket, application: "Application", *, tls: ssl.SSLContext | None, stop: asyncio.Event
) -> None:
    """Answer requests on a listening socket until `stop` is set."""
    limits = application.limits
    runner = web.AppRunner(
        application.for_aiohttp,
        access_log=None,
        logger=_ProtocolLog(log, {}),
        keepalive_timeout=limits.idle_seconds,
        lingering_time=limits.linger_seconds,
        max_line_size=limits.header_line_bytes,
        max_field_size=limits.header_line_bytes,
        max_headers=limits.headers,
        # A compressed body could unpack to any size.
        auto_decompress=False,
        shutdown_timeout=limits.stop_seconds,
    )
    await runner.setup()
    assert runner.server is not None
    connections = Connections(limits, tls)
    try:
        async with asyncio.TaskGroup() as tasks:
            accepting = tasks.create_task(connections.accept(listener, runner.server))
            await stop.wait()
            accepting.cancel()
    finally:
        listener.close()
        await runner.cleanup()
        await connections.close()


class Application:
    """Answers a request in four steps, each with its own limit.

    1. Admit: find the route, and compare the token.
    2. Read the body.
    3. Compute the reply, in a thread.
    4. Write it.
    """

    def __init__(self, routes: Iterable[Route], *, index: str, token: str | None, limits: Limits) -> None:
        """Build the application; `index` is the page at `/`, and the reply for pages that do not exist."""
        self.limits = limits
        self._index = index
        self._token = token
        self._routes = [*routes]
        if not any((route.method, route.path) == ("GET", "/") for route in self._routes):
            self._routes.append(Route(method="GET", path="/", handler=lambda _request: text_reply(index)))
        self._threads = {route: Threads[Reply](f"web {route.path}", route.max_threads) for route in self._routes}
        self._table: dict[web.AbstractRoute, Route] = {}
        self.for_aiohttp = self._build()

    def _build(self) -> web.Application:
        """Convert the routes for aiohttp; raises `RuntimeError` for two with the same method and path."""

        @web.middleware
        async def answer(request: web.Request, handler: AiohttpHandler) -> web.StreamResponse:
            return await self._answer(request)

        async def fail(_request: web.Request) -> web.StreamResponse:
            raise NotImplementedError("the middleware answers every request")

        application = web.Application(middlewares=[answer])
        for route in self._routes:
            for method in ("GET", "HEAD") if route.method == "GET" else (route.method,):
                self._table[application.router.add_route(method, route.path, fail)] = route
        return application

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        connection = current_connection()
        connection.begin_request(request.content)
        try:
            # 1.
            admitted = self._admit(request)
            reply = admitted if isinstance(admitted, Reply) else await self._reply(request, admitted, connection)
            # 4.
            return await self._write(request, reply, connection)
        finally:
            connection.end_request()

    async def _reply(self, request: web.Request, route: Route, connection: Connection) -> Reply:
        # 2.
        body = await self._read_body(request, route, connection)
        # 3.
        return body if isinstance(body, Reply) else await self._compute(request, route, body, connection)

    def _admit(self, request: web.Request) -> Route | Reply:
        error = request.match_info.http_exception
        route = self._table.get(request.match_info.route)
        if (route is None or route.needs_token) and not self._has_token(request):
            return _UNAUTHORIZED
        if route is not None:
            return route
        if isinstance(error, web.HTTPMethodNotAllowed):
            allowed = ", ".join(sorted(error.allowed_methods))
            return Reply(
                status=HTTPStatus.METHOD_NOT_ALLOWED,
                body=f"method not allowed; use {allowed}\n".encode(),
                headers={"Allow": allowed},
            )
        return text_reply(self._index, HTTPStatus.NOT_FOUND)

    def _has_token(self, request: web.Request) -> bool:
        """Return whether the single header has the token, in constant time, however much of it is right."""
        if self._token is None:
            return True
        headers = request.headers.getall("Authorization", [])
        if len(headers) != 1:
            return False
        scheme, _, token = headers[0].partition(" ")
        is_same = hmac.compare_digest(token.strip().encode("utf-8", "surrogateescape"), self._token.encode())
        return is_same and scheme.lower() == "bearer"

    async def _read_body(self, request: web.Request, route: Route, connection: Connection) -> bytes | Reply:
        limit, length = route.max_body_bytes, request.content_length
        if not limit:
            return b""
        too_large = text_reply(
            f"request body too large; the limit is {limit} bytes", HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        )
        if length is not None and length > limit:
            return too_large
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                body = await _collect(request, limit)
        except TimeoutError:
            words = f"the body did not arrive within {self.limits.body_seconds:g} seconds\n"
            return Reply(status=HTTPStatus.REQUEST_TIMEOUT, body=words.encode(), closes=True)
        except (ConnectionError, web.RequestPayloadError):
            return text_reply("cannot read the request body", HTTPStatus.BAD_REQUEST)
        if connection.is_body_cut_short:
            total = "unknown" if length is None else length
            return text_reply(f"request body ends after {len(body)} of {total} bytes", HTTPStatus.BAD_REQUEST)
        return body if len(body) <= limit else too_large

    async def _compute(self, request: web.Request, route: Route, body: bytes, connection: Connection) -> Reply:
        work = partial(
            _run_handler,
            route,
            Request(
                method=request.method,
                path=request.path,
                headers=_join_headers(request),
                query=parse_qs(request.rel_url.raw_query_string),
                variables=dict(request.match_info),
                body=body,
                client=request.remote or "",
            ),
        )
        connection.begin_waiting()
        try:
            async with asyncio.timeout(self.limits.handler_seconds):
                return await self._threads[route].call(work, connection.begin_computing)
        except TimeoutError:
            log.warning("no reply to %s %s within %g s", route.method, route.path, self.limits.handler_seconds)
            return text_reply("no reply in time", HTTPStatus.SERVICE_UNAVAILABLE)
        except ConnectionError:  # the client is gone and will not read this
            return text_reply("no client", HTTPStatus.SERVICE_UNAVAILABLE)
        except RuntimeError as error:  # the system has no more threads
            log.error("cannot reply to %s %s: %s", route.method, route.path, error)
            return text_reply("no thread to reply with", HTTPStatus.SERVICE_UNAVAILABLE)

    async def _write(self, request: web.Request, reply: Reply, connection: Connection) -> web.StreamResponse:
        connection.begin_writing()
        headers = {"Content-Type": reply.content_type, "Server": "streamjury", **reply.headers}
        response = web.Response(status=reply.status, body=reply.body, headers=headers)
        if reply.closes:
            response.force_close()
        try:
            async with asyncio.timeout(self.limits.write_seconds):
                await response.prepare(request)
                await response.write_eof()
        except TimeoutError:
            connection.abort()
        except ConnectionError:
            pass  # aiohttp finds the same, and ends the connection
        return response


async def _collect(request: web.Request, limit: int) -> bytes:
    """Read the body, or its beginning if it is longer than the limit."""
    body = bytearray()
    while len(body) <= limit and (chunk := await request.content.readany()):
        body += chunk
    return bytes(body)


def _join_headers(request: web.Request) -> dict[str, str]:
    """Return the headers by lower-case name; repeated headers are joined with commas."""
    return {name.lower(): ", ".join(request.headers.getall(name)) for name in request.headers}


def _run_handler(route: Route, request: Request) -> Reply:
    try:
        return route.handler(request)
    except BaseException:
        log.exception("request for %s %s failed", route.method, route.path)
        return _ERROR


class _ProtocolLog(logging.LoggerAdapter[logging.Logger]):
    """aiohttp's log, which would report clients that do not speak HTTP as errors, and quote them with their secrets."""

    def exception(self, msg: object, *args: object, exc_info: Any = True, **_options: Any) -> None:
        if isinstance(exc_info, HttpProcessingError | ConnectionError):
            self.debug("cannot read a request: %s", type(exc_info).__name__)
        else:
            self.error(msg, *args, exc_info=exc_info)
