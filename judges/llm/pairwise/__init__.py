"""Comparing answers with each other.

- `pairwise`: asks which of two answers is better
- `contest`: many answers, ranked by their comparisons
- `comparison`: the values that both return
"""
