"""Explains an alert: which part of the traffic, and which criterion, the drop comes from.

- `explanation`: the explanation, and whether one part of the traffic stands out
- `tally`: gathers the evaluations before and since the onset
- `sums`: sums of scores, enough for means and variances
- `slices`: scores by the values of an attribute
- `contributions`: how much of a change a slice accounts for, with its interval
- `criterion_parts`: how much of a change of the composite a criterion accounts for
- `faults`: whether a change comes from retrieval or from generation
- `canary_changes`: which verdicts of the judges on canaries changed
- `examples`: the interactions that an alert names
- `alert_book`: the alerts of a topic, and the lookup of one by its id
- `text`: all of this in plain words, and as tables

All of it is pure: evaluations in, texts out.
"""

from stream.monitor.explain.canary_changes import CanaryTally, Turned
from stream.monitor.explain.contributions import MeanChange, Slice, mean_change, slice_of
from stream.monitor.explain.criterion_parts import RULES, CriterionPart, PartSums
from stream.monitor.explain.explanation import Attribute, Driver, Explanation, Move, NewSlice, explain
from stream.monitor.explain.faults import FaultFinding
from stream.monitor.explain.slices import OTHERS, Slices
from stream.monitor.explain.sums import Pair, Period, ScoreSums
from stream.monitor.explain.tally import ChangeTally, Split, by_model, by_time

__all__ = [
    "OTHERS",
    "RULES",
    "Attribute",
    "CanaryTally",
    "ChangeTally",
    "CriterionPart",
    "Driver",
    "Explanation",
    "FaultFinding",
    "MeanChange",
    "Move",
    "NewSlice",
    "Pair",
    "PartSums",
    "Period",
    "ScoreSums",
    "Slice",
    "Slices",
    "Split",
    "Turned",
    "by_model",
    "by_time",
    "explain",
    "mean_change",
    "slice_of",
]
