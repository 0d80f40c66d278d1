"""The backfill: judges a part of the interactions topic again, with another configuration, beside the pipeline.

- `backfill`: surveys, judges and publishes
- `selection`: which records are judged, and counts of the others by reason
- `cost_estimate`: the approximate cost, before any money is spent
"""

from stream.jobs.backfill.backfill import Backfill, BackfillRequest, BackfillResult, BackfillSurvey
from stream.jobs.backfill.cost_estimate import CostEstimate
from stream.jobs.backfill.selection import Counts, Selection

__all__ = ["Backfill", "BackfillRequest", "BackfillResult", "BackfillSurvey", "CostEstimate", "Counts", "Selection"]
