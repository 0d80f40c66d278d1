"""The backfill: judges a part of the topic of interactions again, with another configuration, beside the pipeline.

- `selection`: which records are judged, and what becomes of the others
- `estimate`: what that may cost, before anything is spent
- `work`: looks, judges and publishes
"""

from stream.jobs.backfill.backfill import Backfill, BackfillRequest, BackfillResult, BackfillSurvey
from stream.jobs.backfill.cost_estimate import CostEstimate
from stream.jobs.backfill.selection import Counts, Selection

__all__ = ["Backfill", "BackfillRequest", "BackfillResult", "BackfillSurvey", "CostEstimate", "Counts", "Selection"]
