"""The envelope on the work queue: the sampling decision in headers around the untouched bytes of the interaction."""

from datetime import datetime

from confluent_kafka import Message as KafkaMessage

from judges.values.evaluation import MIN_PROBABILITY, Sampling
from sinks.base import Headers
from sinks.topics.headers import LANE, PREFIX, PROBABILITY, RULE, SALT, SAMPLED_AT, SAMPLING_VERSION
from stream.config.names import BACKFILL, CANARY
from stream.errors import RecordError
from stream.kafka.record import read_record
from stream.records.decision import DECISION_VERSION, Decision

# A record that somebody put on the queue without sampling it stands for itself alone.
_DIRECT = Sampling(probability=1.0, rule="direct", lane="main")


def decision_headers(decision: Decision, *, salt: str, sampled_at: datetime) -> Headers:
    """The headers that travel with a chosen record."""
    return (
        (PROBABILITY, repr(decision.probability).encode()),
        (RULE, decision.rule.encode()),
        (LANE, decision.lane.encode()),
        (SALT, salt.encode()),
        (SAMPLING_VERSION, DECISION_VERSION.encode()),
        (SAMPLED_AT, sampled_at.isoformat().encode()),
    )


def is_backfilled(message: KafkaMessage) -> bool:
    """Whether a record of the evaluations topic was judged after the fact."""
    return dict(read_record(message).headers).get(LANE) == BACKFILL.encode()


def is_canary(headers: Headers) -> bool:
    """Whether a record of the work queue was put there to see how the judges judge it, and is nobody's traffic."""
    return dict(headers).get(LANE) == CANARY.encode()


def read_sampling(headers: Headers) -> Sampling:
    """How a record was chosen, from its headers; the last of repeated headers counts, as Kafka clients read them."""
    found = {name: value for name, value in headers if name.startswith(PREFIX)}
    if PROBABILITY not in found:
        return _DIRECT
    version = found.get(SAMPLING_VERSION, DECISION_VERSION.encode())
    if version != DECISION_VERSION.encode():
        raise RecordError(
            "unsupported_version",
            f"sampling headers of version {version!r}, and this program knows {DECISION_VERSION}; upgrade the workers, "
            "then replay it",
        )
    try:
        probability = float((found[PROBABILITY] or b"").decode())
        if not MIN_PROBABILITY <= probability <= 1.0:
            raise ValueError(f"{probability} is not a probability of being chosen")
        rule, lane = ((found.get(name) or b"").decode() for name in (RULE, LANE))
    except ValueError as error:
        raise RecordError("bad_envelope", f"sampling headers: {error}") from None
    return Sampling(probability=probability, rule=rule or "unknown", lane=lane or "main")
