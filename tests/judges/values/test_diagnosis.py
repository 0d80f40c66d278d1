"""The diagnosis: one of four cells from two scores, and whether a refusal is justified."""

import pytest

from judges.values.diagnosis import THRESHOLD, DiagnosisCell, RefusalOutcome, diagnose, refusal_outcome
from judges.values.evaluation import Dimension, Evaluation, Status
from tests.stream.monitor.explain.invented import dimension, evaluation


@pytest.mark.parametrize(
    ("sufficiency", "groundedness", "cell"),
    [
        (1.0, 1.0, DiagnosisCell.GOOD),
        (THRESHOLD, THRESHOLD, DiagnosisCell.GOOD),
        (1.0, 0.5, DiagnosisCell.GENERATION),
        (0.5, 1.0, DiagnosisCell.LUCKY),
        (0.74, 0.0, DiagnosisCell.RETRIEVAL),
    ],
)
def test_two_scores_give_one_of_four_cells(sufficiency: float, groundedness: float, cell: DiagnosisCell) -> None:
    judged = evaluation({"context_sufficiency": sufficiency, "groundedness": groundedness})
    assert diagnose(judged) is cell


def test_without_one_of_the_scores_there_is_no_diagnosis() -> None:
    assert diagnose(evaluation({"groundedness": 0.0})) is None
    judged = evaluation({"context_sufficiency": 0.0})
    for status in (Status.NOT_APPLICABLE, Status.INSUFFICIENT):
        dimensions = {**judged.dimensions, "groundedness": Dimension(status=status)}
        assert diagnose(judged.model_copy(update={"dimensions": dimensions})) is None


def refused(score: float, sufficiency: float | None, option: str | None = "refusal") -> Evaluation:
    judged = evaluation({} if sufficiency is None else {"context_sufficiency": sufficiency})
    return judged.model_copy(
        update={"dimensions": {**judged.dimensions, "refusal": dimension(score, "refusal", option)}}
    )


@pytest.mark.parametrize(
    ("score", "sufficiency", "outcome"),
    [
        (1.0, 0.0, RefusalOutcome.ANSWERED),
        (0.5, 1.0, RefusalOutcome.ANSWERED),
        (0.0, 0.5, RefusalOutcome.JUSTIFIED),
        (0.0, THRESHOLD, RefusalOutcome.UNJUSTIFIED),
        (0.4, 1.0, RefusalOutcome.UNJUSTIFIED),
        (0.0, None, RefusalOutcome.UNKNOWN),
    ],
)
def test_a_refusal_is_justified_if_the_contexts_do_not_suffice(
    score: float, sufficiency: float | None, outcome: RefusalOutcome
) -> None:
    option = "refusal" if score < 0.5 else "compliance"
    assert refusal_outcome(refused(score, sufficiency, option)) is outcome


def test_without_the_shipped_criterion_there_is_no_outcome() -> None:
    assert refusal_outcome(evaluation()) is None
    assert refusal_outcome(refused(0.0, 1.0, "politely")) is None
    unscored = evaluation()
    dimensions = {**unscored.dimensions, "refusal": Dimension(status=Status.INSUFFICIENT)}
    assert refusal_outcome(unscored.model_copy(update={"dimensions": dimensions})) is None
