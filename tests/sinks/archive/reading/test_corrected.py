"""Means corrected by labels, from the archive: the same as from the single answers and labels."""

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from sinks.archive.database import Database
from sinks.archive.reading.corrected import read_corrected
from sinks.archive.reading.times import MINUTE_MS, Slots, TimeRange
from sinks.archive.writing import empty
from sinks.statistics.corrected import CorrectionSums, correct
from tests.parts.archive import START_MS, Judged, fill


@pytest.fixture(scope="module")
def archive(make_url: Any) -> Iterator[Database]:
    with Database(make_url()) as database:
        yield database


def label_row(answer: str, score: float | None = 1.0, **more: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "label_id": f"l-{answer}-{len(more)}",
        "interaction_id": f"i-{answer}",
        "evaluation_id": answer,
        "criterion": "clarity",
        "option": None,
        "score": score,
        "who": "ada",
        "at": START_MS + MINUTE_MS,
        "probability": 0.05,
        "kind": "review",
        "comment": None,
        "retracted": False,
    }
    return {**fields, **more}


def read(archive: Database, minutes: int) -> Any:
    slots = Slots.divide(TimeRange(start=START_MS, end=START_MS + minutes * MINUTE_MS), 60)
    with archive.read() as connection:
        return read_corrected(connection, ["shop", "bank"], slots)


@pytest.mark.parametrize("minutes", [60, 4 * 1440], ids=["by minute", "by hour"])
def test_the_corrected_mean_is_that_of_the_single_answers(archive: Database, minutes: int) -> None:
    lots, sums = Random(1), {"clarity": CorrectionSums(), "composite": CorrectionSums()}
    answers, labels = [], []
    for number in range(120):
        name, probability = f"e{number:03d}", lots.choice((0.5, 0.1))
        scores = {"clarity": lots.choice((0.0, 0.5, 1.0)), "composite": lots.choice((0.25, 0.75))}
        answers.append(
            Judged(
                id=name,
                at=START_MS + number * 1000,
                app="shop",
                probability=probability,
                composite=scores["composite"],
                scores={"clarity": scores["clarity"]},
            )
        )
        for criterion, score in scores.items():
            if number % 2:
                sums[criterion] += CorrectionSums.of_score(score, probability)
            else:
                label = lots.choice((0.0, 1.0))
                labels.append(label_row(name, label, criterion=criterion, label_id=f"{name}-{criterion}"))
                sums[criterion] += CorrectionSums.of_label(score, label, probability, 0.05)
    empty(archive)
    fill(archive, [*answers, Judged(id="other", app="bank", scores={"clarity": 1.0})], labels=labels)
    estimates = read(archive, minutes)
    assert estimates.keys() == {"shop"}
    for criterion, expected in sums.items():
        actual, wanted = estimates["shop"][criterion], correct(expected)
        assert (actual.judged, actual.labels) == (wanted.judged, wanted.labels) == (120, 60)
        assert actual.corrected is not None
        assert wanted.corrected is not None
        for part in ("mean", "low", "high"):
            assert getattr(actual.corrected, part) == pytest.approx(getattr(wanted.corrected, part), abs=1e-9)


def test_only_labels_that_correct_a_mean_count(archive: Database) -> None:
    names = ["a", "b", "c", "d", "e", "f", "g"]
    answers = [Judged(id=name, probability=0.1, scores={"clarity": 0.5}) for name in names[:-1]]
    empty(archive)
    fill(
        archive,
        [*answers, Judged(id="g", probability=0.1, scores={"clarity": None}), Judged(id="h", lane="canary")],
        labels=[
            label_row("a"),
            label_row("a", 0.0, label_id="second", who="bob"),
            label_row("b", retracted=True),
            label_row("c", probability=None),
            label_row("d", probability=0.5),
            label_row("e", kind="feedback"),
            label_row("f", None),
            label_row("g"),
            label_row("h"),
            label_row("missing"),
        ],
    )
    estimate = read(archive, 60)["shop"]["clarity"]
    assert (estimate.judged, estimate.labels, estimate.corrected) == (6, 1, None)
