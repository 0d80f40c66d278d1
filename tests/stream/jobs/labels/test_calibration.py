"""Calibration: proposals follow from the judges' verdicts and the labels, and are those of the cascade."""

import random

from judges.panel.cascade import Cascade
from judges.values.evaluation import Dimension, Status
from stream.jobs.labels.calibration import calibrate_judges, calibration_object, calibration_sheet
from tests.sinks.metrics.measured import dimension, verdict
from tests.stream.jobs.labels.test_joining import judged, label


def draw(count: int) -> tuple[list[object], list[object], list[tuple[Dimension, bool]]]:
    """Draw answers of which a sure judge is right on 98 %, and an unsure one on 60 %; a coin is right on half."""
    rng = random.Random(1)
    evaluations: list[object] = []
    labels: list[object] = []
    findings = []
    for number in range(count):
        truth, is_sure = float(rng.random() < 0.5), rng.random() < 0.6
        is_right = rng.random() < (0.98 if is_sure else 0.6)
        sure = verdict("sure", score=truth if is_right else 1.0 - truth, agreement=1.0 if is_sure else 0.6)
        coin = verdict("coin", score=float(rng.random() < 0.5))
        evaluations.append(judged(f"i-{number}", dimensions={"clarity": dimension(sure.score, sure, coin)}))
        labels.append(label(number, truth, interaction_id=f"i-{number}"))
        findings.append((Dimension(status=Status.SCORED, score=sure.score, judges=(sure,)), is_right))
    return evaluations, labels, findings


EVALUATIONS, LABELS, FINDINGS = draw(400)


def test_a_judge_may_decide_where_it_is_sure() -> None:
    coin, sure = calibrate_judges(EVALUATIONS, LABELS, target=0.9)  # type: ignore[arg-type]
    assert (coin.judge, sure.judge) == ("coin", "sure")
    assert coin.weight < 0.3 < sure.weight
    assert [proposal.limit for proposal in coin.proposals] == [None, None]
    by_agreement, by_margin = sure.proposals
    assert by_agreement.limit is not None
    assert 0.6 < by_agreement.limit.value <= 1.0
    # Its scores are 0 and 1, so no margin tells sure from unsure.
    assert by_margin.limit is None
    cascade = Cascade(first=("sure",), min_agreement=by_agreement.limit.value, threshold=None)
    decided = [is_right for finding, is_right in FINDINGS if cascade.doubt(finding) is None]
    assert (len(decided), sum(decided)) == (by_agreement.limit.answers, by_agreement.limit.agreed)


def test_a_lower_target_allows_every_answer() -> None:
    _coin, sure = calibrate_judges(EVALUATIONS, LABELS, target=0.7)  # type: ignore[arg-type]
    assert [proposal.limit.answers for proposal in sure.proposals if proposal.limit] == [400, 400]


def test_proposals_are_shown_as_a_table_and_as_json() -> None:
    calibrations = calibrate_judges(EVALUATIONS, LABELS, target=0.9)  # type: ignore[arg-type]
    sheet = calibration_sheet(calibrations, 0.9, 0.05)
    assert [row[1] for row in sheet.rows] == ["coin", "sure"]
    assert all(len(row) == len(sheet.headings) for row in sheet.rows)
    coin, sure = calibration_object(calibrations, 0.9, 0.05)["judges"]
    assert coin["min_agreement"] is None
    assert sure["min_agreement"]["answers"] > 100
