"""Reads evaluations and score records from our own topics, and refuses records that no stage of ours writes.

Otherwise anyone who may write to these topics could stop or silence the monitor: see docs/security.md.
"""

from collections.abc import Iterator

from pydantic import ValidationError

from judges.values.evaluation import MIN_PROBABILITY, Evaluation
from stream.config.names import BACKFILL, CANARY
from stream.errors import RecordError
from stream.kafka.record import check_moment, check_version
from stream.monitor.alerts.score_record import (
    MAX_DIMENSION_CHARS,
    MAX_DIMENSIONS,
    MAX_ID_CHARS,
    MAX_NAME_CHARS,
    ScoreRecord,
)
from stream.monitor.detection import first_problem
from stream.records.canaries import refuse_canary_app
from stream.records.envelope import check_probability

# Clocks of two monitors may differ by this much; a score from further ahead would stop the time of its series.
_AHEAD_SECONDS = 300.0


def read_evaluation(
    value: bytes | None, schema: bytes | None, *, least_probability: float = MIN_PROBABILITY
) -> Evaluation:
    """Read a record of the evaluations topic; raise `RecordError` if it cannot be one of ours.

    Backfilled history enters no mean, so its probability, that of the backfill, is not checked.
    """
    check_version(schema)
    try:
        evaluation = Evaluation.model_validate_json(value or b"")
    except ValidationError as error:
        raise RecordError("invalid_record", first_problem(error)) from None
    if len(evaluation.dimensions) > MAX_DIMENSIONS:
        raise RecordError("too_large", f"{len(evaluation.dimensions)} dimensions, the limit is {MAX_DIMENSIONS}")
    for name, length, limit in _lengths(evaluation):
        if length > limit:
            raise RecordError("too_long", f"{name}: {length} characters, the limit is {limit}")
    if evaluation.sampling.lane != CANARY:
        refuse_canary_app(evaluation.app)
    check_moment(evaluation.evaluated_at)
    if evaluation.sampling.lane != BACKFILL:
        check_probability(evaluation.sampling.probability, least_probability)
    return evaluation


def read_score(
    value: bytes | None, schema: bytes | None, *, now: float, least_probability: float = MIN_PROBABILITY
) -> ScoreRecord:
    """Read a record of the scores topic; raise `RecordError` if it cannot be one of ours."""
    check_version(schema)
    try:
        record = ScoreRecord.model_validate_json(value or b"")
    except ValidationError as error:
        raise RecordError("invalid_record", first_problem(error)) from None
    if record.canary is None:
        refuse_canary_app(record.app)
    if record.at > now + _AHEAD_SECONDS:
        raise RecordError("bad_time", f"its time is {record.at - now:.3g} seconds in the future")
    check_probability(record.probability, least_probability)
    return record


def _lengths(evaluation: Evaluation) -> Iterator[tuple[str, int, int]]:
    """Yield the texts that become keys, labels or part of a stored state: name, length and limit."""
    yield "evaluation_id", len(evaluation.evaluation_id), MAX_NAME_CHARS
    yield "interaction_id", len(evaluation.interaction_id), MAX_ID_CHARS
    yield "fingerprint", len(evaluation.evaluator.fingerprint), MAX_NAME_CHARS
    for name in ("app", "tenant", "model"):
        yield name, len(getattr(evaluation, name) or ""), MAX_NAME_CHARS
    for dimension in evaluation.dimensions:
        yield "the name of a dimension", len(dimension), MAX_DIMENSION_CHARS
