"""Logs failing judges: at once, then at most once a minute for each judge and reason, with the verdicts lost."""

import logging
import time
from dataclasses import dataclass

from judges.llm.prompts.layout import reason_for_log
from judges.models.wire.error_text import redact_by_default
from judges.values.evaluation import Evaluation, JudgeVerdict, Reason, Status
from sinks.text import shorten

log = logging.getLogger(__name__)

_AGAIN_SECONDS = 60.0
_DETAIL_CHARS = 300
# The judge does not work. A judge that found no majority, or nothing to judge, does work.
_FAILURES = frozenset({Reason.UNAVAILABLE, Reason.TIMEOUT, Reason.INVALID_OUTPUT, Reason.QUORUM})
# Errors of endpoints are redacted where they are received, and have more to say than one word.
_ENDPOINT_FAILURES = frozenset({Reason.UNAVAILABLE, Reason.TIMEOUT})


@dataclass(slots=True)
class _Failing:
    detail: str = ""
    lost: int = 0
    logged_at: float | None = None


class FailureLog:
    """Verdicts that failing judges have cost since the last log line. Used from one thread."""

    def __init__(self) -> None:
        self._failing: dict[tuple[str, Reason], _Failing] = {}

    def note(self, evaluation: Evaluation) -> None:
        for dimension in evaluation.dimensions.values():
            for verdict in dimension.judges:
                self._note(verdict)

    def write(self, *, rest: bool = False) -> None:
        """Log the failures that are due; with `rest`, all that are not logged yet."""
        now = time.monotonic()
        for (judge, reason), failing in self._failing.items():
            due = rest or failing.logged_at is None or now - failing.logged_at >= _AGAIN_SECONDS
            if not failing.lost or not due:
                continue
            verdicts = f"{failing.lost} verdict{'' if failing.lost == 1 else 's'}"
            since = "" if failing.logged_at is None else f" in {now - failing.logged_at:.0f} s"
            detail = shorten(_loggable(failing.detail, reason) or "no detail given", _DETAIL_CHARS)
            log.warning("judge %s: %s, %s lost%s: %s", judge, reason.value, verdicts, since, detail)
            failing.lost, failing.logged_at = 0, now

    def _note(self, verdict: JudgeVerdict) -> None:
        if verdict.status is not Status.INSUFFICIENT or verdict.reason not in _FAILURES:
            return
        failing = self._failing.setdefault((verdict.judge, verdict.reason), _Failing())
        failing.lost += 1
        failing.detail = verdict.detail or ""


def _loggable(detail: str, reason: Reason) -> str:
    """Return the detail without words of the user, which the published one may quote from a model's output."""
    return detail if reason in _ENDPOINT_FAILURES else redact_by_default(reason_for_log(detail))
