"""The envelope on the work queue: the sampling decision in headers around the unchanged bytes of the interaction."""

from datetime import datetime

from judges.values.evaluation import MIN_PROBABILITY, Sampling
from sinks.base import Headers
from sinks.topics.headers import CONTENT, LANE, LOGGED_ID, PREFIX, PROBABILITY, RULE, SALT, SAMPLED_AT, SAMPLING_VERSION
from stream.config.names import BACKFILL, CANARY
from stream.errors import RecordError
from stream.records.decision import DECISION_VERSION, Decision
from stream.records.identity import DIGEST_CHARS, UNKNOWN_CONTENT

# A record that was put on the queue without sampling represents only itself.
_DIRECT = Sampling(probability=1.0, rule="direct", lane="main")


def decision_headers(decision: Decision, *, salt: str, sampled_at: datetime) -> Headers:
    """Return the headers of a chosen record."""
    return (
        (PROBABILITY, repr(decision.probability).encode()),
        (RULE, decision.rule.encode()),
        (LANE, decision.lane.encode()),
        (SALT, salt.encode()),
        (SAMPLING_VERSION, DECISION_VERSION.encode()),
        (SAMPLED_AT, sampled_at.isoformat().encode()),
    )


def is_backfilled(headers: Headers) -> bool:
    """Return whether a record of the evaluations topic comes from a backfill."""
    return dict(headers).get(LANE) == BACKFILL.encode()


def content_in(headers: Headers) -> str:
    """Return the content digest of an evaluation."""
    # Any writer to the topic can choose the header's length, and workers keep it for an hour.
    return (dict(headers).get(CONTENT) or b"")[:DIGEST_CHARS].decode("ascii", "replace") or UNKNOWN_CONTENT


def evaluation_headers(content: str, logged_id: str | None) -> Headers:
    """Return the headers that distinguish a repeat from another interaction with the same id."""
    headers = ((CONTENT, content.encode()),)
    return headers if logged_id is None else (*headers, (LOGGED_ID, logged_id.encode()))


def logged_id_in(headers: Headers) -> bytes | None:
    """Return the id that an interaction was logged with, if it was judged under another."""
    return dict(headers).get(LOGGED_ID)


def is_canary(headers: Headers) -> bool:
    """Return whether a record of the work queue is a canary, which tests the judges and is not traffic."""
    return dict(headers).get(LANE) == CANARY.encode()


def check_probability(probability: float, least: float) -> None:
    """Raise RecordError for an inclusion probability below the lowest of this configuration."""
    if probability < least:
        raise RecordError(
            "bad_probability",
            f"the record claims a sampling probability of {probability:.3g}, below the lowest accepted, {least:.3g}; "
            "if it is correct, lower sampling.min_probability, then replay the record",
        )


def read_sampling(headers: Headers, *, least_probability: float = MIN_PROBABILITY) -> Sampling:
    """Read from the headers how a record was chosen; the last of repeated headers counts, as in Kafka clients.

    Raises RecordError for a probability below `least_probability`: a record with the weight of a quadrillion others
    would dominate every mean.
    """
    ours = {name: value for name, value in headers if name.startswith(PREFIX)}
    if PROBABILITY not in ours:
        return _DIRECT
    version = ours.get(SAMPLING_VERSION, DECISION_VERSION.encode())
    if version != DECISION_VERSION.encode():
        raise RecordError(
            "unsupported_version",
            f"sampling headers have version {version!r}, but this program supports {DECISION_VERSION}; upgrade the "
            "workers, then replay the record",
        )
    try:
        probability = float((ours[PROBABILITY] or b"").decode())
        if not MIN_PROBABILITY <= probability <= 1.0:
            raise ValueError(f"{probability} is not a sampling probability")
        rule, lane = ((ours.get(name) or b"").decode() for name in (RULE, LANE))
    except ValueError as error:
        raise RecordError("bad_envelope", f"sampling headers: {error}") from None
    check_probability(probability, least_probability)
    return Sampling(probability=probability, rule=rule or "unknown", lane=lane or "main")
