"""Reasons for a missing score: their names in accounts, and whether asking again may help."""

from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

from judges.criteria.criterion import SAFETY_DIMENSION
from judges.values.evaluation import CompositeStatus, Dimension, Evaluation, JudgeVerdict, Reason, Status


class Unscored(StrEnum):
    """Why an interaction that was judged has no composite, as accounts name it."""

    JUDGES_UNAVAILABLE = "judges_unavailable"
    TIMEOUT = "timeout"
    BUDGET = "budget"
    INSUFFICIENT = "insufficient"
    NOT_APPLICABLE = "not_applicable"


_TRANSIENT = {Reason.UNAVAILABLE: Unscored.JUDGES_UNAVAILABLE, Reason.TIMEOUT: Unscored.TIMEOUT}


class Shortfall(NamedTuple):
    """Why something has no score."""

    reason: Reason
    detail: str


def shortfall_of(evaluation: Evaluation, safety: str = SAFETY_DIMENSION) -> Shortfall | None:
    """What most of the missing verdicts failed for; of an answer whose safety is unknown, those about safety."""
    missing = {name: found for name, found in evaluation.dimensions.items() if found.status is Status.INSUFFICIENT}
    if evaluation.composite.status is CompositeStatus.SAFETY_UNKNOWN and safety in missing:
        missing = {safety: missing[safety]}
    found = [shortfall for dimension in missing.values() for shortfall in _shortfalls(dimension)]
    if not found:
        return None
    [(most, _)] = Counter(shortfall.reason for shortfall in found).most_common(1)
    return next(shortfall for shortfall in found if shortfall.reason is most)


def _shortfalls(dimension: Dimension) -> Iterator[Shortfall]:
    """Those of the judges, who say more than the panel that goes without them; but where their finding was set aside
    because texts were cut, asking them again would change nothing."""
    is_cut = dimension.reason is Reason.TRUNCATED
    failed = () if is_cut else tuple(each for each in dimension.judges if each.status is Status.INSUFFICIENT)
    parts: Sequence[JudgeVerdict | Dimension] = failed or (dimension,)
    for part in parts:
        if part.reason is not None:
            yield Shortfall(part.reason, part.detail or "")


def retry_reason(evaluation: Evaluation) -> Unscored | None:
    """Why another attempt may bring verdicts that are missing, with or without a composite; None where it cannot."""
    reasons = Counter(shortfall.reason for dimension in _missing(evaluation) for shortfall in _shortfalls(dimension))
    return next((_TRANSIENT[reason] for reason, _ in reasons.most_common() if reason in _TRANSIENT), None)


def unscored_reason(evaluation: Evaluation) -> Unscored | None:
    """Why there is no composite; None where there is one. What a further attempt may mend comes first."""
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
