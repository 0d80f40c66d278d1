"""How well each judge agrees with people, as a table and as JSON."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from sinks.base import UNKNOWN
from sinks.reports.formatting import NOTHING, number
from sinks.reports.sheet import Sheet
from sinks.statistics.judge_quality import JudgeQuality, RangedShare
from sinks.statistics.measured_judges import Attribute, JudgedSeries

JUDGES_SCHEMA = "streamjury.labels.judges/1"


def judges_sheet(measured: Mapping[JudgedSeries, JudgeQuality], by: Attribute | None) -> Sheet:
    rows = [
        (
            key.judge,
            key.criterion,
            *(() if by is None else (key.value or UNKNOWN,)),
            f"{quality.labels:,}",
            *(_cell(figure, signed=name == "bias") for name, figure in quality.figures.items()),
        )
        for key, quality in measured.items()
    ]
    named = ("judge", "criterion", *(() if by is None else (by,)))
    return Sheet(
        title="Judges and people",
        headings=(*named, "labels", "sensitivity", "specificity", "weighted kappa", "bias"),
        rows=tuple(rows),
        notes=(
            "sensitivity: share of the answers below the middle of the scale that the judge finds; specificity: share "
            "of the others that it passes; bias: its score minus the label. In parentheses: 95 % intervals.",
        ),
        words=frozenset(range(len(named))),
    )


def judges_object(measured: Mapping[JudgedSeries, JudgeQuality], by: Attribute | None) -> dict[str, Any]:
    """Return the measures for programs."""
    return {
        "schema_version": JUDGES_SCHEMA,
        "by": by,
        "confidence": 0.95,
        "judges": [
            {
                **key._asdict(),
                "labels": quality.labels,
                **{name: asdict(figure) for name, figure in quality.figures.items()},
            }
            for key, quality in measured.items()
        ],
    }


def _cell(figure: RangedShare, *, signed: bool) -> str:
    if figure.value is None:
        return NOTHING
    show = _signed if signed else number
    value = show(figure.value)
    return value if figure.low is None or figure.high is None else f"{value} ({show(figure.low)} – {show(figure.high)})"


def _signed(value: float) -> str:
    return f"{value:+.3f}"
