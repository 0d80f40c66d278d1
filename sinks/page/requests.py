"""Reads the parameters and the body of a request to the page's API."""

import json
import math
from datetime import UTC, datetime, timedelta
from typing import Any

from sinks.archive.reading.times import TimeRange
from sinks.page.replies import RefusedRequestError
from sinks.web.routes import Request

# Enough for a search text, a name, or a cursor.
_LONGEST_VALUE = 1000
_DEFAULT_RANGE = timedelta(hours=24)


def read_text(request: Request, name: str) -> str | None:
    """Return a parameter; None if it is absent or empty."""
    values = request.query.get(name, ())
    if len(values) > 1:
        raise RefusedRequestError(f"{name} must appear only once")
    if not values or not values[0]:
        return None
    if len(values[0]) > _LONGEST_VALUE:
        raise RefusedRequestError(f"{name} must have at most {_LONGEST_VALUE} characters")
    if "\0" in values[0]:
        raise RefusedRequestError(f"{name} must not contain a zero byte")
    return values[0]


def read_choice(request: Request, name: str, choices: tuple[str, ...], default: str) -> str:
    value = read_text(request, name) or default
    if value not in choices:
        raise RefusedRequestError(f"{name} must be one of: {', '.join(choices)}")
    return value


def read_number(request: Request, name: str, *, least: float, most: float) -> float | None:
    text = read_text(request, name)
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not least <= value <= most:
        raise RefusedRequestError(f"{name} must be a number from {least:g} to {most:g}")
    return value


def read_limit(request: Request, *, default: int = 50, most: int = 100) -> int:
    text = read_text(request, "limit") or str(default)
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= most):
        raise RefusedRequestError(f"limit must be a whole number from 1 to {most}")
    return int(text)


def read_range(request: Request, now: datetime) -> TimeRange:
    """Return the time range of a request: `from` (inclusive) to `to` (exclusive), by default the last 24 hours."""
    end = _read_time(request, "to") or now
    start = _read_time(request, "from") or end - _DEFAULT_RANGE
    if start >= end:
        raise RefusedRequestError("from must be before to")
    return TimeRange.of(start, end)


def _read_time(request: Request, name: str) -> datetime | None:
    text = read_text(request, name)
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise RefusedRequestError(f"{name} must be a time such as 2026-01-31T12:00:00Z") from None
    if not 1970 <= moment.year < 3000:
        raise RefusedRequestError(f"{name} must be between the years 1970 and 3000")
    return moment


def read_body(request: Request) -> dict[str, Any]:
    """Return the JSON object in the body of a request."""
    # Another website can send text/plain without a preflight request, but not this type.
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise RefusedRequestError("send the body as Content-Type: application/json")
    try:
        value = json.loads(request.body)
    except (ValueError, RecursionError):
        raise RefusedRequestError("the body is not JSON") from None
    if not isinstance(value, dict):
        raise RefusedRequestError("the body must be a JSON object")
    return value


def text_in(body: dict[str, Any], name: str, *, longest: int = _LONGEST_VALUE) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value or len(value) > longest or "\0" in value:
        raise RefusedRequestError(f"{name} must be a text of 1 to {longest} characters")
    return value
