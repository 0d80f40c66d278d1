"""Records become rows; a record that is not ours is refused with a reason, whatever its bytes are."""

import json
import time
import zlib
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.archive_data import SyntheticAnswer, make_answers
from sinks.archive.texts import searchable_texts
from sinks.archive.writing import ArchiveBatch
from stream.archivist.rows import RowReader
from stream.config.model import Config
from stream.errors import RecordError
from stream.kafka.offsets import Partition
from stream.kafka.record import Record
from stream.records.envelope import evaluation_headers

(ANSWER,) = make_answers(1)
EVALUATION: dict[str, Any] = json.loads(ANSWER.evaluation)
INTERACTION: dict[str, Any] = json.loads(ANSWER.interaction)


def read(
    topic: str, value: bytes | dict[str, Any] | None, headers: Any = (), *, written_at: float = 1e9, **archive: Any
) -> ArchiveBatch:
    config = Config.model_validate({"archive": archive})
    batch = ArchiveBatch()
    value = json.dumps(value).encode() if isinstance(value, dict) else value
    RowReader(config).add(Record(Partition(topic, 0), 0, None, value, headers, written_at=written_at), batch)
    return batch


def test_the_row_of_an_evaluation() -> None:
    (item,) = read("rag.evaluations", ANSWER.evaluation, ANSWER.evaluation_headers).evaluations
    row = item.row
    assert (row.id, row.interaction_id, row.app) == (ANSWER.evaluation_id, ANSWER.interaction_id, EVALUATION["app"])
    assert row.at == int(ANSWER.judged_at.timestamp() * 1000)
    assert row.composite == EVALUATION["composite"]["score"]
    assert row.trace_id == EVALUATION["traceparent"].split("-")[1]
    scores = {name: part["score"] for name, part in EVALUATION["dimensions"].items() if part["score"] is not None}
    assert row.worst_criterion == min(scores, key=lambda name: scores[name])
    assert row.spread == max(part["spread"] or 0.0 for part in EVALUATION["dimensions"].values())
    assert json.loads(row.tags) == EVALUATION["tags"]
    assert ("regime", EVALUATION["tags"]["regime"]) in item.tags
    assert zlib.decompress(item.record) == ANSWER.evaluation


def test_an_evaluation_names_the_texts_that_were_judged() -> None:
    (texts,) = read("rag.sampled", ANSWER.interaction, ANSWER.interaction_headers).texts
    (item,) = read("rag.evaluations", ANSWER.evaluation, ANSWER.evaluation_headers).evaluations
    assert item.row.texts_id == texts.id
    assert texts.interaction_id == ANSWER.interaction_id
    assert json.loads(zlib.decompress(texts.content)) == {
        "question": INTERACTION["question"],
        "answer": INTERACTION["answer"],
        "history": INTERACTION.get("history") or [],
        "contexts": [
            {"id": context.get("id"), "score": context.get("score"), "text": context["text"]}
            for context in INTERACTION["contexts"]
        ],
        "reference": INTERACTION.get("reference"),
    }


def test_two_contents_under_one_id_have_their_own_texts() -> None:
    (one,) = read("rag.sampled", ANSWER.interaction).texts
    (other,) = read("rag.sampled", {**INTERACTION, "answer": "Something else."}).texts
    assert one.interaction_id == other.interaction_id
    assert one.id != other.id
    digest = other.id.rpartition("#")[2]
    judged = {**EVALUATION, "interaction_id": other.id}
    (item,) = read("rag.evaluations", judged, evaluation_headers(digest, ANSWER.interaction_id)).evaluations
    assert item.row.texts_id == other.id
    assert item.logged_id == ANSWER.interaction_id


def test_an_evaluation_of_an_earlier_version_has_no_texts() -> None:
    (item,) = read("rag.evaluations", ANSWER.evaluation).evaluations
    assert item.row.texts_id is None


@pytest.mark.parametrize(("lane", "live"), [("main", True), ("safety", True), ("canary", False), ("backfill", False)])
def test_canaries_and_backfills_are_kept_apart_from_live_traffic(lane: str, live: bool) -> None:
    sampling = {**EVALUATION["sampling"], "lane": lane}
    (item,) = read("rag.evaluations", {**EVALUATION, "sampling": sampling}).evaluations
    assert (item.row.lane, item.is_live) == (lane, live)


# What of the texts is stored

SECRET = "ann@example.com"


