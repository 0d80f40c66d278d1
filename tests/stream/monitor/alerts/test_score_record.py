"""The score record of an evaluation, as the detectors read it."""

from datetime import UTC, datetime, timedelta

import pytest

from judges.values.evaluation import Evaluation, Sampling
from stream.config.names import BACKFILL, CANARY
from stream.monitor.alerts.score_record import ScoreRecord, Source
from tests.stream.cli.terminal.test_run_summary import evaluation as make_evaluation

SOURCE = Source(partition=2, offset=7)
NOW = datetime(2026, 11, 15, tzinfo=UTC)


def score_record(evaluation: Evaluation) -> ScoreRecord | None:
    return ScoreRecord.of(evaluation, SOURCE, now=NOW.timestamp())


def test_a_record_survives_json_unchanged() -> None:
    record = score_record(make_evaluation(0.75, "shop"))
    assert record is not None
    message = record.message("rag.scores")
    assert (message.topic, message.key) == ("rag.scores", b"shop")
    assert ScoreRecord.model_validate_json(message.value or b"") == record
    assert record.scores["composite"] == 0.75


def test_a_dimension_without_a_score_is_left_out() -> None:
    record = score_record(make_evaluation(None, "shop"))
    assert record is not None
    assert "composite" not in record.scores


def test_a_backfilled_evaluation_has_no_score_record() -> None:
    past = make_evaluation(0.5, "shop").model_copy(update={"sampling": Sampling(lane=BACKFILL)})
    assert score_record(past) is None


def test_a_canary_has_its_id_in_the_file_and_verdicts_instead_of_scores() -> None:
    canary = make_evaluation(0.5, "canaries").model_copy(
        update={"sampling": Sampling(lane=CANARY), "tags": {"canary": "c1"}}
    )
    record = score_record(canary)
    assert record is not None
    assert record.canary == "c1"
    assert not record.scores


@pytest.mark.parametrize("ahead", [timedelta(days=1), timedelta(days=400), timedelta(days=365 * 7000)])
def test_an_evaluation_dated_in_the_future_is_dated_now(ahead: timedelta) -> None:
    record = score_record(make_evaluation(0.5, "shop").model_copy(update={"evaluated_at": NOW + ahead}))
    assert record is not None
    assert record.at == NOW.timestamp()
