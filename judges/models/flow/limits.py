"""The configured limits of one endpoint, and how long to wait for it."""

import math
from dataclasses import dataclass
from typing import Literal

from judges.criteria.problems import check_count, check_number


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowLimits:
    """The limits of one endpoint. The defaults suit a hosted model; adaptive limits stay within them."""

    concurrency: int = 64
    """Maximum number of concurrent attempts."""

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    """After a quiet time, a burst of a sixth of this may be used at once, in addition to the even rate."""

    rate: Literal["learn", "none"] = "learn"
    """Whether a limit on the rate or the concurrency is learnt from refusals; `none`: calls only wait and retry."""

    retries: int = 2
    """Maximum number of attempts of one call after the first."""

    backoff_seconds: float = 0.25
    """Maximum delay before the first retry; it doubles with each further one."""

    longest_backoff_seconds: float = 5.0

    longest_hold_seconds: float = 60.0
    """Longest part of a Retry-After that is honoured; then one attempt checks whether the pause is still needed."""

    hedge_seconds: float | None = None
    """Seconds without an answer after which a second, parallel attempt starts; None means never."""

    pause_seconds: float = 30.0
    """Seconds between probes of an endpoint that refuses us permanently."""

    failures_to_open: int = 5
    """Consecutive failures that open the circuit breaker."""

    refusals_to_pause: int = 3
    """Consecutive calls with 403 or 404 that pause the endpoint: gateways answer 403 to a single moderated prompt."""

    probe_seconds: float = 1.0
    """Seconds until the first probe of an endpoint that failed; they double with each failed probe."""

    longest_probe_seconds: float = 5.0

    def __post_init__(self) -> None:
        check_count("concurrency", self.concurrency)
        if self.rate not in ("learn", "none"):
            raise ValueError("rate must be 'learn' or 'none'")
        check_count("retries", self.retries, least=0)
        check_count("failures_to_open", self.failures_to_open)
        check_count("refusals_to_pause", self.refusals_to_pause)
        for name in ("requests_per_minute", "tokens_per_minute", "hedge_seconds"):
            _check_above_zero(name, getattr(self, name))
        for name in ("backoff", "longest_backoff", "longest_hold", "pause", "probe", "longest_probe"):
            check_number(f"{name}_seconds", getattr(self, f"{name}_seconds"), least=0, most=math.inf)


def _check_above_zero(name: str, value: float | None) -> None:
    if value is None:
        return
    check_number(name, value, least=0, most=math.inf)
    if not 0 < value < math.inf:
        raise ValueError(f"{name} must be above 0 and finite")
