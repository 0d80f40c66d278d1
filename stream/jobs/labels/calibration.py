"""Proposes weights of the judges, and limits of a cascade at which a first judge agrees with people often enough."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Any, NamedTuple

from judges.values.evaluation import Evaluation, JudgeVerdict
from judges.values.label import Label
from sinks.reports.formatting import NOTHING, number, percent
from sinks.reports.sheet import Sheet
from sinks.statistics.fixed_sequence import Limit, loosest_limit
from sinks.statistics.labelled_answers import labelled_verdicts

CALIBRATION_SCHEMA = "streamjury.calibration/1"

_AGREEMENTS = tuple(step / 20 for step in range(20, -1, -1))
_MARGINS = tuple(step / 20 for step in range(10, -1, -1))
# In floating point 0.65 - 0.5 is a little more than 0.15.
_ROUNDING = 1e-9


class LabelledVerdict(NamedTuple):
    score: float
    confidence: float | None
    """Agreement of the judge's samples or its certainty, whichever is less; None without both."""
    label: float


class Proposal(NamedTuple):
    """A limit of a cascade that begins with one judge."""

    key: str
    """`min_agreement` or `margin`."""
    limit: Limit | None
    """None if the labels support no limit."""
    labels: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeCalibration:
    """What the labels say about one judge, by one criterion."""

    judge: str
    criterion: str
    labels: int
    agreed: int
    weight: float
    proposals: tuple[Proposal, ...]


def calibrate_judges(
    evaluations: Iterable[Evaluation],
    labels: Iterable[Label],
    *,
    target: float,
    miss: float = 0.05,
    threshold: float = 0.5,
) -> list[JudgeCalibration]:
    """Calibrate every judge by every labelled criterion.

    A judge agrees with people if both are on the same side of the threshold. Both proposals for a judge reach the
    target together with a probability of at least 1 − `miss`.
    """
    rows: dict[tuple[str, str], list[LabelledVerdict]] = defaultdict(list)
    for _evaluation, criterion, verdict, human in labelled_verdicts(evaluations, labels):
        assert verdict.score is not None
        rows[criterion, verdict.judge].append(LabelledVerdict(verdict.score, _confidence(verdict), human.score))
    return [
        _calibrate(judge, criterion, verdicts, target=target, miss=miss, threshold=threshold)
        for (criterion, judge), verdicts in sorted(rows.items())
    ]


def _calibrate(
    judge: str, criterion: str, rows: Sequence[LabelledVerdict], *, target: float, miss: float, threshold: float
) -> JudgeCalibration:
    agreed = sum(_agrees(row, threshold) for row in rows)
    # Log-odds of being right, as if one more label had agreed and one had not; useless judges have no weight.
    share = (agreed + 1) / (len(rows) + 2)
    proposals = (
        Proposal(key, loosest_limit(list(limits), target, miss / 2.0), len(rows))
        for key, limits in (
            ("min_agreement", _agreement_limits(rows, threshold)),
            ("margin", _margin_limits(rows, threshold)),
        )
    )
    return JudgeCalibration(
        judge=judge,
        criterion=criterion,
        labels=len(rows),
        agreed=agreed,
        weight=max(0.0, log(share / (1.0 - share))),
        proposals=tuple(proposals),
    )


def _agreement_limits(rows: Sequence[LabelledVerdict], threshold: float) -> Iterator[Limit]:
    is_measured = any(row.confidence is not None for row in rows)
    for value in _AGREEMENTS if is_measured else ():
        # A cascade does not doubt a verdict without a measure.
        kept = [row for row in rows if row.confidence is None or row.confidence >= value]
        yield Limit(value, len(kept), sum(_agrees(row, threshold) for row in kept))


def _margin_limits(rows: Sequence[LabelledVerdict], threshold: float) -> Iterator[Limit]:
    for value in _MARGINS:
        kept = [row for row in rows if abs(row.score - threshold) > value + _ROUNDING]
        yield Limit(value, len(kept), sum(_agrees(row, threshold) for row in kept))


def _agrees(row: LabelledVerdict, threshold: float) -> bool:
    return (row.score >= threshold) == (row.label >= threshold)


def _confidence(verdict: JudgeVerdict) -> float | None:
    return min((measure for measure in (verdict.agreement, verdict.certainty) if measure is not None), default=None)


def calibration_sheet(calibrations: Sequence[JudgeCalibration], target: float, miss: float) -> Sheet:
    rows = [
        (
            calibration.criterion,
            calibration.judge,
            f"{calibration.labels:,}",
            percent(round(calibration.agreed / calibration.labels, 3)),
            f"{calibration.weight:.2f}",
            *(cell for proposal in calibration.proposals for cell in _cells(proposal)),
        )
        for calibration in calibrations
    ]
    return Sheet(
        title=f"Judges that agree with people on {percent(target)} of the answers",
        headings=("criterion", "judge", "labels", "agrees", "weight", "min_agreement", "decides", "margin", "decides"),
        rows=tuple(rows),
        notes=(
            "weight: for judges.weights with combine: weighted. min_agreement, or margin with min_agreement 0: for "
            "judges.cascade, if this judge is asked first; decides: share of the labelled answers it then decides.",
            f"The agreement of the decided answers is below the target with a probability of at most {percent(miss)}, "
            f"for answers like the labelled ones. {NOTHING}: no limit reaches the target with this many labels.",
        ),
        words=frozenset({0, 1}),
    )


def _cells(proposal: Proposal) -> tuple[str, str]:
    limit = proposal.limit
    if limit is None:
        return NOTHING, NOTHING
    return number(limit.value), percent(round(limit.answers / proposal.labels, 3))


def calibration_object(calibrations: Sequence[JudgeCalibration], target: float, miss: float) -> Mapping[str, Any]:
    """Return the proposals for programs."""
    return {
        "schema_version": CALIBRATION_SCHEMA,
        "target": target,
        "miss": miss,
        "judges": [
            {
                "criterion": calibration.criterion,
                "judge": calibration.judge,
                "labels": calibration.labels,
                "agreed": calibration.agreed,
                "weight": calibration.weight,
                **{proposal.key: _proposal_object(proposal) for proposal in calibration.proposals},
            }
            for calibration in calibrations
        ],
    }


def _proposal_object(proposal: Proposal) -> dict[str, float] | None:
    return None if proposal.limit is None else proposal.limit._asdict()
