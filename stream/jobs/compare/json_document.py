"""The comparison as JSON: one object with every number, or the reason why it is missing."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from stream.jobs.compare.comparison import LabelAgreement, Meeting, RowChange, SideAgreement, SideComparison
from stream.jobs.compare.detection import Detection, Ranged
from stream.jobs.compare.sides import Side

SCHEMA = "streamjury.comparison/1"


def as_object(
    sides: Sequence[Side], comparison: SideComparison | None, meetings: Sequence[Meeting], names: Sequence[str]
) -> dict[str, Any]:
    """Return the comparison as a JSON object; results of one side are under its name in `names`."""
    document: dict[str, Any] = {
        "schema_version": SCHEMA,
        "sides": {name: _side(side) for name, side in zip(names, sides, strict=True)},
        "comparison": None if comparison is None else _comparison(comparison, names),
    }
    if meetings:
        document["labels"] = {name: _meeting(meeting) for name, meeting in zip(names, meetings, strict=True)}
    return document


def _side(side: Side) -> dict[str, Any]:
    return {
        "results": str(side.path),
        "of": side.run.name,
        "input_digest": side.run.input_digest,
        "evaluator": side.run.evaluator.model_dump(mode="json"),
        "finished": side.finished,
        "rows": len(side.judged),
        "failed": side.failed,
        "not_on_scale": {name: count for name, count in side.unplaced.items() if count},
    }


def _comparison(comparison: SideComparison, names: Sequence[str]) -> dict[str, Any]:
    first, second = names
    return {
        "rows": comparison.rows,
        "only": {first: list(comparison.only_first), second: list(comparison.only_second)},
        "criteria": {agreement.name: _agreement(agreement, names) for agreement in comparison.criteria},
        "composite": None
        if comparison.composite is None
        else {"comparable": comparison.comparable, **_agreement(comparison.composite, names)},
        "statuses": [
            {first: pair[0], second: pair[1], "rows": count} for pair, count in sorted(comparison.statuses.items())
        ],
        "changed": comparison.changed,
        "changed_most": [_change(change, names) for change in comparison.most],
        "expenses": {name: asdict(expense) for name, expense in zip(names, comparison.expenses, strict=True)},
    }


def _agreement(agreement: SideAgreement, names: Sequence[str]) -> dict[str, Any]:
    first, second = names
    return {
        "rows": agreement.rows,
        "only": {first: agreement.only_first, second: agreement.only_second},
        "neither": agreement.neither,
        "classed": agreement.classed,
        "same": asdict(agreement.same),
        "kappa": asdict(agreement.kappa),
        "kappa_linear": asdict(agreement.linear),
        "kappa_quadratic": asdict(agreement.quadratic),
        "spearman": asdict(agreement.spearman),
        "mean": {first: agreement.first_mean, second: agreement.second_mean},
        "difference": asdict(agreement.difference),
    }


def _change(change: RowChange, names: Sequence[str]) -> dict[str, Any]:
    return {
        "row": change.number,
        "id": change.key.id,
        "time": change.key.time,
        "question": change.question,
        "size": change.size,
        "composite": _both(change.composite, names),
        "status": _both(change.status, names),
        "scores": {name: _both(pair, names) for name, pair in change.scores.items()},
        "options": {name: _both(pair, names) for name, pair in change.options.items()},
    }


def _both(pair: tuple[object, object], names: Sequence[str]) -> dict[str, object]:
    return dict(zip(names, pair, strict=True))


def _meeting(meeting: Meeting) -> dict[str, Any]:
    return {
        "rows": meeting.rows,
        "unmatched": list(meeting.unmatched),
        "criteria": {hit.name: _hit(hit) for hit in meeting.hits},
    }


def _hit(hit: LabelAgreement) -> dict[str, Any]:
    return {
        "labelled": hit.labelled,
        "unscored": hit.unscored,
        "not_applicable": hit.not_applicable,
        "bad": hit.bad,
        "accuracy": asdict(hit.accuracy),
        "balanced_accuracy": asdict(hit.balanced_accuracy),
        "macro_f1": asdict(hit.macro_f1),
        "bad_f1": asdict(hit.bad_f1),
        "agreement": _agreement(hit.agreement, ("people", "judged")),
        "calibration": {
            "error": asdict(hit.calibration.error),
            "bins": [asdict(part) for part in hit.calibration.bins],
        },
        "detection": None if hit.detection is None else _detection(hit.detection),
        "corrected": None if hit.corrected is None else asdict(hit.corrected) | {"bias": hit.corrected.bias},
    }


def _detection(detection: Detection) -> dict[str, Any]:
    cuts = {"a_priori": detection.a_priori, "best": detection.best}
    return {
        "rows": detection.rows,
        "bad": detection.bad,
        "auroc": _ranged(detection.auroc),
        **{
            name: {
                "below": cut.below,
                "alarms": cut.alarms,
                "precision": _ranged(cut.precision),
                "recall": _ranged(cut.recall),
                "f1": _ranged(cut.f1),
            }
            for name, cut in cuts.items()
        },
    }


def _ranged(ranged: Ranged) -> dict[str, Any]:
    return {**asdict(ranged.measure), "low": ranged.low, "high": ranged.high}
