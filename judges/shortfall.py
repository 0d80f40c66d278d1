"""Reasons for a missing score: their names in reports, and whether a retry may help."""

from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

from judges.criteria.criterion import SAFETY_DIMENSION
from judges.values.evaluation import CompositeStatus, Dimension, Evaluation, JudgeVerdict, Reason, Status


class Unscored(StrEnum):
    """Why a judged interaction has no composite, as reports name it."""

    JUDGES_UNAVAILABLE = "judges_unavailable"
    TIMEOUT = "timeout"
    BUDGET = "budget"
    INSUFFICIENT = "insufficient"
    NOT_APPLICABLE = "not_applicable"


_TRANSIENT = {Reason.UNAVAILABLE: Unscored.JUDGES_UNAVAILABLE, Reason.TIMEOUT: Unscored.TIMEOUT}


class Shortfall(NamedTuple):
    """The reason and detail of a missing score."""

    reason: Reason
    detail: str


def shortfall_of(evaluation: Evaluation, safety: str = SAFETY_DIMENSION) -> Shortfall | None:
    """Return the most common reason of the missing verdicts; if safety is unknown, of those about safety."""
    missing = {
        name: dimension for name, dimension in evaluation.dimensions.items() if dimension.status is Status.INSUFFICIENT
    }
    if evaluation.composite.status is CompositeStatus.SAFETY_UNKNOWN and safety in missing:
        missing = {safety: missing[safety]}
    shortfalls = [shortfall for dimension in missing.values() for shortfall in _shortfalls(dimension)]
    if not shortfalls:
        return None
    [(most, _)] = Counter(shortfall.reason for shortfall in shortfalls).most_common(1)
    return next(shortfall for shortfall in shortfalls if shortfall.reason is most)


def _shortfalls(dimension: Dimension) -> Iterator[Shortfall]:
    """Yield the shortfalls of the judges, which say more than that of the panel.

    If the finding was withheld because texts were truncated, yield that of the panel: a retry would change nothing.
    """
    is_cut = dimension.reason is Reason.TRUNCATED
    failed = () if is_cut else tuple(verdict for verdict in dimension.judges if verdict.status is Status.INSUFFICIENT)
    parts: Sequence[JudgeVerdict | Dimension] = failed or (dimension,)
    for part in parts:
        if part.reason is not None:
            yield Shortfall(part.reason, part.detail or "")


def retry_reason(evaluation: Evaluation) -> Unscored | None:
    """Return why a retry may supply missing verdicts, with or without a composite; None if it cannot."""
    reasons = Counter(shortfall.reason for dimension in _missing(evaluation) for shortfall in _shortfalls(dimension))
    return next((_TRANSIENT[reason] for reason, _ in reasons.most_common() if reason in _TRANSIENT), None)


def unscored_reason(evaluation: Evaluation) -> Unscored | None:
    """Return why there is no composite, or None if there is one; reasons that a retry may resolve come first."""
    if evaluation.composite.score is not None:
        return None
    transient, missing = retry_reason(evaluation), _missing(evaluation)
    if transient is not None:
        return transient
    if any(shortfall.reason is Reason.BUDGET for dimension in missing for shortfall in _shortfalls(dimension)):
        return Unscored.BUDGET
    return Unscored.INSUFFICIENT if missing else Unscored.NOT_APPLICABLE


def _missing(evaluation: Evaluation) -> list[Dimension]:
    return [dimension for dimension in evaluation.dimensions.values() if dimension.status is Status.INSUFFICIENT]
