"""The scale of a criterion, derived from its results: the class of a finding, and a value between 0 and 1."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from sinks.reports.results_schema import CriterionInfo

# Below the middle of its scale something is bad: the cut for the F1 of what is bad.
BAD_BELOW = 0.5


@dataclass(frozen=True, kw_only=True)
class Scale:
    labels: tuple[str, ...] = ()
    """Of its classes, worst first; none for a range."""

    values: tuple[float | None, ...] = ()
    bounds: tuple[float, float] | None = None
    """None for options without scores."""

    rising: bool = True
    """A larger value is better."""

    @classmethod
    def of(cls, criterion: CriterionInfo, *, rising: bool = True) -> Self:
        """`rising` counts for a range only: classes stand worst first, which tells it."""
        labels = tuple(label for label, _ in criterion.choices)
        values = tuple(value for _, value in criterion.choices)
        if values and values[0] is not None and values[-1] is not None:
            rising = values[0] <= values[-1]
        return cls(labels=labels, values=values, bounds=criterion.bounds, rising=rising)

    @cached_property
    def unordered(self) -> str | None:
        """Why no class is nearer to another one than to a third."""
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
        """A value of the scale on 0 (worst) to 1 (best); None where options have no scores, or off the scale."""
        if self.bounds is None or not self.bounds[0] <= value <= self.bounds[1]:
            return None
        low, high = self.bounds
        share = (value - low) / (high - low) if high > low else 0.0
        return share if self.rising else 1.0 - share

    def place(self, *, level: float | None = None, option: str | None = None, value: float | None = None) -> int | None:
        """The class that is named by its level, or else by its label, or else by a value that only it has."""
        if level is not None:
            return self._only(self.values, level)
        named = None if option is None else self._only(self._folded, _folded(option))
        return self._only(self.values, value) if named is None and value is not None else named

    def same_classes(self, other: Self) -> bool:
        """Levels of the same values are the same classes, however they are worded."""
        if self.unordered or other.unordered:
            return self._folded == other._folded
        return self.values == other.values

    def words(self) -> str:
        """What may be said on it, for people."""
        if not self.labels:
            low, high = self.bounds or (0.0, 1.0)
            return f"a number from {low:g} to {high:g}"
        pairs = zip(self.labels, self.values, strict=True)
        return ", ".join(label if value is None else f"{value:g} ({label})" for label, value in pairs)

    @cached_property
    def _folded(self) -> tuple[str, ...]:
        return tuple(_folded(label) for label in self.labels)

    @staticmethod
    def _only(known: Sequence[object], wanted: object) -> int | None:
        return known.index(wanted) if known.count(wanted) == 1 else None


def _folded(label: str) -> str:
    return label.strip().casefold()