def with_secrets() -> tuple[dict[str, Any], dict[str, Any]]:
    interaction = {
        **INTERACTION,
        "question": f"I am {SECRET}, and what now?",
        "answer": f"Write to {SECRET}.",
        "history": [{"role": "user", "text": f"It is {SECRET}"}],
        "contexts": [{"text": f"Mail from {SECRET}", "id": "c1"}],
        "reference": f"See {SECRET}",
    }
    evaluation = json.loads(ANSWER.evaluation)
    evaluation["excerpt"] = {
        "question": f"I am {SECRET}, and what now?",
        "answer": f"{'a ' * 60}{SECRET} and ann@exam…",
    }
    evaluation["tags"] = {"mail": SECRET, "number": 3}
    verdict = evaluation["dimensions"]["clarity"]["judges"][0]
    verdict |= {"explanation": f"It names {SECRET}.", "feedback": f"Leave {SECRET} out.", "detail": f"said {SECRET}"}
    return interaction, evaluation


def test_full_texts_are_stored_as_they_are() -> None:
    interaction, evaluation = with_secrets()
    (texts,) = read("rag.sampled", interaction).texts
    (item,) = read("rag.evaluations", evaluation).evaluations
    assert searchable_texts(texts.content) == (interaction["question"], interaction["answer"])
    assert "answer_is_redacted" not in json.loads(zlib.decompress(texts.content))
    assert json.loads(zlib.decompress(item.record)) == evaluation


def test_redacted_texts_show_no_personal_data_anywhere() -> None:
    interaction, evaluation = with_secrets()
    (texts,) = read("rag.sampled", interaction, texts="redacted").texts
    (item,) = read("rag.evaluations", evaluation, texts="redacted").evaluations
    stored = zlib.decompress(texts.content).decode()
    assert SECRET not in stored
    assert stored.count("[EMAIL_1]") == 5
    assert json.loads(stored)["answer_is_redacted"], "marked sentences are elsewhere in it"
    record = zlib.decompress(item.record).decode()
    assert "ann@" not in record + str(item.row) + str(item.tags)
    assert json.loads(record)["dimensions"]["clarity"]["judges"][0]["explanation"] == "It names [EMAIL_1]."
    assert json.loads(record)["composite"] == evaluation["composite"]
    assert ("number", "3") in item.tags


def test_without_texts_only_figures_are_stored() -> None:
    _interaction, evaluation = with_secrets()
    evaluation["tags"] = {}
    assert "rag.sampled" not in RowReader(Config.model_validate({"archive": {"texts": "none"}})).topics
    (item,) = read("rag.evaluations", evaluation, texts="none").evaluations
    record = json.loads(zlib.decompress(item.record))
    assert (item.row.question, item.row.answer, record["excerpt"]) == (None, None, None)
    assert "ann@" not in json.dumps(record)
    assert record["dimensions"]["clarity"]["judges"][0]["explanation"] == ""
    assert record["dimensions"]["clarity"]["score"] == evaluation["dimensions"]["clarity"]["score"]


def test_the_comment_of_a_label_follows_the_texts() -> None:
    document = {**LABEL, "comment": f"{SECRET} again"}
    comments = [
        read("rag.labels", document, texts=policy).labels[0]["comment"] for policy in ("full", "redacted", "none")
    ]
    assert comments == [f"{SECRET} again", "[EMAIL_1] again", None]


# Alerts and labels

ALERT = {
    "alert_id": "a1",
    "kind": "cleared",
    "subject": "quality",
    "series": {"app": "bot", "dimension": "composite", "attribute": "model", "value": "atlas"},
    "at": "2026-03-01T00:00:02Z",
    "raised_at": "2026-03-01T00:00:01Z",
    "onset_at": "2026-03-01T00:00:00Z",
}
LABEL = {
    "label_id": "l1",
    "interaction_id": "i1",
    "evaluation_id": "e1",
    "criterion": "clarity",
    "option": "high",
    "score": 1.0,
    "who": "ann",
    "labelled_at": "2026-03-01T00:00:00Z",
    "probability": 0.5,
    "kind": "review",
    "comment": None,
    "retracts": None,
}


def test_the_row_of_an_alert() -> None:
    (row,) = read("rag.alerts", ALERT).alerts
    start = int(datetime(2026, 3, 1, tzinfo=UTC).timestamp() * 1000)
    assert (row["onset_at"], row["raised_at"], row["cleared_at"]) == (start, start + 1000, start + 2000)
    assert row["series_key"] == "bot/composite/model=atlas"
    assert json.loads(row["record"]) == ALERT
    (row,) = read("rag.alerts", ALERT | {"kind": "updated"}).alerts
    assert row["cleared_at"] is None


def test_a_label_and_its_retraction() -> None:
    batch = read("rag.labels", LABEL)
    assert [row["label_id"] for row in batch.labels] == ["l1"]
    batch = read("rag.labels", LABEL | {"label_id": "l2", "retracts": "l1"})
    assert (batch.labels, batch.retractions) == ([], ["l1"])


# Records that are not ours


def change_evaluation(**fields: Any) -> bytes:
    return json.dumps({**EVALUATION, **fields}).encode()


