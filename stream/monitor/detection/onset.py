"""The onset: since which score the evidence has been growing, and the scores from there on.

The capital of a bet, begun anew whenever it is not more than it began with: the last such beginning is the most likely
one (the argument of the maximum in a CUSUM). A bet on a small drop says too early a beginning if the mean was near the
target before, and one on a large drop too late a one if the drop is small; so three bets are followed, and the bet that
has made the most capital in the end decides which of them is asked.

An interval for the scores since a beginning that was chosen after the fact must allow for the choice. Each beginning
gets a share of the time that has passed, and all shares together are at most that; the probability that any interval
is wrong is then at most `miss` for each `miss_seconds`. Half of the time that is not yet given away goes to the next.
"""

from dataclasses import dataclass, field

from stream.monitor.detection.interval import Interval, WeightedTally, interval

# The bets that are followed, and for each bet the place of the one that is asked when it leads.
FOLLOWED = (0, 1, 3)
ASKED = (0, 1, 1, 2)

# Times that do not move must not lead to infinity.
_MOST = 1e300


@dataclass(frozen=True, slots=True, kw_only=True)
class Onset:
    """The latest beginning of one bet, if it has made any capital since."""

    capital: float = 1.0
    at: float | None = None
    """The time of the first score since."""
    share: float = 0.0
    tally: WeightedTally = field(default_factory=WeightedTally)

    @property
    def has_begun(self) -> bool:
        return self.tally.count > 0

    def followed(self, score: float, weight: float, *, factor: float, at: float, share: float) -> "Onset":
        """After a score by which the capital is multiplied, which is a beginning if there is no other."""
        capital = min(_MOST, self.capital * factor)
        if capital <= 1.0:
            return NOTHING
        if not self.has_begun:
            return Onset(capital=capital, at=at, share=share, tally=WeightedTally().plus(score, weight))
        return Onset(capital=capital, at=self.at, share=self.share, tally=self.tally.plus(score, weight))

    def estimated(self, miss: float) -> Interval:
        """The mean of the scores since, allowing for the choice of the beginning."""
        return interval(self.tally, miss * self.share)


NOTHING = Onset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Onsets:
    """Of all bets that are followed."""

    bets: tuple[Onset, ...] = (NOTHING,) * len(FOLLOWED)
    unspent: float = 1.0
    """The time that was not given to a beginning. One period in advance, so that the first one has an interval too."""

    def followed(
        self, score: float, weight: float, *, stakes: tuple[float, ...], short: float, at: float, passed: float
    ) -> "Onsets":
        """After a score that fell short of the line, when a part of the period has passed since the last one."""
        share = 0.0 if all(onset.has_begun for onset in self.bets) else self.unspent / 2.0
        bets = tuple(
            onset.followed(score, weight, factor=1.0 + stakes[bet] * short, at=at, share=share)
            for onset, bet in zip(self.bets, FOLLOWED, strict=True)
        )
        return Onsets(bets=bets, unspent=self.unspent - share + passed)

    @property
    def forgotten(self) -> "Onsets":
        """Nothing has begun; what time was given away remains so."""
        return Onsets(unspent=self.unspent)

    def suspected(self, leading: int) -> Onset:
        """The beginning of what the leading bet is best at; one that has just been given up has none."""
        asked = self.bets[ASKED[leading]]
        return asked if asked.has_begun else max(self.bets, key=lambda onset: onset.tally.count)
