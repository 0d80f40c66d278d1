"""What the detectors are told of an evaluation."""

from datetime import UTC, datetime, timedelta

import pytest

from judges.values.evaluation import Evaluation, Sampling
from stream.config.names import BACKFILL, CANARY
from stream.monitor.alerts.score_record import ScoreRecord, Source
from tests.stream.cli.terminal.test_run_summary import evaluation as invented

SOURCE = Source(partition=2, offset=7)
NOW = datetime(2026, 11, 15, tzinfo=UTC)


def told_of(evaluation: Evaluation) -> ScoreRecord | None:
    return ScoreRecord.of(evaluation, SOURCE, now=NOW.timestamp())


def test_it_goes_through_json_unchanged() -> None:
    record = told_of(invented(0.75, "shop"))
    assert record is not None
    message = record.message("rag.scores")
    assert (message.topic, message.key) == ("rag.scores", b"shop")
    assert ScoreRecord.model_validate_json(message.value or b"") == record
    assert record.scores["composite"] == 0.75


def test_what_has_no_score_is_not_told_of() -> None:
    record = told_of(invented(None, "shop"))
    assert record is not None
    assert "composite" not in record.scores


def test_history_says_nothing_of_the_present() -> None:
    past = invented(0.5, "shop").model_copy(update={"sampling": Sampling(lane=BACKFILL)})
    assert told_of(past) is None


def test_a_canary_is_told_by_its_id_in_the_file_and_has_verdicts_instead_of_scores() -> None:
    canary = invented(0.5, "canaries").model_copy(update={"sampling": Sampling(lane=CANARY), "tags": {"canary": "c1"}})
    record = told_of(canary)
    assert record is not None
    assert record.canary == "c1"
    assert not record.scores


@pytest.mark.parametrize("ahead", [timedelta(days=1), timedelta(days=400), timedelta(days=365 * 7000)])
def test_a_clock_that_is_ahead_dates_nothing_ahead(ahead: timedelta) -> None:
    record = told_of(invented(0.5, "shop").model_copy(update={"evaluated_at": NOW + ahead}))
    assert record is not None
    assert record.at == NOW.timestamp()
