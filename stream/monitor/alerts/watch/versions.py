"""Two models that answer the same traffic: raises an alert when one is worse, and clears it."""

from dataclasses import dataclass, field, replace
from math import log
from typing import Any, NamedTuple, Self

from stream.monitor.alerts.alert import Alert, Cause, Series, Subject, alert_id, moment
from stream.monitor.alerts.score_record import ScoreRecord
from stream.monitor.alerts.summary import worded
from stream.monitor.detection import (
    EventKind,
    VersionSettings,
    VersionSide,
    VersionState,
    compare_versions,
    observe_version,
)


class Compared(NamedTuple):
    """What a watch is about."""

    series: Series
    settings: VersionSettings
    models: tuple[str, str]
    """A and B."""


class Worse(NamedTuple):
    """Since when the one is worse."""

    alert_id: str
    raised_at: float


class ComparisonStanding(NamedTuple):
    """How a comparison stands."""

    name: str
    evidence: float
    enough: float
    low: float
    high: float
    worse: bool


@dataclass(slots=True)
class VersionWatch:
    """Is told of scores of both, one after the other."""

    state: VersionState = field(default_factory=VersionState)
    worse: Worse | None = None

    def observe(self, about: Compared, side: VersionSide, score: float, record: ScoreRecord) -> Alert | None:
        """What is asked is whether A is worse and, once it is, whether it no longer is.

        That is whether B is worse than A by more than less the margin, so the sides change places.
        """
        asked = self._asked(about.settings)
        if self.worse is not None:
            side = VersionSide.B if side is VersionSide.A else VersionSide.A
        outcome = observe_version(self.state, asked, side, score, record.probability)
        self.state = outcome.state
        return self._news(about, record.fingerprint, record.at) if outcome.is_news else None

    def standing(self, name: str, settings: VersionSettings) -> ComparisonStanding:
        found = compare_versions(self.state, self._asked(settings))
        low, high, is_worse = found.difference.low, found.difference.high, self.worse is not None
        return ComparisonStanding(
            name=name,
            evidence=found.evidence,
            enough=-log(settings.alpha),
            low=-high if is_worse else low,
            high=-low if is_worse else high,
            worse=is_worse,
        )

    def _asked(self, settings: VersionSettings) -> VersionSettings:
        return settings if self.worse is None else replace(settings, margin=-settings.margin)

    def withdraw(self, about: Compared, fingerprint: str, *, at: float, cause: Cause) -> Alert | None:
        """Ends its alert, if it has one, for a reason that is not in the scores."""
        if self.worse is None:
            return None
        return worded(self._news(about, fingerprint, at).model_copy(update={"cause": cause}))

    def _news(self, about: Compared, fingerprint: str, at: float) -> Alert:
        series, settings, models = about
        is_over = self.worse is not None
        known = self.worse or Worse(alert_id(series, fingerprint, at), round(at, 3))
        found = compare_versions(self.state, self._asked(settings))
        mean, low, high = found.difference.mean or 0.0, found.difference.low, found.difference.high
        self.state, self.worse = VersionState(), None if is_over else known
        return worded(
            Alert(
                alert_id=known.alert_id,
                kind=EventKind.CLEARED if is_over else EventKind.RAISED,
                subject=Subject.VERSIONS,
                series=series,
                at=moment(at),
                raised_at=moment(known.raised_at),
                onset_at=moment(known.raised_at),
                recovered_at=moment(at) if is_over else None,
                cause=Cause.RECOVERED if is_over else None,
                models=models,
                target=settings.margin,
                evidence=found.evidence,
                enough=-log(settings.alpha),
                estimate=-mean if is_over else mean,
                low=-high if is_over else low,
                high=-low if is_over else high,
                effective_n=found.difference.effective_size,
                scores=found.difference.scores,
                fingerprint=fingerprint,
            )
        )

    def as_data(self) -> dict[str, Any]:
        return {"state": self.state.as_json(), "worse": self.worse}

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Self:
        worse = data["worse"]
        return cls(state=VersionState.from_json(data["state"]), worse=None if worse is None else Worse(*worse))
