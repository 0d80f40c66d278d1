"""Evidence against "the mean is at least the line", and its update by one score.

Evidence is capital in a game that is fair or worse while the mean is at least the line: a stake λ on a score x turns
capital C into C·(1 + λ·w·(line − x)), which on average is not more than C. The weight w in (0, 1] is that of the score
relative to the largest possible weight. Capital that grows much anyway is evidence that the mean is below.
"""

from functools import lru_cache

# The drop that each bet is best at, as a factor on the odds of a bad answer at the line: a mean of 0.85 becomes 0.80,
# 0.72, 0.62 and 0.36. The last one also serves scores that vary less than passes and fails do.
ODDS = (1.4, 2.2, 3.5, 10.0)
# How fresh capital is divided among the bets: most goes to drops that matter but are not obvious.
DIVISION = (0.15, 0.3, 0.4, 0.15)

Evidence = tuple[float, ...]
NONE: Evidence = (0.0,) * len(ODDS)


@lru_cache(maxsize=1024)
def stakes(line: float) -> tuple[float, ...]:
    """Return the stake of each bet against a mean of at least `line`.

    With it the capital is multiplied by the likelihood ratio of passes and fails with the odds of `ODDS` to those with
    the mean `line`. So it is never negative: λ·(1 − line) is below 1.
    """
    return tuple((odds - 1.0) / (line + odds * (1.0 - line)) for odds in ODDS)


def advance(evidence: Evidence, stakes: tuple[float, ...], short: float, fresh: float) -> Evidence:
    """Return the capital of each bet after a score that fell `short` of the line, with fresh capital added.

    Fresh capital is added after the score, so that it does not depend on it: it is for a drop that begins next.
    """
    return tuple(
        capital * (1.0 + stake * short) + share * fresh
        for capital, stake, share in zip(evidence, stakes, DIVISION, strict=True)
    )


def total(evidence: Evidence) -> float:
    """Add up all capital in a fixed order: `sum` rounds differently between Python versions."""
    added = 0.0
    for capital in evidence:
        added += capital
    return added


def leading(evidence: Evidence) -> int:
    """Return the bet with the most capital: the drop that it is best at has most likely happened."""
    return max(range(len(evidence)), key=evidence.__getitem__)


def initial_evidence(capital: float) -> Evidence:
    """Return evidence with all its capital at the start, for a fact that holds from the first score on or never."""
    return tuple(share * capital for share in DIVISION)
