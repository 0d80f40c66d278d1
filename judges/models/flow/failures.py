"""The kinds of failed attempts that flow control distinguishes."""

from enum import StrEnum

from judges.models.errors import ModelError, ModelProtocolError, ModelRefused, ModelTimeout, ModelUnavailable


class FailureKind(StrEnum):
    """How an attempt failed, or why no attempt was made."""

    THROTTLED = "throttled"
    UNAVAILABLE = "unavailable"
    TIMEOUT = "timeout"
    REFUSED = "refused"
    PROTOCOL = "protocol"
    OTHER = "other"
    PAUSED = "paused"
    """No attempt was made, because the circuit breaker was open."""


def status_of(error: ModelError) -> int | None:
    """Return the HTTP status of an error, or None if it is unknown."""
    status = getattr(error, "status", None)
    return status if isinstance(status, int) else None


def failure_kind(error: ModelError) -> FailureKind:
    """Return the kind of an attempt's error."""
    if isinstance(error, ModelUnavailable):
        status = status_of(error)
        # Even without a status, a Retry-After can only come from an endpoint that answered.
        throttled = status == 429 or (status is None and error.retry_after is not None)
        return FailureKind.THROTTLED if throttled else FailureKind.UNAVAILABLE
    if isinstance(error, ModelTimeout):
        return FailureKind.TIMEOUT
    if isinstance(error, ModelRefused):
        return FailureKind.REFUSED
    return FailureKind.PROTOCOL if isinstance(error, ModelProtocolError) else FailureKind.OTHER
