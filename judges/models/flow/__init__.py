"""Flow control in front of one endpoint: everything between wanting an answer by a deadline and one HTTP attempt."""

from judges.models.flow.counts import FlowCounts, Kind
from judges.models.flow.flow import Answered, Flow
from judges.models.flow.limits import FlowLimits

__all__ = ["Answered", "Flow", "FlowCounts", "FlowLimits", "Kind"]
