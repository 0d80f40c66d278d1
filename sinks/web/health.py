"""Health: the state of the parts of a process, on two pages."""

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from sinks.web.routes import Reply, Route

Check = Callable[[], str | None]
"""Returns the problem, or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The problems of a process, by part."""

    parts: Mapping[str, str]
    problems: Mapping[str, str]

    @property
    def ok(self) -> bool:
        return not self.problems


class Health:
    """Alive: the process works or can recover. Ready: it works now.

    Without a broker a process is not ready, but alive: a restart would not bring the broker back.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._alive: dict[str, Check] = {}
        self._ready: dict[str, Check] = {}

    def add(self, name: str, *, alive: Check | None = None, ready: Check | None = None) -> None:
        with self._lock:
            if alive is not None:
                self._alive[name] = alive
            if ready is not None:
                self._ready[name] = ready

    def alive(self) -> Report:
        with self._lock:
            checks = dict(self._alive)
        return _report(checks)

    def ready(self) -> Report:
        """Report readiness; a part that is not alive is not ready either."""
        with self._lock:
            checks = dict(self._ready)
        ready, alive = _report(checks), self.alive()
        return Report(parts={**ready.parts, **alive.problems}, problems={**ready.problems, **alive.problems})


def health_routes(health: Health) -> tuple[Route, ...]:
    """Return `/healthz` and `/readyz`. They need no token, because supervisors have none."""
    return (
        Route(method="GET", path="/healthz", handler=lambda _: _reply(health.alive()), needs_token=False),
        Route(method="GET", path="/readyz", handler=lambda _: _reply(health.ready()), needs_token=False),
    )


def _reply(report: Report) -> Reply:
    return Reply(
        status=HTTPStatus.OK if report.ok else HTTPStatus.SERVICE_UNAVAILABLE,
        body=json.dumps({"ok": report.ok, "parts": dict(report.parts)}, ensure_ascii=False).encode() + b"\n",
        content_type="application/json",
        headers={"Cache-Control": "no-store"},
    )


def _report(checks: Mapping[str, Check]) -> Report:
    problems = {name: _run_check(check) for name, check in checks.items()}
    return Report(
        parts={name: problem or "ok" for name, problem in problems.items()},
        problems={name: problem for name, problem in problems.items() if problem is not None},
    )


def _run_check(check: Check) -> str | None:
    try:
        return check()
    except Exception as error:  # a failing check counts as a problem of its part
        return f"{type(error).__name__}: {error}"
