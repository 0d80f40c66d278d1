"""The log of failing judges: at once, then at most once a minute for each judge and reason, with the verdicts lost."""

import logging
import time
from dataclasses import dataclass

from judges.values.evaluation import Evaluation, JudgeVerdict, Reason, Status
from sinks.text import shortened

log = logging.getLogger(__name__)

_AGAIN_SECONDS = 60.0
_DETAIL_CHARS = 300
# A judge that does not work. One that found no majority, or nothing to judge, does.
_FAILURES = frozenset({Reason.UNAVAILABLE, Reason.TIMEOUT, Reason.INVALID_OUTPUT, Reason.QUORUM})


@dataclass(slots=True)
class _Failing:
    detail: str = ""
    lost: int = 0
    told_at: float | None = None


class FailureLog:
    """What judges failed to give since it was last told. Used from one thread."""

    def __init__(self) -> None:
        self._failing: dict[tuple[str, Reason], _Failing] = {}

    def note(self, evaluation: Evaluation) -> None:
        for dimension in evaluation.dimensions.values():
            for verdict in dimension.judges:
                self._note(verdict)

    def tell(self, *, rest: bool = False) -> None:
        """Logs what is due, or with `rest` all that was not told yet."""
        now = time.monotonic()
        for (judge, reason), failing in self._failing.items():
            due = rest or failing.told_at is None or now - failing.told_at >= _AGAIN_SECONDS
            if not failing.lost or not due:
                continue
            verdicts = f"{failing.lost} verdict{'' if failing.lost == 1 else 's'}"
            since = "" if failing.told_at is None else f" in {now - failing.told_at:.0f} s"
            log.warning("judge %s: %s, %s lost%s: %s", judge, reason.value, verdicts, since, failing.detail)
            failing.lost, failing.told_at = 0, now

    def _note(self, verdict: JudgeVerdict) -> None:
        if verdict.status is not Status.INSUFFICIENT or verdict.reason not in _FAILURES:
            return
        failing = self._failing.setdefault((verdict.judge, verdict.reason), _Failing())
        failing.lost += 1
        failing.detail = shortened(verdict.detail or "no detail given", _DETAIL_CHARS)
