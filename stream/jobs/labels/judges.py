"""How well each judge agrees with people, by criterion, and by the answer's model family or language."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple, get_args

from judges.values.evaluation import Evaluation
from judges.values.interaction import language_of
from judges.values.label import Label
from judges.values.model_family import family_of
from sinks.base import UNKNOWN
from sinks.reports.formatting import NOTHING, number
from sinks.reports.sheet import Sheet
from sinks.statistics.difference import Difference
from sinks.statistics.judge_quality import JudgeQuality, RangedShare, judge_quality
from stream.jobs.labels.joining import labelled_verdicts

JUDGES_SCHEMA = "streamjury.labels.judges/1"
Attribute = Literal["family", "language"]
ATTRIBUTES: tuple[Attribute, ...] = get_args(Attribute)


class JudgedSeries(NamedTuple):
    judge: str
    criterion: str
    value: str | None
    """Of the attribute; None if there is none."""


def measure_judges(
    evaluations: Iterable[Evaluation], labels: Iterable[Label], by: Attribute | None = None
) -> dict[JudgedSeries, JudgeQuality]:
    """Measure every judge on the answers that reviewers labelled, whether they were chosen at random or not."""
    pairs: dict[JudgedSeries, list[tuple[float, float]]] = defaultdict(list)
    for evaluation, criterion, verdict, human in labelled_verdicts(evaluations, labels):
        value = None if by is None else _VALUES[by](evaluation)
        assert verdict.score is not None
        pairs[JudgedSeries(verdict.judge, criterion, value)].append((verdict.score, human.score))
    ordered = sorted(pairs.items(), key=lambda item: (item[0].judge, item[0].criterion, item[0].value or ""))
    return {key: judge_quality(rows) for key, rows in ordered}


def _language(evaluation: Evaluation) -> str:
    excerpt = evaluation.excerpt
    return UNKNOWN if excerpt is None else language_of(f"{excerpt.question} {excerpt.answer}")


_VALUES: Mapping[Attribute, Callable[[Evaluation], str]] = {
    "family": lambda evaluation: (family_of(evaluation.model) if evaluation.model else None) or UNKNOWN,
    "language": _language,
}


def judges_sheet(measured: Mapping[JudgedSeries, JudgeQuality], by: Attribute | None) -> Sheet:
    rows = [
        (
            key.judge,
            key.criterion,
            *(() if by is None else (key.value or UNKNOWN,)),
            f"{quality.labels:,}",
            *(_share(share) for share in (quality.sensitivity, quality.specificity, quality.kappa)),
            _difference(quality.bias),
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
                **{name: _object(getattr(quality, name)) for name in ("sensitivity", "specificity", "kappa")},
                "bias": {"value": quality.bias.mean, "low": quality.bias.low, "high": quality.bias.high},
            }
            for key, quality in measured.items()
        ],
    }


def _object(share: RangedShare) -> dict[str, float | None]:
    return {"value": share.value, "low": share.low, "high": share.high}


def _share(share: RangedShare) -> str:
    if share.value is None:
        return NOTHING
    return (
        number(share.value)
        if share.low is None
        else f"{number(share.value)} ({number(share.low)} – {number(share.high)})"
    )


def _difference(bias: Difference) -> str:
    if bias.mean is None:
        return NOTHING
    return f"{bias.mean:+.3f}" if bias.low is None else f"{bias.mean:+.3f} ({bias.low:+.3f} – {bias.high:+.3f})"
