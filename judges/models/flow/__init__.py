"""Flow control in front of one endpoint: everything between wanting an answer by a deadline and one HTTP attempt."""

from judges.models.flow.failures import FailureKind
from judges.models.flow.flow import Answered, Flow
from judges.models.flow.limits import FlowLimits
from judges.models.flow.state import FlowState

__all__ = ["Answered", "FailureKind", "Flow", "FlowLimits", "FlowState"]
