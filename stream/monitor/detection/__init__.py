"""Detects a drop of a series' mean below its target, with a guarantee that holds under continuous watching.

- `settings`: the target, and how often an alert may be false
- `detector`: one score in; the new state, and the event to announce, out
- `evidence`: the evidence against "the mean is at least the line", and its update by a score
- `onset`: since when the evidence has been growing
- `state`: the state of a series: a few numbers, as JSON
- `stored`: the form of stored states, and the bounds of their numbers
- `version_comparison`: whether one version is worse than another in the same traffic
- `judge_drift`: whether the judges changed, from their verdicts on canaries
- `attribution`: whether the system or the judges moved the scores, from canaries with human labels

All of it is pure: no clock, no Kafka, no randomness. The same scores in the same order give the same state. The
guarantees, their reasons and the measurements are in docs/detection.md.
"""

from sinks.statistics.anytime import Interval, WeightedTally, interval, lower_bound
from stream.monitor.detection.detector import Observation, SeriesReading, observe, reading, suspicion
from stream.monitor.detection.judge_drift import agreement, canary_settings
from stream.monitor.detection.settings import Settings
from stream.monitor.detection.state import Event, EventKind, State, StateError, first_problem
from stream.monitor.detection.version_comparison import (
    VersionSettings,
    VersionSide,
    VersionState,
    compare_versions,
    observe_version,
)

__all__ = [
    "Event",
    "EventKind",
    "Interval",
    "Observation",
    "SeriesReading",
    "Settings",
    "State",
    "StateError",
    "VersionSettings",
    "VersionSide",
    "VersionState",
    "WeightedTally",
    "agreement",
    "canary_settings",
    "compare_versions",
    "first_problem",
    "interval",
    "lower_bound",
    "observe",
    "observe_version",
    "reading",
    "suspicion",
]
