"""Notices of Alertmanager: reading them, telling them in words, and a small web server that takes them."""

import json
import logging
import re
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, NamedTuple

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from sinks.serving import QuickBind, Serving
from stream.logs import escaped
from stream.printable import printable, shortened

PATHS = frozenset({"/", "/alerts"})
"""Where notices are taken."""

log = logging.getLogger(__name__)

_INDEX = "streamjury webhook: POST / or /alerts takes notices of Alertmanager (version 4), GET /healthz says ok"
# Alertmanager sends a group of alerts at once; a thousand of ours with all their text are about half of this.
_BODY_BYTES = 4 * 1024 * 1024
# Read and thrown away of a body that is too long: its sender listens for an answer only after the last byte.
_REFUSED_BYTES = 8 * _BODY_BYTES
_CHUNK_BYTES = 65_536
# A client that says nothing for so long is cut off, because a thread waits for it.
_SILENCE_SECONDS = 15.0
_LOOK_SECONDS = 0.1
_SUMMARY_CHARS = 500
_LABEL_CHARS = 80


class NoticeError(ValueError):
    """A body that is no notice; the message says why."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)


class Alert(_Part):
    """One alert that began or ended."""

    status: Literal["firing", "resolved"]
    labels: Mapping[str, str]
    annotations: Mapping[str, str] = Field(default_factory=dict)
    starts_at: AwareDatetime = Field(alias="startsAt")
    ends_at: AwareDatetime = Field(alias="endsAt")
    """In the year 1 while the alert goes on."""

    @property
    def summary(self) -> str:
        return self.annotations.get("summary") or self.annotations.get("description", "")

    @property
    def runbook(self) -> str:
        return self.annotations.get("runbook_url", "")


class Notice(_Part):
    """What Alertmanager sends at once."""

    version: Literal["4"]
    alerts: tuple[Alert, ...]
    truncated: int = Field(default=0, alias="truncatedAlerts", ge=0)
    """How many alerts Alertmanager left out."""


def read_notice(body: bytes) -> Notice:
    """The notice in the body of a request."""
    try:
        return Notice.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        message = shortened(f"{place}: {first['msg']}" if place else first["msg"], _SUMMARY_CHARS)
        raise NoticeError(f"not a notice of Alertmanager in version 4: {message}") from None


def alert_line(alert: Alert, at: datetime) -> str:
    """An alert in one line that a terminal can be trusted with."""
    labels = alert.labels
    app = f" {_label(labels, 'app')}" if labels.get("app") else ""
    runbook = f"  {printable(alert.runbook)}" if alert.runbook else ""
    return (
        f"{_moment(at)} {alert.status.upper():8} {_label(labels, 'severity'):6} {_label(labels, 'alertname')}{app}: "
        f"{shortened(alert.summary, _SUMMARY_CHARS) or '–'}{runbook}"
    )


def alert_json(alert: Alert, at: datetime) -> str:
    """An alert as one line of JSON."""
    labels = alert.labels
    entry = {
        "received_at": _moment(at),
        "status": alert.status,
        "severity": labels.get("severity"),
        "alertname": labels.get("alertname"),
        "app": labels.get("app"),
        "summary": alert.summary,
        "runbook": alert.runbook,
        "labels": dict(labels),
        "annotations": dict(alert.annotations),
        "starts_at": _moment(alert.starts_at),
        "ends_at": _moment(alert.ends_at) if alert.status == "resolved" else None,
    }
    return escaped(json.dumps(entry, ensure_ascii=False), json_form=True)


def _label(labels: Mapping[str, str], name: str) -> str:
    return shortened(labels.get(name, ""), _LABEL_CHARS) or "–"


def _moment(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


Take = Callable[[Notice, datetime], None]


class NoticeServer(Serving):
    """Hands every notice to `take`, one after the other, from `with` to the end of the block."""

    def __init__(self, host: str, port: int, take: Take) -> None:
        self._take = take
        self._lock = threading.Lock()
        self._error: OSError | None = None
        super().__init__(_Server((host, port), self), name="webhook", look_seconds=_LOOK_SECONDS)

    def check(self) -> None:
        """Raises what kept a notice from being told, such as a reader of the output that went away."""
        if self._error is not None:
            raise self._error

    def deliver(self, notice: Notice) -> bool:
        """Whether the notice was told; Alertmanager sends again what was not."""
        with self._lock:
            try:
                self._take(notice, datetime.now(UTC))
            except OSError as error:
                self._error = error
                return False
            except Exception:
                log.exception("a notice could not be told")
                return False
        return True


class _Server(QuickBind, ThreadingHTTPServer):
    def __init__(self, address: tuple[str, int], notices: NoticeServer) -> None:
        super().__init__(address, _Handler)
        self.notices = notices

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that leave, or fall silent, are no errors of ours."""


class _Answer(NamedTuple):
    status: HTTPStatus
    text: str


class _Handler(BaseHTTPRequestHandler):
    # One request per connection, as HTTP/1.0 has it: notices are rare, and an idle thread per client is not needed.
    timeout = _SILENCE_SECONDS
    server_version, sys_version = "streamjury", ""
    server: _Server

    def do_GET(self) -> None:
        if self.path == "/healthz":
            self._say(_Answer(HTTPStatus.OK, "ok"))
        elif self.path in PATHS:
            self._say(_Answer(HTTPStatus.OK, _INDEX))
        else:
            self._say(_Answer(HTTPStatus.NOT_FOUND, _INDEX))

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not re.fullmatch(r"[0-9]{1,18}", length):
            self._say(_Answer(HTTPStatus.BAD_REQUEST, "a notice comes with its length (Content-Length)"))
        elif int(length) > _BODY_BYTES:
            self._throw_away(int(length))
            self._say(_Answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a notice has at most {_BODY_BYTES} bytes"))
        else:
            self._say(self._taken(self.rfile.read(int(length)), int(length)))

    def _taken(self, body: bytes, length: int) -> _Answer:
        if self.path not in PATHS:
            return _Answer(HTTPStatus.NOT_FOUND, _INDEX)
        if len(body) < length:
            return _Answer(HTTPStatus.BAD_REQUEST, f"the body ends after {len(body)} of {length} bytes")
        try:
            notice = read_notice(body)
        except NoticeError as error:
            return _Answer(HTTPStatus.BAD_REQUEST, str(error))
        if not self.server.notices.deliver(notice):
            return _Answer(HTTPStatus.SERVICE_UNAVAILABLE, "the notice could not be told")
        return _Answer(HTTPStatus.OK, "ok")

    def _throw_away(self, length: int) -> None:
        left = min(length, _REFUSED_BYTES)
        while left > 0 and (read := len(self.rfile.read(min(left, _CHUNK_BYTES)))):
            left -= read

    def _say(self, answer: _Answer) -> None:
        body = f"{answer.text}\n".encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        """A line per request would stand between the alerts."""
