"""Compares two judgements of the same rows, and judgements with what people say."""

from stream.jobs.compare.comparison import Comparison, Meeting, compare, meet
from stream.jobs.compare.human_labels import Labels, LabelsError, on_scales, read_labels
from stream.jobs.compare.sides import Side, UnknownJudgeError, load_judges, load_side

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
