"""The backfill: judges a part of the topic of interactions again, with another configuration, beside the pipeline.

- `selection`: which records are judged, and what becomes of the others
- `estimate`: what that may cost, before anything is spent
- `work`: looks, judges and publishes
"""

from stream.backfill.estimate import Estimate
from stream.backfill.selection import Counts, Selection
from stream.backfill.work import Backfill, Done, Survey, Wanted

__all__ = ["Backfill", "Counts", "Done", "Estimate", "Selection", "Survey", "Wanted"]
