"""Records on the pipeline's own topics: valid ones are read, harmful ones are refused."""

import json
from datetime import UTC, datetime
from math import inf, isfinite, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.values.evaluation import Dimension, Evaluation, Sampling, Status
from stream.config.names import CANARY
from stream.errors import RecordError
from stream.monitor.alerts.score_record import MAX_DIMENSIONS, ScoreRecord, Source
from stream.monitor.reading import read_evaluation, read_score
from stream.records.canaries import CANARIES_APP
from tests.stream.cli.terminal.test_run_summary import evaluation as make_evaluation
from tests.stream.monitor.alerts.traffic import BEGIN, Traffic

EVALUATION: dict[str, Any] = json.loads(make_evaluation(0.5, "shop").model_dump_json())
SCORE: dict[str, Any] = json.loads(Traffic().next().model_dump_json())
SCORED = {"status": "scored", "score": 1.0}
DEEP = b"[" * 200_000


def refusal_of_evaluation(value: bytes | None, schema: bytes | None = None) -> str:
    with pytest.raises(RecordError) as caught:
        read_evaluation(value, schema)
    return caught.value.kind


def refusal_of_score(value: bytes | None, schema: bytes | None = None) -> str:
    with pytest.raises(RecordError) as caught:
        read_score(value, schema, now=BEGIN)
    return caught.value.kind


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"app": "a" * 257}, "too_long"),
        ({"model": "m" * 257}, "too_long"),
        ({"tenant": "t" * 257}, "too_long"),
        ({"interaction_id": "i" * 513}, "too_long"),
        ({"evaluation_id": "e" * 257}, "too_long"),
        ({"evaluator": {**EVALUATION["evaluator"], "fingerprint": "f" * 257}}, "too_long"),
        ({"dimensions": {"d" * 129: SCORED}}, "too_long"),
        ({"dimensions": {f"d{number}": SCORED for number in range(MAX_DIMENSIONS + 1)}}, "too_large"),
        ({"evaluated_at": 1e308}, "invalid_record"),
        ({"evaluated_at": "0001-01-01T00:00:00+23:00"}, "bad_time"),
        ({"evaluated_at": "9999-12-31T23:59:59-23:00"}, "bad_time"),
        ({"dimensions": []}, "invalid_record"),
    ],
)
def test_an_evaluation_that_no_worker_writes_is_refused(changes: dict[str, Any], kind: str) -> None:
    assert refusal_of_evaluation(json.dumps(EVALUATION | changes).encode()) == kind


@pytest.mark.parametrize(
    "changes",
    [
        {"at": 1e308},
        {"at": inf},
        {"at": nan},
        {"at": -1.0},
        {"source": {"partition": 0, "offset": 2**63}},
        {"source": {"partition": 10_000, "offset": 0}},
        {"source": {"partition": 0, "offset": -1}},
        {"app": "a" * 257},
        {"fingerprint": "f" * 257},
        {"interaction_id": "i" * 513},
        {"canary": "c" * 513},
        {"scores": {"d" * 129: 1.0}},
        {"scores": {f"d{number}": 1.0 for number in range(MAX_DIMENSIONS + 1)}},
        {"verdicts": {"d": "v" * 257}},
        {"probability": 0.0},
        {"scores": {"clarity": inf}},
    ],
)
def test_a_score_that_no_monitor_writes_is_refused(changes: dict[str, Any]) -> None:
    assert refusal_of_score(json.dumps(SCORE | changes).encode()) == "invalid_record"


def test_a_score_dated_in_the_future_is_refused_unless_by_a_small_clock_error() -> None:
    """It would stop the clock of its series: every earlier score would count as a repeat."""
    assert refusal_of_score(json.dumps(SCORE | {"at": BEGIN + 301}).encode()) == "bad_time"
    assert read_score(json.dumps(SCORE | {"at": BEGIN + 299}).encode(), None, now=BEGIN).at == BEGIN + 299


