"""The judges of labelled answers: each is measured by criterion, and by the answer's family or language."""

import pytest

from judges.values.evaluation import Excerpt, Status
from sinks.statistics.measured_judges import JudgedSeries, measure_judges
from stream.jobs.labels.judges import judges_object, judges_sheet
from tests.sinks.metrics.measured import dimension, verdict
from tests.stream.jobs.labels.test_joining import judged, label


def answer(number: int, mild: float, strict: float, model: str = "gpt-4o", question: str = "Is it open?") -> object:
    verdicts = (verdict("mild", score=mild), verdict("strict", score=strict), verdict("lost", Status.INSUFFICIENT))
    return judged(
        f"i-{number}",
        dimensions={"clarity": dimension(mild, *verdicts)},
        model=model,
        excerpt=Excerpt(question=question, answer="It is."),
    )


ANSWERS = [
    answer(1, 1.0, 0.0),
    answer(2, 1.0, 0.5, model="claude-3"),
    answer(3, 1.0, 1.0, question="Открыто ли сейчас отделение банка?"),
    answer(4, 0.0, 0.0),
]
LABELS = [
    label(number, score, interaction_id=f"i-{number}", probability=None)
    for number, score in ((1, 0.0), (2, 1.0), (3, 1.0))
]


def test_every_judge_with_a_score_is_compared_with_the_labels() -> None:
    measured = measure_judges(ANSWERS, LABELS)  # type: ignore[arg-type]
    mild, strict = (measured[JudgedSeries(name, "clarity", None)] for name in ("mild", "strict"))
    assert len(measured) == 2
    assert (mild.labels, mild.sensitivity.value, mild.specificity.value) == (3, 0.0, 1.0)
    assert (strict.sensitivity.value, strict.specificity.value) == (1.0, 1.0)
    assert mild.bias.mean == pytest.approx(1 / 3)
    assert strict.bias.mean == pytest.approx(-1 / 6)


@pytest.mark.parametrize(("by", "values"), [("family", {"gpt", "claude"}), ("language", {"en", "ru"})])
def test_answers_are_divided(by: str, values: set[str]) -> None:
    measured = measure_judges(ANSWERS, LABELS, by)  # type: ignore[arg-type]
    assert {key.value for key in measured} == values
    assert sum(quality.labels for key, quality in measured.items() if key.judge == "mild") == 3
    sheet = judges_sheet(measured, by)  # type: ignore[arg-type]
    assert sheet.headings[:3] == ("judge", "criterion", by)
    assert len(judges_object(measured, by)["judges"]) == 4  # type: ignore[arg-type]


def test_feedback_measures_no_judge() -> None:
    feedback = [entry.model_copy(update={"kind": "feedback"}) for entry in LABELS]
    assert measure_judges(ANSWERS, feedback) == {}  # type: ignore[arg-type]
