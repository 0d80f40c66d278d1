"""The comparison as JSON: one object with every number, or the reason why it is missing."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from stream.jobs.compare.comparison import LabelAgreement, Meeting, RowChange, SideAgreement, SideComparison
from stream.jobs.compare.sides import Side

SCHEMA = "streamjury.comparison/1"


def as_object(
    sides: Sequence[Side], comparison: SideComparison | None, meetings: Sequence[Meeting], names: Sequence[str]
) -> dict[str, Any]:
    """`names` are those of the sides; what is about one of them stands under its name."""
    document: dict[str, Any] = {
        "schema_version": SCHEMA,
        "sides": {name: _side(side) for name, side in zip(names, sides, strict=True)},
        "comparison": None if comparison is None else _comparison(comparison, names),
    }
    if meetings:
        document["labels"] = {name: _meeting(each) for name, each in zip(names, meetings, strict=True)}
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


def _comparison(found: SideComparison, names: Sequence[str]) -> dict[str, Any]:
    first, second = names
    return {
        "rows": found.rows,
        "only": {first: list(found.only_first), second: list(found.only_second)},
        "criteria": {each.name: _agreement(each, names) for each in found.criteria},
        "composite": None
        if found.composite is None
        else {"comparable": found.comparable, **_agreement(found.composite, names)},
        "statuses": [
            {first: pair[0], second: pair[1], "rows": count} for pair, count in sorted(found.statuses.items())
        ],
        "changed": found.changed,
        "changed_most": [_change(each, names) for each in found.most],
        "expenses": {name: asdict(each) for name, each in zip(names, found.expenses, strict=True)},
    }


def _agreement(found: SideAgreement, names: Sequence[str]) -> dict[str, Any]:
    first, second = names
    return {
        "rows": found.rows,
        "only": {first: found.only_first, second: found.only_second},
        "neither": found.neither,
        "classed": found.classed,
        "same": asdict(found.same),
        "kappa": asdict(found.kappa),
        "kappa_linear": asdict(found.linear),
        "kappa_quadratic": asdict(found.quadratic),
        "spearman": asdict(found.spearman),
        "mean": {first: found.first_mean, second: found.second_mean},
        "difference": asdict(found.difference),
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


def _meeting(found: Meeting) -> dict[str, Any]:
    return {
        "rows": found.rows,
        "unmatched": list(found.unmatched),
        "criteria": {hit.name: _hit(hit) for hit in found.hits},
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
            "bins": [asdict(each) for each in hit.calibration.bins],
        },
    }
