"""The score record of an evaluation, as the detectors read it."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import ValidationError

from judges.values.evaluation import Evaluation, Excerpt, Sampling, Status
from stream.config.names import BACKFILL, CANARY
from stream.monitor.alerts.score_record import ScoreRecord, Source
from tests.sinks.metrics.measured import dimension, verdict
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


def test_a_record_has_the_scores_of_each_judge_and_a_monitor_of_an_earlier_version_reads_it() -> None:
    verdicts = (
        verdict("local", score=0.5),
        verdict("large", score=1.0),
        verdict("broken", Status.INSUFFICIENT),
        verdict("x" * 300, score=0.0),
    )
    judged = make_evaluation(0.75, "shop").model_copy(update={"dimensions": {"clarity": dimension(0.75, *verdicts)}})
    record = score_record(judged)
    assert record is not None
    assert record.judges == {"clarity": {"local": 0.5, "large": 1.0}}
    value = json.loads(record.message("rag.scores").value or b"")
    assert ScoreRecord.model_validate(value | {"of a later version": 1}) == record
    del value["judges"]
    assert ScoreRecord.model_validate(value) == record.model_copy(update={"judges": {}})


@pytest.mark.parametrize(
    ("model", "excerpt", "expected"),
    [
        ("openai/gpt-4o", Excerpt(question="Is it open?", answer="Yes."), ("gpt", "en")),
        ("qwen2.5:7b", Excerpt(question="Открыто ли сейчас отделение банка?", answer="Да."), ("qwen", "ru")),
        ("our-own", None, ("unknown", "unknown")),
        (None, None, ("unknown", "unknown")),
    ],
)
def test_a_record_has_the_family_and_language_of_the_answer(
    model: str | None, excerpt: Excerpt | None, expected: tuple[str, str]
) -> None:
    judged = make_evaluation(0.75, "shop").model_copy(update={"model": model, "excerpt": excerpt})
    record = score_record(judged)
    assert record is not None
    assert (record.family, record.language) == expected
    value = json.loads(record.message("rag.scores").value or b"")
    assert ScoreRecord.model_validate(value) == record
    del value["family"], value["language"]
    assert ScoreRecord.model_validate(value) == record.model_copy(update={"family": None, "language": None})


@pytest.mark.parametrize("name", ["family", "language"])
def test_a_record_with_a_long_family_or_language_is_refused(name: str) -> None:
    record = score_record(make_evaluation(0.75, "shop"))
    assert record is not None
    value = json.loads(record.message("rag.scores").value or b"")
    with pytest.raises(ValidationError, match=name):
        ScoreRecord.model_validate(value | {name: "x" * 65})


def test_a_dimension_without_a_score_is_left_out() -> None:
    record = score_record(make_evaluation(None, "shop"))
    assert record is not None
    assert "composite" not in record.scores


def test_a_backfilled_evaluation_has_no_score_record() -> None:
    past = make_evaluation(0.5, "shop").model_copy(update={"sampling": Sampling(lane=BACKFILL)})
    assert score_record(past) is None


def test_a_canary_has_its_id_in_the_file_and_its_verdicts_and_scores() -> None:
    canary = make_evaluation(0.5, "canaries").model_copy(
        update={"sampling": Sampling(lane=CANARY), "tags": {"canary": "c1"}}
    )
    record = score_record(canary)
    assert record is not None
    assert record.canary == "c1"
    assert (record.family, record.language) == (None, None)
    assert record.scores["composite"] == 0.5


@pytest.mark.parametrize("ahead", [timedelta(days=1), timedelta(days=400), timedelta(days=365 * 7000)])
def test_an_evaluation_dated_in_the_future_is_dated_now(ahead: timedelta) -> None:
    record = score_record(make_evaluation(0.5, "shop").model_copy(update={"evaluated_at": NOW + ahead}))
    assert record is not None
    assert record.at == NOW.timestamp()