LATER = (datetime.now(UTC) + timedelta(days=1)).isoformat()
# The first and the last of these do not exist in UTC: no page could show them.
NO_TIMES = ("0001-01-01T00:00:00+23:00", "1969-12-31T23:59:59Z", LATER, "9999-12-31T23:59:59-23:00")


@pytest.mark.parametrize("at", NO_TIMES, ids=["year 1", "before 1970", "tomorrow", "year 9999"])
@pytest.mark.parametrize(
    ("topic", "document", "fields"),
    [
        ("rag.evaluations", EVALUATION, ["evaluated_at"]),
        ("rag.alerts", ALERT, ["at", "raised_at", "onset_at"]),
        ("rag.labels", LABEL, ["labelled_at"]),
    ],
)
def test_a_time_that_none_of_our_clocks_shows_is_refused(
    topic: str, document: dict[str, Any], fields: list[str], at: str
) -> None:
    for field in fields:
        with pytest.raises(RecordError) as caught:
            read(topic, document | {field: at})
        assert caught.value.kind == "bad_time"


def test_texts_are_at_most_as_new_as_the_clock_of_the_archivist() -> None:
    """Their time is that of the record, which any writer to the topic may set: later, they would never expire."""
    (texts,) = read("rag.sampled", ANSWER.interaction, ANSWER.interaction_headers, written_at=1e17).texts
    assert texts.at <= time.time() * 1000


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, "empty"),
        (b"", "empty"),
        (b"{", "bad_json"),
        (b"[]", "invalid_record"),
        (b"\xff\xfe", "bad_encoding"),
        pytest.param(ANSWER.evaluation.replace(b"rated", b"\xff\xff"), "bad_encoding", id="encoding"),
        pytest.param(b'{"more":' + b"[" * 100_000, "bad_json", id="nested"),
        pytest.param(
            change_evaluation(evaluated_at="2026-03-01T00:00:00"),
            "invalid_record",
            id="evaluated_at-2026-03-01T00-00-00",
        ),
        pytest.param(change_evaluation(evaluation_id="x" * 1000), "invalid_record", id="evaluation_id-x-1000"),
        pytest.param(change_evaluation(app="x" * 300), "invalid_record", id="app-x-300"),
        pytest.param(
            change_evaluation(sampling={"probability": 1e-12}), "bad_probability", id="sampling-probability-1e-12-"
        ),
        pytest.param(
            change_evaluation(sampling={"probability": 0.0}), "invalid_record", id="sampling-probability-0-0-"
        ),
        pytest.param(
            change_evaluation(composite={**EVALUATION["composite"], "score": 2.0}),
            "invalid_record",
            id="composite-EVALUATION-composite-s",
        ),
        pytest.param(
            change_evaluation(dimensions={f"d{number}": {"status": "scored"} for number in range(301)}),
            "invalid_record",
            id="dimensions-f-d-number-status-sco",
        ),
    ],
)
def test_an_evaluation_that_is_not_ours_is_refused(value: bytes | None, kind: str) -> None:
    with pytest.raises(RecordError) as caught:
        read("rag.evaluations", value)
    assert caught.value.kind == kind


@pytest.mark.parametrize("schema", [b"2", b""])
def test_a_record_of_a_later_version_is_refused(schema: bytes) -> None:
    with pytest.raises(RecordError, match="version"):
        read("rag.evaluations", ANSWER.evaluation, (("sj-schema", schema),))


TOPICS = ("rag.evaluations", "rag.sampled", "rag.alerts", "rag.labels")


@given(st.sampled_from(TOPICS), st.binary(max_size=200))
def test_any_bytes_are_refused_and_break_nothing(topic: str, value: bytes) -> None:
    with pytest.raises(RecordError):
        read(topic, value)


def values() -> st.SearchStrategy[Any]:
    return st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
        max_leaves=5,
    )


@given(st.sampled_from([*EVALUATION]), values())
def test_a_record_with_any_other_value_of_a_field_is_read_or_refused(name: str, value: Any) -> None:
    for texts in ("full", "redacted", "none"):
        try:
            (item,) = read("rag.evaluations", {**EVALUATION, name: value}, texts=texts).evaluations
        except (RecordError, UnicodeEncodeError):
            continue
        assert "\x00" not in "".join(part for part in item.row if isinstance(part, str))


def test_a_record_of_now_is_not_from_the_future() -> None:
    now = datetime.fromtimestamp(time.time(), UTC).isoformat()
    assert read("rag.evaluations", change_evaluation(evaluated_at=now)).evaluations


def test_synthetic_answers_are_the_same_in_every_run() -> None:
    again: SyntheticAnswer = next(iter(make_answers(1)))
    assert again == ANSWER
