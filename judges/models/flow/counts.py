"""What became of every call and of every attempt that was made for it."""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

from judges.models.errors import ModelError, ModelProtocolError, ModelRefused, ModelTimeout, ModelUnavailable


class Kind(StrEnum):
    """How an attempt or a call failed."""

    THROTTLED = "throttled"
    UNAVAILABLE = "unavailable"
    TIMEOUT = "timeout"
    REFUSED = "refused"
    PROTOCOL = "protocol"
    OTHER = "other"


def status_of(error: ModelError) -> int | None:
    """The HTTP status that an error tells of, where it is known."""
    status = getattr(error, "status", None)
    return status if isinstance(status, int) else None


def kind_of(error: ModelError) -> Kind:
    if isinstance(error, ModelUnavailable):
        status = status_of(error)
        # Without a status, only an endpoint that answers can have said when to come back.
        throttled = status == 429 or (status is None and error.retry_after is not None)
        return Kind.THROTTLED if throttled else Kind.UNAVAILABLE
    kinds = {ModelTimeout: Kind.TIMEOUT, ModelRefused: Kind.REFUSED, ModelProtocolError: Kind.PROTOCOL}
    return next((kind for each, kind in kinds.items() if isinstance(error, each)), Kind.OTHER)


@dataclass(slots=True, kw_only=True)
class FlowCounts:
    """Sums that only grow. When nothing is under way:

    called = answered + sum(unanswered) + cancelled
    started = succeeded + sum(failed) + stopped = calls with an attempt + retried + hedged
    """

    called: int = 0
    answered: int = 0
    unanswered: Counter[Kind] = field(default_factory=Counter)
    """Calls that ended with an error, by what was raised."""

    cancelled: int = 0
    """Calls whose caller left."""

    started: int = 0
    succeeded: int = 0
    failed: Counter[Kind] = field(default_factory=Counter)
    """Attempts that failed, by how; those that the deadline cut off are timeouts."""

    stopped: int = 0
    """Attempts broken off because the other of a pair won, or because the caller left."""

    retried: int = 0
    hedged: int = 0
    refused: int = 0
    """Times that nothing was asked because the endpoint was paused."""
