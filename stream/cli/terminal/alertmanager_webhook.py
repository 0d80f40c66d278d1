"""Alertmanager notifications: parses them, formats them, and provides the routes of the server that receives them."""

import json
import logging
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from sinks.text import printable, shorten
from sinks.web.routes import Reply, Request, Route, text_reply
from stream.logs import escape_text

PATHS = frozenset({"/", "/alerts"})
"""Paths that accept notifications."""
INDEX = "streamjury webhook: POST / or /alerts accepts Alertmanager notifications (version 4), GET /healthz returns ok"

log = logging.getLogger(__name__)

# Alertmanager sends a group of alerts at once; a thousand of ours with all their text are about half of this.
_BODY_BYTES = 4 * 1024 * 1024
_SUMMARY_CHARS = 500
_DESCRIPTION_CHARS = 1000
# As long as the longest name of an app: two alerts whose labels were cut could look alike.
_LABEL_CHARS = 256
# Labels that have their own place at the start of the line.
_PLACED = ("severity", "alertname", "app")


class NoticeError(ValueError):
    """A request body that is not a notification; the message says why."""


class _WebhookPart(BaseModel):
    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)


class FiringAlert(_WebhookPart):
    """One alert that started or ended."""

    status: Literal["firing", "resolved"]
    labels: Mapping[str, str]
    annotations: Mapping[str, str] = Field(default_factory=dict)
    starts_at: AwareDatetime = Field(alias="startsAt")
    ends_at: AwareDatetime = Field(alias="endsAt")
    """In the year 1 while the alert is firing."""

    @property
    def summary(self) -> str:
        return self.annotations.get("summary") or self.description

    @property
    def description(self) -> str:
        return self.annotations.get("description", "")

    @property
    def runbook(self) -> str:
        return self.annotations.get("runbook_url", "")


class Notice(_WebhookPart):
    """A notification of Alertmanager, with a group of alerts."""

    version: Literal["4"]
    alerts: tuple[FiringAlert, ...]
    truncated: int = Field(default=0, alias="truncatedAlerts", ge=0)
    """Number of alerts that Alertmanager left out."""


def read_notice(body: bytes) -> Notice:
    """Parse the body of a request."""
    try:
        return Notice.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        message = shorten(f"{place}: {first['msg']}" if place else first["msg"], _SUMMARY_CHARS)
        raise NoticeError(f"not an Alertmanager notification (version 4): {message}") from None


def alert_line(alert: FiringAlert, received_at: datetime) -> str:
    """Put an alert into one line that is safe to print; all its labels are in it, so no two alerts look alike."""
    labels = alert.labels
    app = f" {_label(labels, 'app')}" if labels.get("app") else ""
    others = "".join(f" {_short(name)}={_label(labels, name)}" for name in sorted(labels) if name not in _PLACED)
    runbook = f"  {printable(alert.runbook)}" if alert.runbook else ""
    return (
        f"{_timestamp(received_at)} {alert.status.upper():8} {_label(labels, 'severity'):6} "
        f"{_label(labels, 'alertname')}{app}{others}: {_words(alert) or '–'}{runbook}"
    )


def _words(alert: FiringAlert) -> str:
    summary = shorten(alert.summary, _SUMMARY_CHARS)
    if not alert.description or alert.description == alert.summary:
        return summary
    # The description of a resolved alert has the figures from when it was firing.
    joint = "; was: " if alert.status == "resolved" else ". "
    return f"{summary}{joint}{shorten(alert.description, _DESCRIPTION_CHARS)}"


def alert_json(alert: FiringAlert, received_at: datetime) -> str:
    """Return an alert as one line of JSON."""
    labels = alert.labels
    entry = {
        "received_at": _timestamp(received_at),
        "status": alert.status,
        "severity": labels.get("severity"),
        "alertname": labels.get("alertname"),
        "app": labels.get("app"),
        "window": labels.get("window"),
        "summary": alert.summary,
        "description": alert.description,
        "runbook": alert.runbook,
        "labels": dict(labels),
        "annotations": dict(alert.annotations),
        "starts_at": _timestamp(alert.starts_at),
        "ends_at": _timestamp(alert.ends_at) if alert.status == "resolved" else None,
    }
    return escape_text(json.dumps(entry, ensure_ascii=False), json_form=True)


def _label(labels: Mapping[str, str], name: str) -> str:
    return _short(labels.get(name, "")) or "–"


def _short(text: str) -> str:
    return shorten(text, _LABEL_CHARS)


def _timestamp(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


Take = Callable[[Notice, datetime], None]


class NoticeReceiver:
    """Passes notifications to `take`, one at a time; contributes its routes to a web server."""

    def __init__(self, take: Take) -> None:
        self._take = take
        self._lock = threading.Lock()
        self._error: OSError | None = None

    def check(self) -> None:
        """Raise the error that prevented printing, such as a reader of the output that went away."""
        if self._error is not None:
            raise self._error

    def routes(self) -> tuple[Route, ...]:
        """Return the routes; they need no token, because Alertmanager is configured with an address only."""
        return (
            *(
                Route(method="POST", path=path, handler=self._receive, needs_token=False, max_body_bytes=_BODY_BYTES)
                for path in sorted(PATHS)
            ),
            *(
                Route(method="GET", path=path, handler=lambda _: text_reply(INDEX), needs_token=False)
                for path in sorted(PATHS)
            ),
            Route(method="GET", path="/healthz", handler=lambda _: text_reply("ok"), needs_token=False),
        )

    def _receive(self, request: Request) -> Reply:
        try:
            notice = read_notice(request.body)
        except NoticeError as error:
            return text_reply(str(error), HTTPStatus.BAD_REQUEST)
        if not self._deliver(notice):
            return text_reply("failed to print the notification", HTTPStatus.SERVICE_UNAVAILABLE)
        return text_reply("ok")

    def _deliver(self, notice: Notice) -> bool:
        """Return whether the notification was printed; if not, Alertmanager sends it again."""
        with self._lock:
            try:
                self._take(notice, datetime.now(UTC))
            except OSError as error:
                self._error = error
                return False
            except Exception:
                log.exception("failed to print a notification")
                return False
        return True
