"""Names of rules and lanes that are reserved for the program, and that no configured rule may have."""

DEFAULT_RULE = "default"
SAFETY_RULE = "safety"
BACKFILL = "backfill"
"""The rule and the lane of backfilled history, which does not count for the present."""
CANARY = "canary"
"""The rule and the lane of records with known verdicts: they test the judges, and are not traffic."""
