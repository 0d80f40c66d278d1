"""Attribution: whether scores fell because the answers became worse, or because the judges changed.

Anchors are canaries with a human label. The judges score them again at a steady rate, beside the live traffic. An
anchor's text and label never change, so only the judges can move the gap between their score and the label. Two
detectors watch it: one for gaps below the anchor's usual one (stricter judges), one for gaps above it (milder judges).

1. The usual gap of an anchor is the median of its first ones.
2. A later gap counts 1 if it is not below (not above) the usual one, and 0 if it is. Unchanged judges repeat 98.5 %
   of their scores, so the mean of these numbers is at least that, and the detector of `detector` raises an alert if it
   is not. Both share `alpha`: an alert is false with the probability that its settings allow, at every look.
3. If live scores fell, the verdict waits for the guard: this many further live scores, in which the anchors can catch
   up, and at least 30 scores of anchors since the drop began. If the gap has changed by then, the judges are the
   reason, else the system. A gap that changes without a drop of live scores is a verdict about the judges, too.
4. After a change of the judges the usual gaps are learnt again. The change explains drops that began up to a day
   after it was found.

The guard is the price for few anchors: a change of the judges that moves live scores moves anchors as well, but takes
as many of them. The anchors must get their evidence before the guard ends, so judge them often enough.

Reviewed answers of live traffic show stricter judges, too: then the mean of (1 + score − label) / 2 falls. A drop of
quality does not lower it: people give these answers lower labels as well. Their detector learns its target.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from statistics import fmean, median
from typing import Any, Self

from stream.monitor.detection.detector import observe
from stream.monitor.detection.judge_drift import BASELINE, canary_settings
from stream.monitor.detection.settings import DAY_SECONDS, Settings
from stream.monitor.detection.state import State

# Scores of an anchor from which its usual gap is learnt.
_FIRST = 5
# Scores of anchors since the drop began, without which the system is not blamed: enough to show a change of a quarter
# of all scores.
_ENOUGH = 30
# A change of the judges explains drops that began up to this long after it was found: onsets are estimates.
_SOON_SECONDS = DAY_SECONDS
# Gaps that differ by less are equal: scores are sums of levels, and sums are rounded.
_EQUAL = 1e-6


class DriftSource(StrEnum):
    """What moved the scores."""

    NONE = "none"
    SYSTEM = "system"
    JUDGE = "judge"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributionSettings:
    """How often an attribution to the judges may be false, and how long a verdict waits for the anchors."""

    alpha: float = 0.005
    """Expected false alerts about the judges per 30 days, at most."""
    baseline: float = BASELINE
    """How often unchanged judges repeat the score of an anchor."""
    guard: int = 300
    """Live scores after an alert."""

    def __post_init__(self) -> None:
        if self.guard < 0:
            raise ValueError(f"a guard must be a number of live scores, not {self.guard}")

    @property
    def direction(self) -> Settings:
        """The settings of each of the two detectors."""
        return canary_settings(self.baseline, alpha=self.alpha / 2.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorGap:
    """The gaps of one anchor between the judges' score and the label."""

    label: float
    first: tuple[float, ...] = ()
    usual: float | None = None
    """None until it is learnt."""

    def learn(self, gap: float) -> "AnchorGap":
        first = (*self.first, gap)
        if len(first) < _FIRST:
            return replace(self, first=first)
        return replace(self, first=(), usual=median(first))


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributionState:
    """The gaps of the anchors."""

    anchors: Mapping[str, AnchorGap] = field(default_factory=dict)
    stricter: State = field(default_factory=State)
    milder: State = field(default_factory=State)
    latest: tuple[float, ...] = ()
    """Times of the latest scores that were compared with the usual gaps."""
    changed_at: float | None = None
    """Time when the last change of the judges was found."""

    @property
    def usual_gap(self) -> float | None:
        """The mean of the judges' scores minus the labels, over all anchors, before any change."""
        gaps = [anchor.usual for anchor in self.anchors.values() if anchor.usual is not None]
        return fmean(gaps) if gaps else None

    def as_data(self) -> dict[str, Any]:
        return {
            "anchors": {name: [gap.label, gap.usual, gap.first] for name, gap in self.anchors.items()},
            "stricter": self.stricter.as_json(),
            "milder": self.milder.as_json(),
            "latest": self.latest,
            "changed_at": self.changed_at,
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        anchors = {
            name: AnchorGap(label=label, usual=usual, first=tuple(first))
            for name, (label, usual, first) in data["anchors"].items()
        }
        return cls(
            anchors=anchors,
            stricter=State.from_json(data["stricter"]),
            milder=State.from_json(data["milder"]),
            latest=tuple(data["latest"]),
            changed_at=data["changed_at"],
        )


def observe_anchor(
    state: AttributionState, settings: AttributionSettings, anchor: str, score: float, label: float, *, at: float
) -> AttributionState:
    """Take the judges' new score of an anchor with a label, at a time in seconds."""
    if not 0.0 <= score <= 1.0 or not 0.0 <= label <= 1.0:
        raise ValueError(f"scores and labels must be between 0 and 1, not {score} and {label}")
    gap, known = score - label, state.anchors.get(anchor)
    if known is None or known.label != label:
        known = AnchorGap(label=label)
    if known.usual is None:
        return replace(state, anchors={**state.anchors, anchor: known.learn(gap)})
    change, direction = gap - known.usual, settings.direction
    stricter = observe(state.stricter, direction, float(change >= -_EQUAL), at=at).state
    milder = observe(state.milder, direction, float(change <= _EQUAL), at=at).state
    if stricter.is_raised or milder.is_raised:
        return AttributionState(changed_at=at)
    return replace(state, stricter=stricter, milder=milder, latest=(*state.latest[1 - _ENOUGH :], at))


def attribute(anchors: Sequence[AttributionState], live: State, settings: AttributionSettings) -> DriftSource | None:
    """Return what moved the live scores of a detector; None while it is not known.

    `anchors` has the criteria that the live scores depend on, as far as anchors are labelled by them.
    """
    if any(explains_drop(state.changed_at, live) for state in anchors):
        return DriftSource.JUDGE
    if not live.is_raised:
        return DriftSource.NONE
    has_caught_up = bool(anchors) and all(_has_enough(state, live.dropped_at or 0.0) for state in anchors)
    return DriftSource.SYSTEM if has_caught_up and live.since >= settings.guard else None


def explains_drop(changed_at: float | None, live: State) -> bool:
    """Return whether a change of the judges that was found at this time explains the drop of live scores, if any."""
    return changed_at is not None and (live.dropped_at is None or changed_at >= live.dropped_at - _SOON_SECONDS)


def _has_enough(state: AttributionState, since: float) -> bool:
    return len(state.latest) >= _ENOUGH and state.latest[0] >= since


# Reviewed answers


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewGap:
    """The gap between scores and labels of reviewed answers."""

    state: State = field(default_factory=State)
    changed_at: float | None = None
    """Time when the judges were last found to be stricter than before."""


def observe_review(
    gap: ReviewGap, settings: Settings, score: float, label: float, probability: float, *, at: float
) -> ReviewGap:
    """Take the score and the label of an answer that was reviewed with this probability."""
    outcome = observe(gap.state, settings, (1.0 + score - label) / 2.0, probability, at=at)
    if outcome.state.is_raised:
        return ReviewGap(changed_at=at)
    return replace(gap, state=outcome.state)
