"""Fixed-sequence testing: the loosest limit at which a judge agrees with people often enough, with a guarantee.

Limits are tested one after the other, from the strictest to the loosest, and the first that fails ends the sequence
(arXiv 2407.18370). A limit passes if as many agreements as were seen have at most the probability `miss` where the
true agreement is below the target. The probability that the chosen limit does not reach the target is then at most
`miss`, however many limits are tested. The sequence starts at the first limit with enough answers to pass at all,
which depends on the number of answers alone and not on their labels.
"""

from collections.abc import Sequence
from math import exp, lgamma, log, log1p
from typing import NamedTuple


class Limit(NamedTuple):
    """A limit, the labelled answers that satisfy it, and those on which the judge agrees with people."""

    value: float
    answers: int
    agreed: int


def loosest_limit(limits: Sequence[Limit], target: float, miss: float) -> Limit | None:
    """Return the last limit that passes, of limits from the strictest to the loosest; None if no limit does."""
    if not 0.0 < target < 1.0 or not 0.0 < miss < 1.0:
        raise ValueError(f"target and miss must be above 0 and below 1, not {target} and {miss}")
    chosen = None
    for limit in limits:
        # Even if people and the judge agreed on all of them, they would not be enough.
        if target**limit.answers > miss:
            continue
        if binomial_tail(limit.agreed, limit.answers, target) > miss:
            break
        chosen = limit
    return chosen


def binomial_tail(least: int, trials: int, chance: float) -> float:
    """Return the probability of at least this many successes."""
    if least <= 0:
        return 1.0
    terms = (
        lgamma(trials + 1) - lgamma(k + 1) - lgamma(trials - k + 1) + k * log(chance) + (trials - k) * log1p(-chance)
        for k in range(least, trials + 1)
    )
    return min(1.0, sum(map(exp, terms)))
