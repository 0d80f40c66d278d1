"""Evidence against "the mean is at least the line", and its update by one score.

Evidence is capital in a game that is fair or worse while the mean is at least the line: a stake λ on a score x turns
capital C into C·(1 + λ·w·(line − x)), which on average is not more than C. The weight w in (0, 1] is that of the score
relative to the heaviest there can be. Capital that grows much all the same is evidence that the mean is below.
"""

from functools import lru_cache

# Which drop a bet is best at: the odds of a bad answer are so many times those at the line. One of 0.85 becomes 0.80,
# 0.72, 0.62 and 0.36. The last also serves scores that spread less than passes and fails do.
ODDS = (1.4, 2.2, 3.5, 10.0)
# How fresh capital is divided among them: most of it where drops are large enough to matter and not plain to see.
DIVISION = (0.15, 0.3, 0.4, 0.15)

Evidence = tuple[float, ...]
NONE: Evidence = (0.0,) * len(ODDS)


@lru_cache(maxsize=1024)
def stakes(line: float) -> tuple[float, ...]:
    """The stake of each bet against a mean of at least `line`.

    With it the capital is multiplied by the likelihood ratio of passes and fails with the odds of `ODDS` to those with
    the mean `line`. So it is never negative: λ·(1 − line) is below 1.
    """
    return tuple((odds - 1.0) / (line + odds * (1.0 - line)) for odds in ODDS)


def advance(evidence: Evidence, stakes: tuple[float, ...], short: float, fresh: float) -> Evidence:
    """The capital of each bet after a score that fell `short` of the line, and fresh capital for the bets to come.

    Fresh capital is added after the score, so that it does not depend on it: for a drop that begins with the next one.
    """
    return tuple(
        capital * (1.0 + stake * short) + share * fresh
        for capital, stake, share in zip(evidence, stakes, DIVISION, strict=True)
    )


def total(evidence: Evidence) -> float:
    """All capital, added in one order: `sum` rounds differently from one Python to the next."""
    added = 0.0
    for capital in evidence:
        added += capital
    return added


def leading(evidence: Evidence) -> int:
    """The bet with the most capital: what it is best at is what has happened."""
    return max(range(len(evidence)), key=evidence.__getitem__)


def started(capital: float) -> Evidence:
    """Evidence with all its capital at the start: for what is so from the first score on or not at all."""
    return tuple(share * capital for share in DIVISION)
