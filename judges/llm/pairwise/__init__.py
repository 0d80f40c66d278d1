"""Compares answers with each other.

- `pairwise`: the judge that asks which of several answers is better
- `contest`: counts wins, and derives rates and ranks
- `comparison`: the input of a comparison: a case, and its answers by name
"""
