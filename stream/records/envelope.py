"""The envelope on the work queue: the sampling decision in headers around the untouched bytes of the interaction."""

from datetime import datetime

from judges.values.evaluation import MIN_PROBABILITY, Sampling
from sinks.base import Headers
from sinks.topics.headers import CONTENT, LANE, LOGGED_ID, PREFIX, PROBABILITY, RULE, SALT, SAMPLED_AT, SAMPLING_VERSION
from stream.config.names import BACKFILL, CANARY
from stream.errors import RecordError
from stream.records.decision import DECISION_VERSION, Decision
from stream.records.identity import DIGEST_CHARS, UNKNOWN_CONTENT

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


def is_backfilled(headers: Headers) -> bool:
    """Whether a record of the evaluations topic was judged after the fact."""
    return dict(headers).get(LANE) == BACKFILL.encode()


def content_in(headers: Headers) -> str:
    """The digest of the content that an evaluation is about."""
    # Whoever writes to the topic chooses the header's length, and workers keep it for an hour.
    return (dict(headers).get(CONTENT) or b"")[:DIGEST_CHARS].decode("ascii", "replace") or UNKNOWN_CONTENT


def evaluation_headers(content: str, logged_id: str | None) -> Headers:
    """The headers that tell a repeat of an interaction from another one of the same id."""
    headers = ((CONTENT, content.encode()),)
    return headers if logged_id is None else (*headers, (LOGGED_ID, logged_id.encode()))


def logged_id_in(headers: Headers) -> bytes | None:
    """The id that an interaction was logged with, where it was judged under another."""
    return dict(headers).get(LOGGED_ID)


def is_canary(headers: Headers) -> bool:
    """Whether a record of the work queue was put there to see how the judges judge it, and is nobody's traffic."""
    return dict(headers).get(LANE) == CANARY.encode()


def check_probability(probability: float, least: float) -> None:
    """Raises for an inclusion probability that no sampler of this configuration gives."""
    if probability < least:
        raise RecordError(
            "bad_probability",
            f"the record claims a sampling probability of {probability:.3g}, below the lowest accepted, {least:.3g}; "
            "if it is correct, lower sampling.min_probability, then replay the record",
        )


def read_sampling(headers: Headers, *, least_probability: float = MIN_PROBABILITY) -> Sampling:
    """How a record was chosen, from its headers; the last of repeated headers counts, as Kafka clients read them.

    Raises for a probability below `least_probability`: a record with the weight of a quadrillion others would decide
    every mean that it is part of.
    """
    found = {name: value for name, value in headers if name.startswith(PREFIX)}
    if PROBABILITY not in found:
        return _DIRECT
    version = found.get(SAMPLING_VERSION, DECISION_VERSION.encode())
    if version != DECISION_VERSION.encode():
        raise RecordError(
            "unsupported_version",
            f"sampling headers have version {version!r}, but this program supports {DECISION_VERSION}; upgrade the "
            "workers, then replay the record",
        )
    try:
        probability = float((found[PROBABILITY] or b"").decode())
        if not MIN_PROBABILITY <= probability <= 1.0:
            raise ValueError(f"{probability} is not a sampling probability")
        rule, lane = ((found.get(name) or b"").decode() for name in (RULE, LANE))
    except ValueError as error:
        raise RecordError("bad_envelope", f"sampling headers: {error}") from None
    check_probability(probability, least_probability)
    return Sampling(probability=probability, rule=rule or "unknown", lane=lane or "main")
