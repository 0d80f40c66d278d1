"""Two models that answer the same traffic: raises an alert when one is worse, and clears it."""

from dataclasses import dataclass, field, replace
from math import log
from typing import Any, NamedTuple, Self

from stream.monitor.alerts.alert import Alert, Cause, Series, Subject, alert_id, moment
from stream.monitor.alerts.score_record import ScoreRecord
from stream.monitor.alerts.summary import add_summary
from stream.monitor.detection import (
    EventKind,
    VersionSettings,
    VersionSide,
    VersionState,
    compare_versions,
    observe_version,
)


class Compared(NamedTuple):
    """The compared models, and the settings."""

    series: Series
    settings: VersionSettings
    models: tuple[str, str]
    """A and B."""


class Worse(NamedTuple):
    """An open alert that A is worse."""

    alert_id: str
    raised_at: float


class ComparisonStanding(NamedTuple):
    """The current result of a comparison."""

    name: str
    evidence: float
    enough: float
    low: float
    high: float
    worse: bool


@dataclass(slots=True)
class VersionWatch:
    """Takes the scores of both models one by one."""

    state: VersionState = field(default_factory=VersionState)
    worse: Worse | None = None

    def observe(self, about: Compared, side: VersionSide, score: float, record: ScoreRecord) -> Alert | None:
        """Test whether A is worse and, once it is, whether it no longer is.

        The latter means that B is worse than A by more than minus the margin, so the sides are swapped.
        """
        settings = self._current_settings(about.settings)
        if self.worse is not None:
            side = VersionSide.B if side is VersionSide.A else VersionSide.A
        outcome = observe_version(self.state, settings, side, score, record.probability)
        self.state = outcome.state
        return self._news(about, record.fingerprint, record.at) if outcome.is_news else None

    def standing(self, name: str, settings: VersionSettings) -> ComparisonStanding:
        result = compare_versions(self.state, self._current_settings(settings))
        low, high, is_worse = result.difference.low, result.difference.high, self.worse is not None
        return ComparisonStanding(
            name=name,
            evidence=result.evidence,
            enough=-log(settings.alpha),
            low=-high if is_worse else low,
            high=-low if is_worse else high,
            worse=is_worse,
        )

    def _current_settings(self, settings: VersionSettings) -> VersionSettings:
        return settings if self.worse is None else replace(settings, margin=-settings.margin)

    def withdraw(self, about: Compared, fingerprint: str, *, at: float, cause: Cause) -> Alert | None:
        """Clear its alert, if there is one, for a reason other than the scores."""
        if self.worse is None:
            return None
        return add_summary(self._news(about, fingerprint, at).model_copy(update={"cause": cause}))

    def _news(self, about: Compared, fingerprint: str, at: float) -> Alert:
        series, settings, models = about
        is_over = self.worse is not None
        worse = self.worse or Worse(alert_id(series, fingerprint, at), round(at, 3))
        result = compare_versions(self.state, self._current_settings(settings))
        mean, low, high = result.difference.mean or 0.0, result.difference.low, result.difference.high
        self.state, self.worse = VersionState(), None if is_over else worse
        return add_summary(
            Alert(
                alert_id=worse.alert_id,
                kind=EventKind.CLEARED if is_over else EventKind.RAISED,
                subject=Subject.VERSIONS,
                series=series,
                at=moment(at),
                raised_at=moment(worse.raised_at),
                onset_at=moment(worse.raised_at),
                recovered_at=moment(at) if is_over else None,
                cause=Cause.RECOVERED if is_over else None,
                models=models,
                target=settings.margin,
                evidence=result.evidence,
                enough=-log(settings.alpha),
                estimate=-mean if is_over else mean,
                low=-high if is_over else low,
                high=-low if is_over else high,
                effective_n=result.difference.effective_size,
                scores=result.difference.scores,
                fingerprint=fingerprint,
            )
        )

    def as_data(self) -> dict[str, Any]:
        return {"state": self.state.as_json(), "worse": self.worse}

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Self:
        worse = data["worse"]
        return cls(state=VersionState.from_json(data["state"]), worse=None if worse is None else Worse(*worse))
