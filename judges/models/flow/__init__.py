"""Flow control in front of one endpoint: turns a call with a deadline into single HTTP attempts.

- `flow`: gets one answer by a deadline: waits, tries, retries and hedges
- `admission`: starts records when there is room for their calls
- `gate`: makes callers wait in order of arrival until every limit has room for them
- `limits`: the configured limits of an endpoint
- `concurrency`: the number of attempts at once, adapted by trial
- `pace`: the rate of attempts, learnt from refusals that depend on it, and the wait that an endpoint asks for
- `bucket`: amounts per minute, reserved before use and settled after it
- `latency`: detects an endpoint that is becoming slower
- `breaker`: the circuit breaker: stops calls to an endpoint that is down, except for probes
- `backoff`: the delay before a retry
- `failures`: the kinds of failures that flow control distinguishes
- `state`: the state of all this, for operators
"""

from judges.models.flow.admission import RecordAdmission
from judges.models.flow.failures import FailureKind
from judges.models.flow.flow import Answered, Flow
from judges.models.flow.limits import FlowLimits
from judges.models.flow.state import FlowState

__all__ = ["Answered", "FailureKind", "Flow", "FlowLimits", "FlowState", "RecordAdmission"]
