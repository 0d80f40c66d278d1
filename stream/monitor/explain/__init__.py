"""Explanation: which part of the traffic, and which criterion, has to do with a drop that was announced.

- `sums`: what is kept of scores
- `contributions`: how much of a change a slice accounts for, with its interval
- `parts`: how much of a change of the composite a criterion accounts for
- `slices`: scores by the values of an attribute
- `tally`: takes evaluations before and since the onset
- `explaining`: what follows from them, and whether a slice stands out
- `canaries`: which verdicts of the judges changed
- `examples`: the interactions that an alert names
- `book`: the alerts of a topic, and which of them somebody means
- `wording`: all of this in plain words, and as tables

All of it is pure: evaluations in, texts out.
"""

from stream.monitor.explain.canary_changes import CanaryTally, Turned
from stream.monitor.explain.contributions import MeanChange, Slice, mean_change, slice_of
from stream.monitor.explain.criterion_parts import RULES, CriterionPart, PartSums
from stream.monitor.explain.explanation import Attribute, Driver, Explanation, Move, NewSlice, explain
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
