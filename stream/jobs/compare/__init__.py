"""Compares two judgements of the same rows, and judgements with what people say."""

from stream.jobs.compare.comparison import Meeting, SideComparison, compare, meet
from stream.jobs.compare.human_labels import Labels, LabelsError, on_scales, read_labels
from stream.jobs.compare.sides import Side, UnknownJudgeError, load_judges, load_side

__all__ = [
    "Labels",
    "LabelsError",
    "Meeting",
    "Side",
    "SideComparison",
    "UnknownJudgeError",
    "compare",
    "load_judges",
    "load_side",
    "meet",
    "on_scales",
    "read_labels",
]
