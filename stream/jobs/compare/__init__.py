"""Compares two judgements of the same rows, and judgements with human labels.

- `comparison`: compares two sides row by row, and each side with the labels
- `sides`: the findings of each side on every row
- `human_labels`: reads human labels from a file
- `scales`: the scale of a criterion, derived from its results
- `agreement`: agreement of two sides: shares, kappas, correlation
- `accuracy`: accuracy against human labels
- `detection`: how well scores find the rows labelled no
- `measure`: a number, or the reason why there is none
- `sheets`: the comparison as tables of text
- `json_document`: the comparison as JSON
"""

from stream.jobs.compare.comparison import Meeting, SideComparison, compare, meet
from stream.jobs.compare.human_labels import Labels, on_scales, read_labels
from stream.jobs.compare.sides import Side, UnknownJudgeError, load_judges, load_side
from stream.jobs.label_file import LabelsError

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
