"""The queue of answers to label: a random sample, the same in SQL and in Python, without what a reviewer has done."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select, update

from judges.values.evaluation import evaluation_id
from sinks.archive.database import Database
from sinks.archive.reading import review as module
from sinks.archive.reading.review import (
    ReviewFilter,
    StoredVerdict,
    count_remaining,
    find_evaluation,
    find_label,
    find_next_candidate,
    find_verdict,
    is_in_sample,
)
from sinks.archive.tables import evaluations, scores
from sinks.statistics.label_design import LabelQueue
from tests.parts.archive import START_MS, Judged, fill

NUMBER = 300
IDS = sorted(evaluation_id(f"i-{number}", "fingerprint") for number in range(NUMBER))


def label_row(
    evaluation: str, *, who: str = "ada", criterion: str = "clarity", retracted: bool = False
) -> dict[str, Any]:
    return {
        "label_id": str(uuid.uuid4()),
        "interaction_id": f"i-{evaluation}",
        "evaluation_id": evaluation,
        "criterion": criterion,
        "option": "clear",
        "score": 1.0,
        "who": who,
        "at": START_MS,
        "probability": 0.1,
        "kind": "review",
        "comment": None,
        "retracted": retracted,
    }


@pytest.fixture(scope="module")
def archive(make_url: Any) -> Iterator[Database]:
    with Database(make_url()) as database:
        fill(database, [Judged(id=name, scores={"clarity": 1.0}, probability=0.5) for name in IDS])
        yield database


@pytest.fixture
def empty_archive(make_url: Any) -> Iterator[Database]:
    with Database(make_url()) as database:
        yield database


def queue(database: Database, *, who: str = "ada", criterion: str = "clarity", rate: float = 1.0) -> list[str]:
    """Everything in the queue, in order; each answer is labelled when it is listed."""
    listed: list[str] = []
    while True:
        wanted = ReviewFilter(who=who, criterion=criterion, queue=LabelQueue(rate=rate), labelled=listed)
        with database.read() as connection:
            candidate, remaining = find_next_candidate(connection, wanted), count_remaining(connection, wanted)
        assert (remaining == 0) == (candidate is None)
        if candidate is None:
            return listed
        listed.append(candidate.evaluation_id)


@pytest.mark.parametrize("rate", [0.0001, 0.05, 0.3, 1.0])
def test_the_database_and_the_program_agree_on_the_sample(archive: Database, rate: float) -> None:
    wanted = ReviewFilter(who="ada", criterion="clarity", queue=LabelQueue(rate=rate))
    expected = [name for name in IDS if is_in_sample(name, rate)]
    with archive.read() as connection:
        first, remaining = find_next_candidate(connection, wanted), count_remaining(connection, wanted)
    assert remaining == len(expected)
    assert (None if first is None else first.evaluation_id) == next(iter(expected), None)


def test_an_answer_comes_with_its_texts_and_its_probability(archive: Database) -> None:
    with archive.read() as connection:
        candidate = find_next_candidate(
            connection, ReviewFilter(who="ada", criterion="clarity", queue=LabelQueue(rate=1.0))
        )
    assert candidate is not None
    assert (candidate.evaluation_id, candidate.probability) == (IDS[0], 0.5)
    assert (candidate.texts["question"], candidate.texts["answer"]) == ("What is it?", "It is this.")


def test_a_long_queue_is_counted_up_to_a_limit(archive: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_COUNTED", 7)
    with archive.read() as connection:
        assert (
            count_remaining(connection, ReviewFilter(who="ada", criterion="clarity", queue=LabelQueue(rate=1.0))) == 7
        )


def test_only_answers_that_can_be_labelled_are_queued(empty_archive: Database) -> None:
    fill(
        empty_archive,
        [
            Judged(id="1-good", scores={"clarity": 1.0}),
            Judged(id="2-failed", scores={"clarity": None}),
            Judged(id="3-without-texts", scores={"clarity": 1.0}, has_texts=False),
            Judged(id="4-canary", scores={"clarity": 1.0}, lane="canary"),
            Judged(id="5-backfill", scores={"clarity": 1.0}, lane="backfill"),
            Judged(id="6-other-criterion", scores={"groundedness": 1.0}),
            Judged(id="7-safety-lane", scores={"clarity": 1.0}, lane="safety"),
        ],
    )
    assert queue(empty_archive) == ["1-good", "2-failed", "7-safety-lane"]


def test_what_a_reviewer_has_labelled_is_not_asked_again(empty_archive: Database) -> None:
    fill(
        empty_archive,
        [Judged(id=name, scores={"clarity": 1.0, "groundedness": 1.0}) for name in "abcd"],
        labels=[label_row("a"), label_row("b", retracted=True), label_row("c", who="bob")],
    )
    assert queue(empty_archive) == ["b", "c", "d"]
    assert queue(empty_archive, who="bob") == ["a", "b", "d"]
    assert queue(empty_archive, criterion="groundedness") == ["a", "b", "c", "d"]


def test_a_label_that_was_just_retracted_does_not_count(empty_archive: Database) -> None:
    row = label_row("a")
    fill(empty_archive, [Judged(id="a", scores={"clarity": 1.0})], labels=[row])
    undone = ReviewFilter(who="ada", criterion="clarity", queue=LabelQueue(rate=1.0), retracted=[row["label_id"]])
    with empty_archive.read() as connection:
        candidate = find_next_candidate(connection, undone)
        stored, evaluation = find_label(connection, row["label_id"]), find_evaluation(connection, "a")
        assert find_label(connection, "none") is None
        assert find_evaluation(connection, "none") is None
    assert candidate is not None
    assert stored is not None
    assert (stored.who, stored.evaluation_id, stored.retracted) == ("ada", "a", False)
    assert evaluation is not None
    assert (evaluation.interaction_id, evaluation.lane) == ("i-a", "main")


@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_a_larger_rate_adds_answers_and_takes_none_away(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert {name for name in IDS if is_in_sample(name, low)} <= {name for name in IDS if is_in_sample(name, high)}


@pytest.mark.parametrize("rate", [0.05, 0.2, 0.5])
def test_the_sample_has_about_the_size_of_its_rate(rate: float) -> None:
    names = [evaluation_id(f"interaction-{number}", "fingerprint") for number in range(20_000)]
    share = sum(is_in_sample(name, rate) for name in names) / len(names)
    assert abs(share - rate) < 4 * (rate * (1 - rate) / len(names)) ** 0.5


def test_a_designed_queue_prefers_answers_on_which_judges_disagree(empty_archive: Database) -> None:
    fill(empty_archive, [Judged(id=name, scores={"clarity": 1.0}, probability=0.5) for name in IDS])
    design = LabelQueue(rate=1.0, floor=0.1, lowest=0.5, threshold=None)
    with empty_archive.write() as connection:
        split = select(evaluations.c.number).where(evaluations.c.id.in_(IDS[::2]))
        connection.execute(update(scores).where(scores.c.number.in_(split)).values(spread=1.0))
    wanted = ReviewFilter(who="ada", criterion="clarity", queue=design)
    with empty_archive.read() as connection:
        remaining = count_remaining(connection, wanted)
        candidate = find_next_candidate(connection, wanted)
        verdicts = [find_verdict(connection, name, "clarity") for name in IDS[:2]]
    # Those on which judges disagree are certain; of the others, half are queued.
    expected = [name for place, name in enumerate(IDS) if place % 2 == 0 or is_in_sample(name, 0.5)]
    assert remaining == len(expected)
    assert candidate is not None
    assert (candidate.evaluation_id, candidate.chance) == (IDS[0], 1.0)
    assert verdicts == [StoredVerdict(1.0, 1.0), StoredVerdict(1.0, None)]
