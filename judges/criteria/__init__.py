"""Criteria: the questions that are judged, and their scales.

- `criterion`: a criterion with its question, scale and examples
- `scale`: the scales of verdicts, and their conversion to scores
- `catalogue`: the shipped criteria, and criteria files of your own
- `strict_yaml`: YAML that refuses ambiguous input
- `problems`: problems by path, reported together
- `findings`: the problems found in one file
"""
