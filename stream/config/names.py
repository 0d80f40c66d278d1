"""Names of rules and lanes that the program itself uses, and that no rule of a configuration may have."""

DEFAULT_RULE = "default"
SAFETY_RULE = "safety"
BACKFILL = "backfill"
"""The rule and the lane of what was judged after the fact: history, which says nothing of the present."""
CANARY = "canary"
"""The rule and the lane of records whose verdicts are known: they say something of the judges, not of traffic."""
