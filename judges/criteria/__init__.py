"""Criteria: what is judged, and on which scale.

- `criterion`: a criterion with its question, scale and examples
- `scale`: the scales of verdicts, and how they become scores
- `catalogue`: the criteria that are shipped, and files of your own
- `strict_yaml`: YAML that refuses what is ambiguous
- `problems`: problems by path, all of them at once
"""
