"""The agreement of judges with people, from the archive: the same as from the published records."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.values.evaluation import Evaluation, Excerpt, Sampling, Status
from judges.values.label import Label
from sinks.archive.database import Database
from sinks.archive.reading import judge_quality
from sinks.archive.reading.judge_quality import MeasuredJudges, read_judge_quality
from sinks.archive.reading.times import TimeRange
from sinks.archive.retention import Retention
from sinks.archive.writing import ArchiveBatch, ArchiveWriter, empty
from sinks.statistics.judge_quality import JudgeQuality
from sinks.statistics.measured_judges import ATTRIBUTES, JudgedSeries, measure_judges
from stream.archivist.rows import RowReader
from stream.config.model import Config
from stream.kafka.offsets import Partition
from stream.kafka.record import Record
from tests.sinks.metrics.measured import dimension, evaluation, verdict

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = TimeRange.of(START, START + timedelta(hours=1))
CONFIG = Config()
TRACES = [f"{number:032x}" for number in (1, 2)]
INTERACTIONS = [f"i-{number}" for number in range(4)]
QUESTIONS = ("Is the branch open today?", "Открыто ли сегодня отделение банка?")
MODELS = ("gpt-4o", "claude-3", "nameless", None)


@pytest.fixture(scope="module")
def archive(make_url: Any) -> Iterator[Database]:
    with Database(make_url()) as database:
        yield database


def judged(number: int, name: str = "i-0", scores: Sequence[float | None] = (1.0, 0.0), **more: Any) -> Evaluation:
    """An evaluation with the verdicts of two judges by two criteria, a second after the one before it."""
    verdicts = [
        verdict(judge, Status.INSUFFICIENT if score is None else Status.SCORED, score=score)
        for judge, score in zip(("mild", "strict"), scores, strict=True)
    ]
    fields = {
        "evaluation_id": f"e-{number}",
        "interaction_id": name,
        "evaluated_at": START + timedelta(seconds=number),
        "dimensions": {"clarity": dimension(0.5, *verdicts), "tone": dimension(0.5, verdicts[0])},
        **more,
    }
    return evaluation(0.7, **fields)


def label(number: int, name: str = "i-0", score: float | None = 1.0, **more: Any) -> Label:
    fields = {
        "label_id": f"l-{number}",
        "interaction_id": name,
        "criterion": "clarity",
        "score": score,
        "who": "ada",
        "labelled_at": START + timedelta(seconds=number),
    }
    return Label(**{**fields, **more})


def store(archive: Database, evaluations: Sequence[Evaluation], labels: Sequence[Label]) -> None:
    """Writes records to an empty archive, as the archivist does."""
    topics, reader, batch = CONFIG.topics, RowReader(CONFIG), ArchiveBatch()
    for topic, records in ((topics.evaluations, evaluations), (topics.labels, labels)):
        for record in records:
            value = record.model_dump_json().encode()
            reader.add(Record(Partition(topic, 0), 0, None, value, (), written_at=1e9), batch)
    empty(archive)
    ArchiveWriter(archive, Retention(None)).write(batch)


def read(archive: Database, period: TimeRange = HOUR, **more: Any) -> MeasuredJudges:
    with archive.read() as connection:
        return read_judge_quality(connection, period, **more)


def numbers(qualities: Mapping[JudgedSeries, JudgeQuality]) -> list[Any]:
    return [
        (key, quality.labels, {name: (one.value, one.low, one.high) for name, one in quality.figures.items()})
        for key, quality in qualities.items()
    ]


def check_same(actual: Mapping[JudgedSeries, JudgeQuality], wanted: Mapping[JudgedSeries, JudgeQuality]) -> None:
    for mine, theirs in zip(numbers(actual), numbers(wanted), strict=True):
        assert mine[:2] == theirs[:2]
        for name, figures in theirs[2].items():
            assert mine[2][name] == pytest.approx(figures, abs=1e-9, nan_ok=False)


scores = st.sampled_from((None, 0.0, 0.25, 0.5, 1.0))


@st.composite
def evaluation_lists(draw: st.DrawFn) -> list[Evaluation]:
    return [
        judged(
            # Some evaluations of an interaction have the same time.
            number,
            name := draw(st.sampled_from(INTERACTIONS)),
            (draw(scores), draw(scores)),
            evaluated_at=START + timedelta(seconds=draw(st.integers(0, 3))),
            app="shop" if name < "i-2" else "bank",
            model=draw(st.sampled_from(MODELS)),
            excerpt=draw(st.sampled_from((None, *(Excerpt(question=text, answer="") for text in QUESTIONS)))),
            traceparent=draw(st.sampled_from((None, *(f"00-{trace}-00f067aa0ba902b7-01" for trace in TRACES)))),
            sampling=Sampling(
                probability=0.5, rule="all", lane=draw(st.sampled_from(("main", "main", "main", "canary", "backfill")))
            ),
        )
        for number in range(draw(st.integers(0, 8)))
    ]


@st.composite
def label_lists(draw: st.DrawFn) -> list[Label]:
    labels = [
        label(
            number,
            draw(st.sampled_from((*INTERACTIONS, *TRACES, "unknown"))),
            draw(scores),
            criterion=draw(st.sampled_from(("clarity", "tone", "composite"))),
            who=draw(st.sampled_from(("ada", "bob"))),
            labelled_at=START + timedelta(seconds=draw(st.integers(-3, 3))),
            kind=draw(st.sampled_from(("review", "review", "review", "anchor", "feedback"))),
        )
        for number in range(draw(st.integers(0, 12)))
    ]
    retracted = draw(st.sets(st.integers(0, 12), max_size=2))
    return labels + [label(100 + number, score=None, retracts=f"l-{number}") for number in retracted]


@given(evaluations=evaluation_lists(), labels=label_lists())
@pytest.mark.slow
def test_judges_have_the_same_figures_as_from_the_records(
    archive: Database, evaluations: list[Evaluation], labels: list[Label]
) -> None:
    store(archive, evaluations, labels)
    for by in (None, *ATTRIBUTES):
        measured = read(archive, by=by)
        check_same(measured.qualities, measure_judges(evaluations, labels, by))
        assert not measured.is_cut
    of_app = [evaluation for evaluation in evaluations if evaluation.app == "shop"]
    check_same(read(archive, app="shop").qualities, measure_judges(of_app, labels))


def test_only_answers_of_the_range_are_compared(archive: Database) -> None:
    evaluations = [judged(number, f"i-{number}") for number in range(4)]
    labels = [label(number, f"i-{number}") for number in range(4)]
    store(archive, evaluations, labels)
    period = TimeRange.of(START + timedelta(seconds=1), START + timedelta(seconds=3))
    assert {quality.labels for quality in read(archive, period).qualities.values()} == {2}


@pytest.mark.parametrize(("limit", "value"), [("MOST_ANSWERS", 3), ("MOST_LABELS", 3)])
def test_the_latest_labels_are_compared_if_there_are_too_many(
    archive: Database, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    evaluations = [judged(number, f"i-{number}", (1.0, float(number < 2))) for number in range(5)]
    labels = [label(number, f"i-{number}", 0.0) for number in range(5)]
    store(archive, evaluations, labels)
    monkeypatch.setattr(judge_quality, limit, value)
    measured = read(archive)
    assert measured.is_cut
    assert measured.qualities[JudgedSeries("strict", "clarity", None)].labels == value
    # The two oldest answers are those on which this judge errs.
    assert measured.qualities[JudgedSeries("strict", "clarity", None)].sensitivity.value == 1.0
    store(archive, evaluations[2:], labels[2:])
    assert not read(archive).is_cut
