"""Two versions in the same traffic: is A worse than B by more than a margin? Valid at every look.

Scores are compared in pairs, in order of arrival: when there is at least one score of each version since the last pair,
the mean of those of A is compared with the mean of those of B. A change that affects both versions cancels out in a
pair. In a pair with the mean weights a, b and the mean weighted scores ax, by, the product
a·by − b·ax − margin·a·b is on average at most 0 unless A is worse by more than the margin: unequal inclusion
probabilities, and different ones for the two versions, do not tilt it.
"""

import json
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import log
from typing import NamedTuple, Self

from pydantic import ValidationError

from sinks.statistics.anytime import Interval, WeightedTally, interval
from stream.monitor.detection.evidence import Evidence, advance, initial_evidence, stakes, total
from stream.monitor.detection.state import VERSION, StateError, first_problem
from stream.monitor.detection.stored import StoredVersionState

# More evidence than this is not needed, and infinity is not a number.
_MOST = 1e200


class VersionSide(StrEnum):
    A = "a"
    B = "b"


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionSettings:
    """The settings of a comparison."""

    margin: float = 0.0
    """A is worse if its mean is lower than that of B by more than this."""
    alpha: float = 0.01
    """Probability that the comparison is ever wrong about this."""
    miss: float = 0.05
    """Probability that the interval of the difference is ever wrong."""
    lowest_probability: float = 1.0
    """Smallest expected inclusion probability. Smaller ones are learnt from the scores."""
    floor: float = 0.001
    """A smaller inclusion probability counts as this one."""

    def __post_init__(self) -> None:
        if not 0.0 < self.alpha < 1.0 or not 0.0 < self.miss < 1.0:
            raise ValueError("alpha and miss must be above 0 and below 1")
        if not -1.0 < self.margin < 1.0:
            raise ValueError(f"margin must be between -1 and 1, not {self.margin}")
        if not 0.0 < self.floor <= self.lowest_probability <= 1.0:
            raise ValueError("must satisfy 0 < floor <= lowest_probability <= 1")


class Unpaired(NamedTuple):
    """The scores of one version since the last pair."""

    scores: int = 0
    weight: float = 0.0
    total: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionState:
    """The complete state of a comparison. A new one is empty."""

    evidence: Evidence = field(default_factory=lambda: initial_evidence(1.0))
    a: Unpaired = field(default_factory=Unpaired)
    b: Unpaired = field(default_factory=Unpaired)
    least: float = 1.0
    """Smallest inclusion probability so far."""
    pairs: WeightedTally = field(default_factory=WeightedTally)
    """Differences of the pairs, A minus B, mapped from [-1, 1] to [0, 1]."""
    is_worse: bool = False

    def as_json(self) -> str:
        stored = {
            "v": VERSION,
            "evidence": self.evidence,
            "a": self.a,
            "b": self.b,
            "least": self.least,
            "pairs": self.pairs.as_list(),
            "worse": self.is_worse,
        }
        return json.dumps(stored, separators=(",", ":"), allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        try:
            stored = StoredVersionState.model_validate_json(text)
        except ValidationError as error:
            raise StateError(f"not the state of a comparison: {first_problem(error)}") from error
        return cls(
            evidence=stored.evidence,
            a=Unpaired(*stored.a),
            b=Unpaired(*stored.b),
            least=stored.least,
            pairs=WeightedTally.from_list(stored.pairs),
            is_worse=stored.worse,
        )


class VersionDifference(NamedTuple):
    """The estimated difference: the mean of A minus the mean of B."""

    is_worse: bool
    """Whether there was enough evidence, now or before, that A is worse than B by more than the margin."""
    evidence: float
    """Natural logarithm of that evidence now."""
    difference: Interval


class VersionOutcome(NamedTuple):
    state: VersionState
    is_news: bool
    """Whether A has just been found to be worse."""


def observe_version(
    state: VersionState, settings: VersionSettings, side: VersionSide, score: float, probability: float = 1.0
) -> VersionOutcome:
    """Take the next score of either version."""
    if not 0.0 <= score <= 1.0:
        raise ValueError(f"a score must be between 0 and 1, not {score}")
    if not 0.0 < probability <= 1.0:
        raise ValueError(f"an inclusion probability must be above 0 and at most 1, not {probability}")
    scale = max(settings.floor, min(settings.lowest_probability, state.least))
    weight = min(1.0, scale / probability)
    state = replace(state, least=min(state.least, probability))
    if side is VersionSide.A:
        state = replace(state, a=_add_score(state.a, score, weight))
    else:
        state = replace(state, b=_add_score(state.b, score, weight))
    if not state.a.scores or not state.b.scores:
        return VersionOutcome(state, False)
    state = _compare_pair(state, settings)
    is_news = not state.is_worse and total(state.evidence) * settings.alpha >= 1.0
    return VersionOutcome(replace(state, is_worse=state.is_worse or is_news), is_news)


def compare_versions(state: VersionState, settings: VersionSettings) -> VersionDifference:
    mapped = interval(state.pairs, settings.miss)
    return VersionDifference(
        is_worse=state.is_worse,
        evidence=log(max(1e-12, total(state.evidence))),
        difference=mapped._replace(
            mean=None if mapped.mean is None else 2.0 * mapped.mean - 1.0,
            low=2.0 * mapped.low - 1.0,
            high=2.0 * mapped.high - 1.0,
        ),
    )


def _add_score(unpaired: Unpaired, score: float, weight: float) -> Unpaired:
    return Unpaired(unpaired.scores + 1, unpaired.weight + weight, unpaired.total + weight * score)


def _compare_pair(state: VersionState, settings: VersionSettings) -> VersionState:
    a, b = state.a, state.b
    weight = a.weight / a.scores * (b.weight / b.scores)
    # Within [0, 1]: 1 if A is better by the largest possible difference, 0 if worse by it.
    standing = (1.0 + a.total / a.weight - b.total / b.weight) / 2.0
    line = (1.0 - settings.margin) / 2.0
    evidence = advance(state.evidence, stakes(line), weight * (line - standing), 0.0)
    if total(evidence) > _MOST:
        evidence = state.evidence
    pairs = state.pairs.plus(standing, weight)
    return replace(state, evidence=evidence, a=Unpaired(), b=Unpaired(), pairs=pairs)
