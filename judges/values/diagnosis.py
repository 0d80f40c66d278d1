"""The diagnosis: whether retrieval or generation is to blame, and whether a refusal is justified.

Both follow from verdicts on one answer.

|                         | grounded | not grounded |
| ----------------------- | -------- | ------------ |
| sufficient contexts     | good     | generation   |
| not sufficient contexts | lucky    | retrieval    |
"""

from collections.abc import Mapping
from enum import StrEnum

from judges.values.evaluation import Evaluation, Status

SUFFICIENCY = "context_sufficiency"
GROUNDEDNESS = "groundedness"
REFUSAL = "refusal"

CONTEXT_CRITERIA = frozenset({SUFFICIENCY, "context_precision", "context_recall"})
"""Criteria of the contexts, which are not about the answer."""

THRESHOLD = 0.75
"""Score from which contexts are sufficient and an answer is grounded: the best level, or a mean of judges near it."""


class DiagnosisCell(StrEnum):
    """The diagnosis of one answer."""

    GOOD = "good"
    """The contexts suffice, and the answer rests on them."""

    GENERATION = "generation"
    """The contexts suffice, but the answer claims something else."""

    LUCKY = "lucky"
    """The contexts do not suffice, but what the answer says is in them."""

    RETRIEVAL = "retrieval"
    """The contexts do not suffice, and the answer claims what is not in them."""


CELLS: Mapping[tuple[bool, bool], DiagnosisCell] = {
    (True, True): DiagnosisCell.GOOD,
    (True, False): DiagnosisCell.GENERATION,
    (False, True): DiagnosisCell.LUCKY,
    (False, False): DiagnosisCell.RETRIEVAL,
}
"""Cells by whether the contexts suffice, and whether the answer is grounded."""


class RefusalOutcome(StrEnum):
    """Whether an answer declines to answer, and whether the contexts justify it."""

    ANSWERED = "answered"
    """The answer tries to answer."""

    JUSTIFIED = "justified"
    """It declines, and the contexts do not suffice."""

    UNJUSTIFIED = "unjustified"
    """It declines, although the contexts suffice."""

    UNKNOWN = "unknown"
    """It declines, and the contexts have no score for sufficiency."""


# The options of the shipped criterion; another criterion of that name may mean something else.
_REFUSAL_OPTIONS = frozenset({"refusal", "compliance"})
_MAJORITY = 0.5


def refusal_outcome(evaluation: Evaluation) -> RefusalOutcome | None:
    """Return whether the answer is a refusal, and a justified one; None without a score of the shipped criterion."""
    dimension, score = evaluation.dimensions.get(REFUSAL), score_of(evaluation, REFUSAL)
    if dimension is None or score is None:
        return None
    if _REFUSAL_OPTIONS.isdisjoint({dimension.option, *(verdict.option for verdict in dimension.judges)}):
        return None
    if score >= _MAJORITY:
        return RefusalOutcome.ANSWERED
    sufficiency = score_of(evaluation, SUFFICIENCY)
    if sufficiency is None:
        return RefusalOutcome.UNKNOWN
    return RefusalOutcome.UNJUSTIFIED if sufficiency >= THRESHOLD else RefusalOutcome.JUSTIFIED


def diagnose(evaluation: Evaluation) -> DiagnosisCell | None:
    """Return the cell of an evaluation; None without a score for sufficiency or for groundedness."""
    sufficiency, groundedness = (score_of(evaluation, name) for name in (SUFFICIENCY, GROUNDEDNESS))
    if sufficiency is None or groundedness is None:
        return None
    return CELLS[sufficiency >= THRESHOLD, groundedness >= THRESHOLD]


def score_of(evaluation: Evaluation, criterion: str) -> float | None:
    """Return the score of a criterion; None if it was not judged, or has no score."""
    dimension = evaluation.dimensions.get(criterion)
    return None if dimension is None or dimension.status is not Status.SCORED else dimension.score
