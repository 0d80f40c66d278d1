"""Labels and evaluations: which labels count, and which series they correct."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.values.evaluation import Evaluation, Sampling, Status
from judges.values.label import Label
from judges.values.valid_labels import HumanScore, ValidLabels
from sinks.statistics.label_design import LabelledScore
from stream.jobs.labels.joining import SeriesKey, join
from stream.jobs.labels.report import (
    NO_LABELS,
    UNCORRECTED,
    estimate_all,
    plan_all,
    plan_object,
    report_object,
    report_sheets,
)
from tests.sinks.metrics.measured import dimension, evaluation

START = datetime(2026, 11, 16, tzinfo=UTC)


def label(number: int = 1, score: float | None = 1.0, **more: Any) -> Label:
    basis = {
        "label_id": f"l-{number}",
        "interaction_id": "i-1",
        "criterion": "clarity",
        "score": score,
        "who": "ada",
        "labelled_at": START + timedelta(seconds=number),
        "probability": 0.05,
    }
    return Label(**{**basis, **more})


def judged(name: str = "i-1", clarity: float | None = 0.5, probability: float = 0.1, **more: Any) -> Evaluation:
    fields = {"interaction_id": name, "dimensions": {"clarity": dimension(clarity)}, **more}
    return evaluation(0.7, probability=probability, **fields)


CLARITY = SeriesKey("shop", "clarity")
JOINED = LabelledScore(score=0.5, label=1.0, probability=0.1, label_probability=0.05)


@given(st.permutations([label(1, 0.0), label(2, 0.5), label(3, None, retracts="l-4"), label(4, 1.0), label(2, 0.5)]))
def test_the_last_label_of_a_person_counts_in_any_order(records: list[Label]) -> None:
    assert ValidLabels(records).scores("review") == {("i-1", "clarity"): HumanScore(0.5, 0.05, 1)}


def test_the_scores_of_several_people_are_averaged() -> None:
    records = [label(1, 0.0), label(2, 1.0, who="bob", probability=None)]
    assert ValidLabels(records).scores("review") == {("i-1", "clarity"): HumanScore(0.5, 0.05, 2)}


def test_a_label_belongs_to_the_series_of_its_interaction() -> None:
    joined = join([judged(), judged("i-2", 0.25)], [label()])
    assert joined.series[CLARITY].labelled == [JOINED]
    assert joined.series[CLARITY].others == [(0.25, 0.1)]
    assert joined.series[SeriesKey("shop", "composite")].others == [(0.7, 0.1)] * 2


def test_a_label_may_name_the_trace() -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    joined = join([judged(traceparent=f"00-{trace}-00f067aa0ba902b7-01")], [label(interaction_id=trace)])
    assert joined.series[CLARITY].labelled == [JOINED]
    assert joined.unmatched == 0


def test_the_last_evaluation_of_an_interaction_counts_and_canaries_do_not() -> None:
    later = judged(clarity=0.75, evaluated_at=datetime(2026, 11, 18, tzinfo=UTC))
    canary = judged("i-3", sampling=Sampling(lane="canary"))
    for evaluations in ([judged(), later, canary], [canary, later, judged()]):
        (record,) = join(evaluations, [label()]).series[CLARITY].labelled
        assert record.score == 0.75


@pytest.mark.parametrize(
    ("labels", "evaluation", "counted"),
    [
        ([label(probability=None)], judged(), "not_random"),
        ([label(probability=0.5)], judged(), "impossible"),
        ([label()], judged(clarity=None), "unscored"),
        ([label()], judged(dimensions={"clarity": dimension(None, status=Status.NOT_APPLICABLE)}), "unscored"),
        ([label(interaction_id="i-9")], judged(), "unmatched"),
        ([label(kind="feedback", interaction_id="i-9")], judged(), "unmatched"),
    ],
)
def test_labels_that_correct_no_mean_are_counted(labels: list[Label], evaluation: Evaluation, counted: str) -> None:
    joined = join([evaluation], labels)
    ignored = ("not_random", "unscored", "impossible", "unmatched")
    assert {name: getattr(joined, name) for name in ignored} == {name: int(name == counted) for name in ignored}
    assert not any(series.labelled for series in joined.series.values())


@pytest.mark.parametrize(("labels", "is_noted"), [([], True), ([label()], False), ([label(probability=None)], False)])
def test_a_report_without_labels_says_how_to_give_some(labels: list[Label], is_noted: bool) -> None:
    joined = join([judged()], labels)
    (sheet,) = report_sheets(joined, estimate_all(joined))
    assert (f"{NO_LABELS}." in sheet.notes) is is_noted


def test_feedback_and_anchors_never_mix_with_reviews() -> None:
    joined = join([judged()], [label(1, 0.0, kind="feedback"), label(2, 1.0, kind="feedback"), label(3, kind="anchor")])
    assert joined.series[CLARITY].labelled == []
    assert joined.feedback[CLARITY].scores == [0.0, 1.0]


def test_a_series_says_uncorrected_until_it_has_enough_labels() -> None:
    evaluations = [judged(f"i-{number}", number % 2 * 0.5) for number in range(100)]
    labels = [label(number, number % 3 / 2, interaction_id=f"i-{number}") for number in range(50)]
    for count, status in ((29, UNCORRECTED), (50, "corrected")):
        joined = join(evaluations, labels[:count])
        document = report_object(joined, estimate_all(joined))
        by_criterion = {series["criterion"]: series for series in document["series"]}
        assert by_criterion["clarity"]["status"] == status
        assert by_criterion["clarity"]["labels"] == count
        assert by_criterion["composite"]["status"] == UNCORRECTED
        assert (by_criterion["clarity"]["corrected"] is None) == (status == UNCORRECTED)
    (clarity, _composite) = plan_object(plan_all(joined, 0.2), 0.2)["series"]
    assert (clarity["criterion"], clarity["known"]) == ("clarity", 50)
    assert clarity["needed"] == clarity["random_queue"] > 30
