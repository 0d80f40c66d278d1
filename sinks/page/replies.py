"""Replies of the page: JSON, and the headers that every reply carries."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from sinks.web.routes import Reply

_JSON = "application/json; charset=utf-8"

SAFETY_HEADERS: Mapping[str, str] = {
    # Without it a browser may guess that a reply with user text is HTML.
    "X-Content-Type-Options": "nosniff",
    # Sites that a trace link leads to must not see the addresses of answers.
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
"""Sent with every reply, in addition to its Content-Security-Policy."""

_JSON_HEADERS: Mapping[str, str] = {
    **SAFETY_HEADERS,
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}


class RefusedRequestError(Exception):
    """The request is refused; the text is the sentence of the reply."""

    def __init__(
        self, sentence: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(sentence)
        self.status = status
        self.headers = headers or {}

    def reply(self) -> Reply:
        return json_reply({"error": str(self)}, self.status, self.headers)


def json_reply(value: Any, status: HTTPStatus = HTTPStatus.OK, headers: Mapping[str, str] | None = None) -> Reply:
    """Make a reply from JSON values and times."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_to_json)
    # A lone surrogate in logged text cannot be encoded as UTF-8; `\\udXXX` is its JSON escape.
    body = text.encode("utf-8", "backslashreplace")
    return Reply(status=status, body=body, content_type=_JSON, headers={**_JSON_HEADERS, **(headers or {})})


def _to_json(value: object) -> str:
    if isinstance(value, datetime):
        return iso(value)
    raise TypeError(f"no JSON form for {type(value).__name__}")


def iso(moment: datetime) -> str:
    """Return a time as ISO 8601 in UTC, with milliseconds."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
