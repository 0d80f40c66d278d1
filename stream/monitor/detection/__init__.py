"""Detection: has the mean of a series of scores dropped below its target, with a guarantee under continuous watching.

- `settings`: what is watched for, and how often it may be wrong
- `bets`: the evidence against "the mean is at least the line", and how a score changes it
- `interval`: what so many scores say about their mean, valid at every look
- `onset`: since when the evidence has been growing
- `state`: all that is kept of a series: a few numbers, as JSON
- `detector`: one score in; the new state, and what there is to announce, out
- `versions`: is one version worse than another in the same traffic
- `canaries`: have the judges changed

All of it is pure: no clock, no Kafka, no randomness. The same scores in the same order give the same state. What is
guaranteed, why, and what was measured is in docs/detection.md.
"""

from stream.monitor.detection.detector import Observation, SeriesReading, observe, reading, suspicion
from stream.monitor.detection.interval import Interval, WeightedTally, interval, lower_bound
from stream.monitor.detection.judge_drift import agreement, canary_settings
from stream.monitor.detection.settings import Settings
from stream.monitor.detection.state import Event, EventKind, State, StateError
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
    "interval",
    "lower_bound",
    "observe",
    "observe_version",
    "reading",
    "suspicion",
]
