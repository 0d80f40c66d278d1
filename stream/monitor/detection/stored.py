"""Stored states: their JSON form, and the bounds of their numbers.

A state is read back from a topic. A number that no detector produces, such as a target of 3.5 or infinite evidence,
would fail a later record, far from where it came from.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, NonNegativeInt

# Larger than any sum of weights, scores or seconds, and the product of a few such numbers is still finite.
_LARGE = 1e15
# Onsets stop here, and evidence long before: it restarts when there is enough of it.
_MOST_CAPITAL = 1e300

Capital = Annotated[FiniteFloat, Field(ge=0.0, le=_MOST_CAPITAL)]
Sum = Annotated[FiniteFloat, Field(ge=0.0, le=_LARGE)]
Count = Annotated[int, Field(ge=0, le=_LARGE)]
Moment = Annotated[FiniteFloat, Field(ge=0.0, le=32_503_680_000.0)]
"""A time in Unix seconds that is a date, up to the year 2999."""
Probability = Annotated[FiniteFloat, Field(gt=0.0, le=1.0)]
Target = Annotated[FiniteFloat, Field(gt=0.0, le=1.0)]
Number = Annotated[FiniteFloat, Field(ge=-_LARGE, le=_LARGE)]

Evidence = tuple[Capital, Capital, Capital, Capital]
_Weight = Annotated[FiniteFloat, Field(gt=0.0, le=_LARGE)]
_Scores = Annotated[FiniteFloat, Field(ge=1.0, le=_LARGE)]
StoredTally = tuple[()] | tuple[_Scores, _Weight, Sum, Sum, Sum, Sum]
StoredOnset = tuple[Capital, Moment | None, Sum, StoredTally]
StoredWindow = tuple[Probability, StoredTally]
StoredUnpaired = tuple[Literal[0], Sum, Sum] | tuple[Annotated[int, Field(ge=1, le=_LARGE)], _Weight, Sum]


class _StoredDetector(BaseModel):
    # Numbers are numbers: no text, no truth value.
    model_config = ConfigDict(strict=True, frozen=True)

    v: Literal[1]


class StoredState(_StoredDetector):
    """The state of a detector."""

    target: Target | None
    at: Moment | None
    evidence: Evidence
    onsets: tuple[StoredOnset, StoredOnset, StoredOnset]
    unspent: Sum
    raised: tuple[Moment | None, Moment | None]
    since: NonNegativeInt
    windows: tuple[StoredWindow, StoredWindow]


class StoredVersionState(_StoredDetector):
    """The state of a comparison."""

    evidence: Evidence
    a: StoredUnpaired
    b: StoredUnpaired
    least: Probability
    pairs: StoredTally
    worse: bool
