"""The state of an app, with a sentence that gives the reason."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from sinks.archive.reading.alerts import AGREEMENT, JUDGES, ArchivedAlert
from sinks.archive.reading.judges import JudgeFailures
from sinks.page.settings import Objective
from sinks.statistics.estimates import Estimate

# With fewer verdicts, the share of failures is not meaningful.
_FEWEST_VERDICTS = 5


class AppState(StrEnum):
    """States of an app, in the order in which they are checked."""

    ALERT = "alert"
    JUDGES_CHANGED = "judges_changed"
    JUDGES_DOWN = "judges_down"
    NOT_ENOUGH_DATA = "not_enough_data"
    WATCHING = "watching"
    OK = "ok"


class StateAndReason(NamedTuple):
    state: AppState
    reason: str | None
    alert: ArchivedAlert | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRules:
    """The data and limits that decide the state of every app."""

    alerts: Sequence[ArchivedAlert]
    """Open alerts."""
    failures: Sequence[JudgeFailures]
    """Recent failures of the judges."""
    most_failures: float
    min_effective: float
    floors: Mapping[str, float]

    def state_of(
        self, app: str, composite: Estimate, good: Estimate, floors: Mapping[str, Estimate], objective: Objective
    ) -> StateAndReason:
        """Return the state of an app; the first rule that applies decides."""
        return (
            self._alert(app)
            or self._judges_changed()
            or self._judges_down()
            or self._not_enough(composite)
            or self._watching(good, floors, objective)
            or StateAndReason(AppState.OK, None)
        )

    def _alert(self, app: str) -> StateAndReason | None:
        own = [alert for alert in self.alerts if alert.app == app and alert.subject not in {JUDGES, AGREEMENT}]
        if not own:
            return None
        # The composite before single criteria, then the earliest.
        first = min(own, key=lambda alert: (alert.dimension != "composite", alert.onset_at, alert.id))
        return StateAndReason(AppState.ALERT, str(first.record.get("summary") or "") or None, first)

    def _judges_changed(self) -> StateAndReason | None:
        changed = [alert for alert in self.alerts if alert.subject == JUDGES]
        if not changed:
            return None
        first = min(changed, key=lambda alert: (alert.onset_at, alert.id))
        return StateAndReason(AppState.JUDGES_CHANGED, str(first.record.get("summary") or "") or None, first)

    def _judges_down(self) -> StateAndReason | None:
        down = [
            judge
            for judge in self.failures
            if judge.verdicts >= _FEWEST_VERDICTS and judge.failures > self.most_failures * judge.verdicts
        ]
        if not down:
            return None
        worst = max(down, key=lambda judge: judge.failures / judge.verdicts)
        why = f" ({worst.main_reason.replace('_', ' ')})" if worst.main_reason else ""
        return StateAndReason(
            AppState.JUDGES_DOWN,
            f"The judge {worst.judge} failed on {worst.failures} of its last {worst.verdicts} verdicts{why}.",
        )

    def _not_enough(self, composite: Estimate) -> StateAndReason | None:
        effective = composite.effective_size or 0.0
        if effective >= self.min_effective:
            return None
        if not composite.count:
            return StateAndReason(AppState.NOT_ENOUGH_DATA, "No answers with a composite in this range.")
        noun = "answer" if composite.count == 1 else "answers"
        return StateAndReason(
            AppState.NOT_ENOUGH_DATA,
            f"The effective sample size is {effective:.1f} ({composite.count} scored {noun}); at least "
            f"{self.min_effective:g} is needed.",
        )

    def _watching(self, good: Estimate, floors: Mapping[str, Estimate], objective: Objective) -> StateAndReason | None:
        if good.low is not None and good.high is not None and good.low < objective.target:
            place = "may be" if good.high >= objective.target else "is"
            return StateAndReason(
                AppState.WATCHING,
                f"The share of good answers {place} below its target of {objective.target:.4g}: {_interval(good)}.",
            )
        for series, floor in self.floors.items():
            estimate = floors.get(series)
            if estimate is None or estimate.low is None or estimate.high is None or estimate.low >= floor:
                continue
            place = "may be" if estimate.high >= floor else "is"
            return StateAndReason(
                AppState.WATCHING,
                f"The mean of {series.replace('_', ' ')} {place} below its floor of {floor:.4g}: "
                f"{_interval(estimate)}.",
            )
        return None


def _interval(estimate: Estimate) -> str:
    return f"{estimate.mean:.3f} ({estimate.low:.3f} to {estimate.high:.3f})"
