"""Judge drift: a detector for "the judges say of the canaries what they used to".

A canary is a record whose verdict is known. Judged again, it scores 1 if the verdict is the same and 0 if not; a series
of these is watched like any other. It drops when the judges have changed, whatever the traffic is like.
"""

from stream.monitor.detection.settings import Settings

# How often a judge that has not changed says the same again.
BASELINE = 0.985


def canary_settings(baseline: float | None = BASELINE, *, alpha: float = 0.01) -> Settings:
    """What canaries are watched for; a baseline of None is learnt from the first of them."""
    return Settings(target=baseline, alpha=alpha)


def agreement(verdict: object, expected: object) -> float:
    """The score of one canary."""
    return 1.0 if verdict == expected else 0.0
