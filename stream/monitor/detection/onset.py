"""The onset: the score since which the evidence has been growing, and the scores from there on.

The capital of a bet is restarted whenever it is not more than it began with: the last such beginning is the most likely
onset (the argument of the maximum in a CUSUM). A bet on a small drop puts the onset too early if the mean was near the
target before, and a bet on a large drop puts it too late if the drop is small. So three bets are followed, and the bet
with the most capital in the end decides which of them is used.

The interval for the scores since a beginning that was chosen in hindsight must allow for the choice. Each beginning
gets a share of the time that has passed, and all shares together are at most that time. Then the probability that any
interval is wrong is at most `miss` for each `miss_seconds`. Each new beginning gets half of the unassigned time.
"""

from dataclasses import dataclass, field

from sinks.statistics.anytime import Interval, WeightedTally, interval

# The bets that are followed, and for each bet the index of the one to use when it leads.
FOLLOWED = (0, 1, 3)
ASKED = (0, 1, 1, 2)

# Times that do not move must not lead to infinity.
_MOST = 1e300


@dataclass(frozen=True, slots=True, kw_only=True)
class Onset:
    """The latest beginning of one bet, if it has made any capital since."""

    capital: float = 1.0
    at: float | None = None
    """Time of the first score since then."""
    share: float = 0.0
    tally: WeightedTally = field(default_factory=WeightedTally)

    @property
    def has_begun(self) -> bool:
        return self.tally.count > 0

    def follow(self, score: float, weight: float, *, factor: float, at: float, share: float) -> "Onset":
        """Return the onset after a score that multiplies the capital by `factor`; the score may be a new beginning."""
        capital = min(_MOST, self.capital * factor)
        if capital <= 1.0:
            return NOTHING
        if not self.has_begun:
            return Onset(capital=capital, at=at, share=share, tally=WeightedTally().plus(score, weight))
        return Onset(capital=capital, at=self.at, share=self.share, tally=self.tally.plus(score, weight))

    def estimate(self, miss: float) -> Interval:
        """Estimate the mean of the scores since the onset, allowing for the choice of the onset."""
        return interval(self.tally, miss * self.share)


NOTHING = Onset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Onsets:
    """The onsets of all bets that are followed."""

    bets: tuple[Onset, ...] = (NOTHING,) * len(FOLLOWED)
    unspent: float = 1.0
    """Time that is not assigned to a beginning; starts at one period, so that the first one has an interval too."""

    def follow(
        self, score: float, weight: float, *, stakes: tuple[float, ...], short: float, at: float, passed: float
    ) -> "Onsets":
        """Return the onsets after a score that fell `short` of the line; `passed` is the time before it, in periods."""
        share = 0.0 if all(onset.has_begun for onset in self.bets) else self.unspent / 2.0
        bets = tuple(
            onset.follow(score, weight, factor=1.0 + stakes[bet] * short, at=at, share=share)
            for onset, bet in zip(self.bets, FOLLOWED, strict=True)
        )
        return Onsets(bets=bets, unspent=self.unspent - share + passed)

    @property
    def forgotten(self) -> "Onsets":
        """No onsets; time that was assigned remains assigned."""
        return Onsets(unspent=self.unspent)

    def find_suspected(self, leading: int) -> Onset:
        """Return the onset for the leading bet; if that one was just discarded, the longest of the others."""
        onset = self.bets[ASKED[leading]]
        return onset if onset.has_begun else max(self.bets, key=lambda bet: bet.tally.count)
