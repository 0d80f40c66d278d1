"""Compares two judgements of the same rows, and judgements with what people say."""

from stream.comparison.comparing import Comparison, Meeting, compare, meet
from stream.comparison.labels import Labels, LabelsError, on_scales, read_labels
from stream.comparison.sides import Side, UnknownJudgeError, load_judges, load_side

__all__ = [
    "Comparison",
    "Labels",
    "LabelsError",
    "Meeting",
    "Side",
    "UnknownJudgeError",
    "compare",
    "load_judges",
    "load_side",
    "meet",
    "on_scales",
    "read_labels",
]
