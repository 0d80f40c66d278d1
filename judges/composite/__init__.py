"""The composite: combines criteria into one score and one status, which a safety failure overrides.

- `rules`: the rules that combine the findings
- `terms`: takes a composite apart: which criterion counted how much
"""

from judges.composite.rules import MIN_COVERAGE, Item, MultiCriteria, MultiResult, rag_composite

__all__ = ["MIN_COVERAGE", "Item", "MultiCriteria", "MultiResult", "rag_composite"]
