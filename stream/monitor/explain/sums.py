"""Sums of scores: enough for means, shares and their variances, so that no score has to be kept."""

from dataclasses import dataclass, field
from enum import IntEnum


class Period(IntEnum):
    """The compared sides: before and since the onset; of two versions, the other one and the one in question."""

    BEFORE = 0
    SINCE = 1


@dataclass(slots=True)
class ScoreSums:
    """Sums over scores, each with its weight 1/π."""

    count: int = 0
    weight: float = 0.0
    weighted: float = 0.0
    """Σ w·x."""
    squares: float = 0.0
    """Σ w²."""
    squares_x: float = 0.0
    """Σ w²·x."""
    squares_xx: float = 0.0
    """Σ w²·x²."""

    def add(self, score: float, weight: float) -> None:
        square = weight * weight
        self.count += 1
        self.weight += weight
        self.weighted += weight * score
        self.squares += square
        self.squares_x += square * score
        self.squares_xx += square * score * score

    def include(self, other: "ScoreSums") -> None:
        self.count += other.count
        self.weight += other.weight
        self.weighted += other.weighted
        self.squares += other.squares
        self.squares_x += other.squares_x
        self.squares_xx += other.squares_xx

    @property
    def mean(self) -> float | None:
        return self.weighted / self.weight if self.count else None

    @property
    def effective(self) -> float:
        """Kish's number of equally weighted scores that would be as informative."""
        return self.weight / self.squares * self.weight if self.count else 0.0

    def spread(self, a: float, b: float) -> float:
        """Σ w²·(a + b·x)²."""
        return max(0.0, a * a * self.squares + 2.0 * a * b * self.squares_x + b * b * self.squares_xx)

    def without(self, part: "ScoreSums") -> "ScoreSums":
        """Return the sums without `part`, which must be a part of these scores."""
        return ScoreSums(
            self.count - part.count,
            self.weight - part.weight,
            self.weighted - part.weighted,
            self.squares - part.squares,
            self.squares_x - part.squares_x,
            self.squares_xx - part.squares_xx,
        )


@dataclass(slots=True)
class Pair:
    """The sums of both periods."""

    before: ScoreSums = field(default_factory=ScoreSums)
    since: ScoreSums = field(default_factory=ScoreSums)

    def add(self, period: Period, score: float, weight: float) -> None:
        (self.since if period is Period.SINCE else self.before).add(score, weight)

    def include(self, other: "Pair") -> None:
        self.before.include(other.before)
        self.since.include(other.since)

    def copy(self) -> "Pair":
        pair = Pair()
        pair.include(self)
        return pair

    @property
    def count(self) -> int:
        return self.before.count + self.since.count
