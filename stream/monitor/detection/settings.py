"""Settings of a detector: the target, and how often it may be wrong."""

from dataclasses import dataclass

DAY_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of one detector."""

    target: float | None
    """An alert means that the mean is below it. None: it is learnt from the first scores."""
    alpha: float = 0.01
    """Expected false alarms in one period, at most."""
    period_seconds: float = 30 * DAY_SECONDS

    margin: float = 0.05
    """An alert is cleared on evidence that the mean is above the target less this."""
    clear_alpha: float = 0.1
    """Expected false clearings per `clear_seconds` while the mean is still below, at most."""
    clear_seconds: float = DAY_SECONDS

    miss: float = 0.05
    """Probability that an interval is ever wrong: of the current mean, or of all intervals in one `miss_seconds` for
    the scores since a suspected onset."""
    miss_seconds: float = DAY_SECONDS
    window: int = 500
    """The current mean covers the last one to two times this many scores."""

    lowest_probability: float = 1.0
    """Smallest expected inclusion probability. Smaller ones are learnt from the scores."""
    floor: float = 0.001
    """A smaller inclusion probability counts as this one, so that no score outweighs all others."""

    reference_scores: int = 1000
    """Minimum number of scores to learn a target from."""
    reference_share: float = 0.2
    """Part of `alpha` for the case that the learnt target is above the true mean of the reference."""
    tolerance: float = 0.0
    """Drop below the reference that is still tolerated."""

    def __post_init__(self) -> None:
        shares = (self.alpha, self.clear_alpha, self.miss, self.reference_share)
        if not all(0.0 < share < 1.0 for share in shares):
            raise ValueError("alpha, clear_alpha, miss and reference_share must be above 0 and below 1")
        if not 0.0 < self.margin < 1.0 or not 0.0 <= self.tolerance < 1.0:
            raise ValueError("margin must be above 0 and below 1, and tolerance at least 0")
        if self.target is not None and not self.margin < self.target < 1.0:
            raise ValueError(f"target must be above the margin of {self.margin} and below 1, not {self.target}")
        if not 0.0 < self.floor <= self.lowest_probability <= 1.0:
            raise ValueError("must satisfy 0 < floor <= lowest_probability <= 1")
        if min(self.period_seconds, self.clear_seconds, self.miss_seconds) <= 0.0:
            raise ValueError("period must be longer than 0 seconds")
        if min(self.window, self.reference_scores) < 1:
            raise ValueError("window and reference must have at least one score")

    @property
    def alert_alpha(self) -> float:
        """The part of `alpha` for alerts: the rest is needed if the target is learnt."""
        return self.alpha if self.target is not None else self.alpha * (1.0 - self.reference_share)
