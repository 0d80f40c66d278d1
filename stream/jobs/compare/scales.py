"""The scale of a criterion, derived from its results: the class of a finding, and a value between 0 and 1."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from sinks.reports.results_schema import CriterionInfo

# A finding below the middle of its scale is bad: the threshold for the F1 of bad findings.
BAD_BELOW = 0.5

BEST = 1.0
"""The score of the best level."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    labels: tuple[str, ...] = ()
    """Labels of its classes, worst first; none for a range."""

    values: tuple[float | None, ...] = ()
    bounds: tuple[float, float] | None = None
    """None for options without scores."""

    rising: bool = True
    """Whether a larger value is better."""

    @classmethod
    def of(cls, criterion: CriterionInfo, *, rising: bool = True) -> Self:
        """Make the scale of a criterion; `rising` is for ranges only, because classes are listed worst first."""
        labels = tuple(label for label, _ in criterion.choices)
        values = tuple(value for _, value in criterion.choices)
        if values and values[0] is not None and values[-1] is not None:
            rising = values[0] <= values[-1]
        return cls(labels=labels, values=values, bounds=criterion.bounds, rising=rising)

    @cached_property
    def unordered(self) -> str | None:
        """The reason why the classes have no order, if they have none."""
        if not self.labels:
            return "a range has no classes"
        return "its options have no scores, and so no order" if None in self.values else None

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        """The place of each class from worst to best; options with one score share it."""
        rising = sorted({value for value in self.values if value is not None}, reverse=not self.rising)
        return tuple(rising.index(value) for value in self.values if value is not None)

    @cached_property
    def bad(self) -> frozenset[int]:
        """The classes below the middle of the scale."""
        scores = [None if value is None else self.score(value) for value in self.values]
        return frozenset(place for place, score in enumerate(scores) if score is not None and score < BAD_BELOW)

    def score(self, value: float) -> float | None:
        """Convert a value to 0 (worst) to 1 (best); None if options have no scores, or off the scale."""
        if self.bounds is None or not self.bounds[0] <= value <= self.bounds[1]:
            return None
        low, high = self.bounds
        share = (value - low) / (high - low) if high > low else 0.0
        return share if self.rising else 1.0 - share

    def place(self, *, level: float | None = None, option: str | None = None, value: float | None = None) -> int | None:
        """Return the class with this level, else this label, else this value if it is unique."""
        if level is not None:
            return self._only(self.values, level)
        named = None if option is None else self._only(self._folded_labels, _fold(option))
        return self._only(self.values, value) if named is None and value is not None else named

    def same_classes(self, other: Self) -> bool:
        """Return whether the classes are the same: levels with the same values are, however they are worded."""
        if self.unordered or other.unordered:
            return self._folded_labels == other._folded_labels
        return self.values == other.values

    def words(self) -> str:
        """Describe the valid values for people."""
        if not self.labels:
            low, high = self.bounds or (0.0, 1.0)
            return f"a number from {low:g} to {high:g}"
        pairs = zip(self.labels, self.values, strict=True)
        return ", ".join(label if value is None else f"{value:g} ({label})" for label, value in pairs)

    @cached_property
    def _folded_labels(self) -> tuple[str, ...]:
        return tuple(_fold(label) for label in self.labels)

    @staticmethod
    def _only(values: Sequence[object], value: object) -> int | None:
        return values.index(value) if values.count(value) == 1 else None


def _fold(label: str) -> str:
    return label.strip().casefold()
