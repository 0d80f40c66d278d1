"""A series with its detector, its lowest recent scores, and its alert if there is one."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import log
from typing import Any, NamedTuple, Protocol, Self

from stream.monitor.alerts.alert import Alert, Attribution, Cause, Example, Series, Subject, Suspect, alert_id, moment
from stream.monitor.alerts.summary import add_summary
from stream.monitor.detection import Event, EventKind, SeriesReading, Settings, State, observe, reading, suspicion

_KEPT = 6
_EXAMPLES = 3
_LONGEST_ID = 512


class Watched(NamedTuple):
    """The series of a watch, and its settings."""

    series: Series
    settings: Settings
    fingerprint: str
    subject: Subject = Subject.QUALITY


class ScoredRecord(Protocol):
    """The part of a record that a detector needs."""

    @property
    def interaction_id(self) -> str: ...
    @property
    def probability(self) -> float: ...
    @property
    def at(self) -> float: ...


class RaisedAlert(NamedTuple):
    """An alert as it was when it was raised."""

    alert_id: str
    raised_at: float
    onset_at: float
    evidence: float
    estimate: float
    low: float
    high: float


class Kept(NamedTuple):
    """A low score to show."""

    interaction_id: str
    score: float
    at: float


@dataclass(slots=True)
class SeriesWatch:
    """Takes the scores of a series one by one."""

    state: State = field(default_factory=State)
    aimed: float | None = None
    """The target that the configuration had; None where it is learnt."""
    lowest: list[Kept] = field(default_factory=list)
    """The latest scores below the target."""
    raised: RaisedAlert | None = None
    heard: int = 0
    """Number of records of the app at its latest score."""
    attribution: Attribution = Attribution.UNKNOWN
    """That of its open alert, as announced."""

    def observe(self, about: Watched, score: float, record: ScoredRecord) -> Event | None:
        self.aimed = about.settings.target
        outcome = observe(self.state, about.settings, score, record.probability, at=record.at)
        self.state = outcome.state
        is_low = self.state.target is None or score < self.state.target
        if is_low and len(record.interaction_id) <= _LONGEST_ID:
            self.lowest = [*self.lowest[1 - _KEPT :], Kept(record.interaction_id, score, round(record.at, 3))]
        return outcome.event

    def can_go_on(self, settings: Settings) -> bool:
        """Return whether its state fits the settings: a series with a configured target cannot learn one."""
        return settings.target is not None or self.aimed is None

    def suspect(self, dimension: str, settings: Settings) -> Suspect | None:
        """Return its figures as a possible reason for a drop elsewhere; None without evidence for that."""
        if self.state.target is None:
            return None
        if self.raised is not None:
            latest = self.quality_reading(settings).current
            assert latest.mean is not None
            evidence, *figures = self.raised.evidence, latest.mean, latest.low, latest.high
        else:
            suspected = suspicion(self.state, settings)
            if suspected is None or suspected[0] <= 0.0 or suspected[1].mean is None:
                return None
            evidence, *figures = suspected[0], suspected[1].mean, suspected[1].low, suspected[1].high
        estimate, low, high = figures
        target = self.state.target
        return Suspect(dimension=dimension, estimate=estimate, low=low, high=high, target=target, evidence=evidence)

    def announce(
        self,
        about: Watched,
        event: Event,
        suspects: Sequence[Suspect] = (),
        attribution: Attribution = Attribution.UNKNOWN,
    ) -> Alert:
        """Return the alert for an event. Its first figures are kept until it is cleared, and so is a known attribution.

        The last known attribution stays: the evidence for it may be older than the labels that are remembered.
        """
        if attribution is not Attribution.UNKNOWN:
            self.attribution = attribution
        if self.raised is None:
            name = alert_id(about.series, about.fingerprint, event.at)
            numbers = (event.evidence, event.estimate, event.low, event.high)
            self.raised = RaisedAlert(name, event.at, event.onset_at, *numbers)
        examples = [] if event.kind is EventKind.CLEARED else self._examples()
        alert = _alert(about, self.raised, event, suspects, examples)
        alert = alert.model_copy(update={"attribution": self.attribution})
        if event.kind is EventKind.CLEARED:
            self.raised, self.attribution = None, Attribution.UNKNOWN
        return add_summary(alert)

    def announce_attribution(self, about: Watched, attribution: Attribution, *, at: float) -> Alert | None:
        """Return an update of an open alert whose attribution is now known, or has become another one."""
        if self.raised is None or attribution in {Attribution.UNKNOWN, self.attribution}:
            return None
        event = self._event_now(self.raised, about.settings, EventKind.UPDATED, at)
        return self.announce(about, event, attribution=attribution)

    def withdraw(self, about: Watched, *, at: float, cause: Cause) -> Alert | None:
        """Clear its alert, if there is one, for a reason other than its scores."""
        if self.raised is None:
            return None
        event = self._event_now(self.raised, about.settings, EventKind.CLEARED, at)
        attribution = Attribution.JUDGE if cause is Cause.JUDGES_CHANGED else Attribution.UNKNOWN
        alert = self.announce(about, event, attribution=attribution)
        return add_summary(alert.model_copy(update={"cause": cause}))

    def _event_now(self, raised: RaisedAlert, settings: Settings, kind: EventKind, at: float) -> Event:
        """Return an event that the detector did not report, with its current figures."""
        now = self.reading(settings)
        return Event(
            kind=kind,
            at=at,
            target=now.target or 0.0,
            evidence=now.evidence,
            estimate=raised.estimate if now.current.mean is None else now.current.mean,
            low=now.current.low,
            high=now.current.high,
            effective_n=now.current.effective_size,
            scores=now.current.scores,
            onset_at=raised.onset_at,
        )

    def reading(self, settings: Settings) -> SeriesReading:
        return reading(self.state, settings)

    def quality_reading(self, settings: Settings) -> SeriesReading:
        """Return the reading, with the figures of an open alert until the scores since then say something."""
        now, raised = self.reading(settings), self.raised
        if raised is None or now.current.is_informative:
            return now
        return replace(now, current=now.current._replace(mean=raised.estimate, low=raised.low, high=raised.high))

    def as_data(self) -> dict[str, Any]:
        return {
            "state": self.state.as_json(),
            "aimed": self.aimed,
            "lowest": self.lowest,
            # Stored states have it under this name.
            "alarm": self.raised,
            "heard": self.heard,
            **({} if self.attribution is Attribution.UNKNOWN else {"attribution": self.attribution.value}),
        }

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Self:
        return cls(
            state=State.from_json(data["state"]),
            aimed=data["aimed"],
            lowest=[Kept(*low) for low in data["lowest"]],
            raised=None if data["alarm"] is None else RaisedAlert(*data["alarm"]),
            heard=data["heard"],
            attribution=Attribution(data.get("attribution", Attribution.UNKNOWN)),
        )

    def _examples(self) -> list[Example]:
        lowest = sorted(self.lowest, key=lambda low: (low.score, -low.at))[:_EXAMPLES]
        return [Example(interaction_id=low.interaction_id, score=low.score, at=moment(low.at)) for low in lowest]


def _alert(
    about: Watched, raised: RaisedAlert, event: Event, suspects: Sequence[Suspect], examples: Sequence[Example]
) -> Alert:
    allowed = about.settings.alert_alpha if event.kind is EventKind.RAISED else about.settings.clear_alpha
    return Alert(
        alert_id=raised.alert_id,
        kind=event.kind,
        subject=about.subject,
        series=about.series,
        at=moment(event.at),
        raised_at=moment(raised.raised_at),
        onset_at=moment(raised.onset_at),
        recovered_at=None if event.recovered_at is None else moment(event.recovered_at),
        cause=Cause.RECOVERED if event.kind is EventKind.CLEARED else None,
        target=event.target,
        evidence=event.evidence,
        enough=-log(allowed),
        estimate=event.estimate,
        low=event.low,
        high=event.high,
        effective_n=event.effective_n,
        scores=event.scores,
        worst_dimensions=tuple(suspects),
        examples=tuple(examples),
        fingerprint=about.fingerprint,
    )
