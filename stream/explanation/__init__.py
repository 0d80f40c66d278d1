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

from stream.explanation.canaries import CanaryTally, Turned
from stream.explanation.contributions import Change, Slice, mean_change, slice_of
from stream.explanation.explaining import Arrival, Attribute, Driver, Explanation, Move, explain
from stream.explanation.parts import RULES, Part, PartSums
from stream.explanation.slices import OTHERS, Slices
from stream.explanation.sums import Pair, Period, Sums
from stream.explanation.tally import Split, Tally, by_model, by_time

__all__ = [
    "OTHERS",
    "RULES",
    "Arrival",
    "Attribute",
    "CanaryTally",
    "Change",
    "Driver",
    "Explanation",
    "Move",
    "Pair",
    "Part",
    "PartSums",
    "Period",
    "Slice",
    "Slices",
    "Split",
    "Sums",
    "Tally",
    "Turned",
    "by_model",
    "by_time",
    "explain",
    "mean_change",
    "slice_of",
]
