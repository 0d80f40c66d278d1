"""A page of the web server: its route, the request for its handler, and the reply."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Literal

TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request that was admitted and read completely."""

    method: str
    path: str
    headers: Mapping[str, str]
    """By their names in lower case."""
    query: Mapping[str, Sequence[str]]
    variables: Mapping[str, str]
    """Values of the `{names}` in the path of the route."""
    body: bytes
    client: str = ""
    """Address of the client, or of the proxy before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The reply to a client. A reply to HEAD is sent without its body."""

    status: HTTPStatus = HTTPStatus.OK
    body: bytes = b""
    content_type: str = TEXT
    headers: Mapping[str, str] = field(default_factory=dict)
    closes: bool = False
    """Whether the connection ends with this reply."""


Handler = Callable[[Request], Reply]
"""Runs in a thread, and may block; an exception becomes a 500 and a line in the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One page. GET answers HEAD, too."""

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    """As aiohttp writes it: `/alerts/{id}`."""
    handler: Handler
    needs_token: bool = True
    max_body_bytes: int = 0
    """0: the body of a request is not read."""
    max_threads: int = 2
    """Requests computed at once; others wait. Routes do not wait for each other."""


def text_reply(text: str, status: HTTPStatus = HTTPStatus.OK) -> Reply:
    """Make a reply with a line of plain text."""
    return Reply(status=status, body=f"{text}\n".encode())
