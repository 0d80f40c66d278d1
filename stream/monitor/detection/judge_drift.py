"""Judge drift: a detector for "the judges give the canaries the same verdicts as before".

A canary is a record with a known verdict. Judged again, it scores 1 if the verdict is the same and 0 if not. A series
of these scores is watched like any other. It drops when the judges have changed, whatever the traffic is like.
"""

from stream.monitor.detection.settings import Settings

# How often an unchanged judge repeats its verdict.
BASELINE = 0.985


def canary_settings(baseline: float | None = BASELINE, *, alpha: float = 0.01) -> Settings:
    """Return the settings for canaries; a baseline of None is learnt from the first ones."""
    return Settings(target=baseline, alpha=alpha)


def agreement(verdict: object, expected: object) -> float:
    """Score one canary."""
    return 1.0 if verdict == expected else 0.0
