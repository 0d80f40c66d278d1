"""The state of a detector, a few numbers that survive JSON unchanged, and its events."""

import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

from pydantic import ValidationError

from sinks.statistics.anytime import WeightedTally
from stream.monitor.detection.evidence import NONE, Evidence
from stream.monitor.detection.onset import Onset, Onsets
from stream.monitor.detection.stored import StoredState

VERSION = 1
# The path to a value may contain keys of any length.
_PLACE_CHARS = 200


class StateError(ValueError):
    """A stored state that cannot be read: another version wrote it, or it is no state."""


def first_problem(error: ValidationError) -> str:
    """Describe the first problem of a stored value and its place, without repeating the value."""
    problem = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(str(part) for part in problem["loc"])[:_PLACE_CHARS]
    return f"{place}: {problem['msg']}" if place else problem["msg"]


class EventKind(StrEnum):
    """Whether an alert starts, continues or ends."""

    RAISED = "raised"
    UPDATED = "updated"
    CLEARED = "cleared"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A change of an alert to announce."""

    kind: EventKind
    at: float
    target: float
    evidence: float
    """Natural logarithm of the evidence: of the drop when raised, of the recovery when updated or cleared."""
    estimate: float
    """Mean since the onset when raised, since the recovery when cleared, since it was raised when updated."""
    low: float
    high: float
    effective_n: float
    scores: int
    """Number of scores in the estimate."""
    onset_at: float
    """Time when the drop likely began."""
    recovered_at: float | None = None
    """Time when the recovery likely began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreWindow:
    """A part of the latest scores, and their smallest inclusion probability."""

    tally: WeightedTally = field(default_factory=WeightedTally)
    least: float = 1.0

    def plus(self, score: float, weight: float, probability: float) -> "ScoreWindow":
        return ScoreWindow(tally=self.tally.plus(score, weight), least=min(self.least, probability))

    @property
    def emptied(self) -> "ScoreWindow":
        return ScoreWindow(least=self.least)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The complete state of a series. A new one is empty."""

    target: float | None = None
    """The target that the evidence is about: that of the settings, or the learnt one."""
    at: float | None = None
    """The latest time of a score."""
    evidence: Evidence = NONE
    """Evidence of a drop; of the recovery while there is an alert."""
    onsets: Onsets = field(default_factory=Onsets)
    """Onsets of the change that the evidence is about."""
    raised_at: float | None = None
    dropped_at: float | None = None
    """Onset of the drop that the open alert is about."""
    since: int = 0
    """Scores since the alert was raised or cleared."""
    older: ScoreWindow = field(default_factory=ScoreWindow)
    """The latest scores, those of `newer` among them."""
    newer: ScoreWindow = field(default_factory=ScoreWindow)

    @property
    def is_raised(self) -> bool:
        return self.raised_at is not None

    def as_json(self) -> str:
        return json.dumps(
            {
                "v": VERSION,
                "target": self.target,
                "at": self.at,
                "evidence": self.evidence,
                "onsets": [[onset.capital, onset.at, onset.share, onset.tally.as_list()] for onset in self.onsets.bets],
                "unspent": self.onsets.unspent,
                "raised": [self.raised_at, self.dropped_at],
                "since": self.since,
                "windows": [[window.least, window.tally.as_list()] for window in (self.older, self.newer)],
            },
            separators=(",", ":"),
            allow_nan=False,
        )

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        try:
            stored = StoredState.model_validate_json(text)
        except ValidationError as error:
            raise StateError(f"not the state of a detector: {first_problem(error)}") from error
        older, newer = (
            ScoreWindow(least=least, tally=WeightedTally.from_list(tally)) for least, tally in stored.windows
        )
        raised_at, dropped_at = stored.raised
        return cls(
            target=stored.target,
            at=stored.at,
            evidence=stored.evidence,
            onsets=Onsets(
                bets=tuple(
                    Onset(capital=capital, at=began, share=share, tally=WeightedTally.from_list(tally))
                    for capital, began, share, tally in stored.onsets
                ),
                unspent=stored.unspent,
            ),
            raised_at=raised_at,
            dropped_at=dropped_at,
            since=stored.since,
            older=older,
            newer=newer,
        )