def test_results_under_the_app_of_the_canaries_are_refused_unless_they_are_canaries() -> None:
    """Their alerts would have the keys of those about the judges."""
    forged, canary = EVALUATION | {"app": CANARIES_APP}, {"probability": 1.0, "rule": CANARY, "lane": CANARY}
    assert refusal_of_evaluation(json.dumps(forged).encode()) == "reserved_app"
    assert read_evaluation(json.dumps(forged | {"sampling": canary}).encode(), None).app == CANARIES_APP
    score = SCORE | {"app": CANARIES_APP}
    assert refusal_of_score(json.dumps(score).encode()) == "reserved_app"
    assert read_score(json.dumps(score | {"canary": "c1"}).encode(), None, now=BEGIN).canary == "c1"


@pytest.mark.parametrize("value", [None, b"", DEEP, b"[]", b"\xff", b'{"at": Infinity}', b"null"])
def test_an_unreadable_record_is_refused_with_a_short_reason(value: bytes | None) -> None:
    assert refusal_of_evaluation(value) == refusal_of_score(value) == "invalid_record"
    with pytest.raises(RecordError) as caught:
        read_score(json.dumps(SCORE | {"scores": {"x" * 100_000: "?"}}).encode(), None, now=BEGIN)
    assert len(str(caught.value)) < 500


def test_an_impossible_probability_is_refused_except_in_a_backfill_which_no_mean_includes() -> None:
    forged = json.dumps(
        EVALUATION | {"sampling": {"probability": 2.0**-53, "rule": "default", "lane": "main"}}
    ).encode()
    with pytest.raises(RecordError) as caught:
        read_evaluation(forged, None, least_probability=0.001)
    assert caught.value.kind == "bad_probability"
    with pytest.raises(RecordError) as caught:
        read_score(json.dumps(SCORE | {"probability": 2.0**-53}).encode(), None, now=BEGIN, least_probability=0.001)
    assert caught.value.kind == "bad_probability"
    history = forged.replace(b'"main"', b'"backfill"')
    assert read_evaluation(history, None, least_probability=0.001).sampling.lane == "backfill"


def test_a_record_of_a_later_schema_version_is_refused_as_unsupported() -> None:
    value = json.dumps(EVALUATION).encode()
    assert refusal_of_evaluation(value, b"2") == refusal_of_score(value, b"2") == "unsupported_version"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(sorted(SCORE)), JSON, min_size=1, max_size=3))
def test_any_score_is_within_the_bounds_or_refused(changes: dict[str, Any]) -> None:
    try:
        record = read_score(json.dumps(SCORE | changes).encode(), None, now=BEGIN)
    except RecordError:
        return
    assert 0.0 <= record.at <= BEGIN + 300
    assert 0 <= record.source.offset < 2**63
    assert all(isfinite(score) for score in record.scores.values())


@given(
    app=st.none() | st.text(max_size=256),
    interaction=st.text(max_size=512),
    names=st.lists(st.text(min_size=1, max_size=128), max_size=5, unique=True),
    level=st.integers(-(10**30), 10**30) | st.none(),
    option=st.text(max_size=1000) | st.none(),
    tag=st.text(max_size=1024) | st.integers() | st.none(),
    lane=st.sampled_from(["main", CANARY]),
    when=st.datetimes(datetime(1970, 1, 1), datetime(2999, 12, 31), timezones=st.just(UTC)),  # noqa: DTZ001
)
def test_the_score_record_of_every_accepted_evaluation_is_accepted(
    app: str | None,
    interaction: str,
    names: list[str],
    level: int | None,
    option: str | None,
    tag: str | int | None,
    lane: str,
    when: datetime,
) -> None:
    """The monitor must not refuse records that it writes itself."""
    dimension = Dimension(status=Status.SCORED, score=0.5, level=level, option=option)
    evaluation = make_evaluation(0.5, "shop").model_copy(
        update={
            "app": app,
            "interaction_id": interaction,
            "dimensions": dict.fromkeys(names, dimension),
            "sampling": Sampling(lane=lane),
            "tags": {"canary": tag},
            "evaluated_at": when,
        }
    )
    accepted: Evaluation = read_evaluation(evaluation.model_dump_json().encode(), None)
    record = ScoreRecord.of(accepted, Source(partition=1, offset=2), now=BEGIN)
    assert record is not None
    message = record.message("rag.scores")
    assert read_score(message.value, None, now=BEGIN) == record
