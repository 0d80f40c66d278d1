"""The corrected means of every app and criterion, and plans for more labels, as tables and as JSON."""

from collections.abc import Iterator
from statistics import fmean
from typing import Any

from sinks.reports.formatting import NOTHING, number
from sinks.reports.sheet import Sheet
from sinks.statistics.corrected import (
    MIN_EFFECTIVE_LABELS,
    MIN_LABELS,
    CorrectedEstimate,
    MeanInterval,
    correct,
)
from sinks.statistics.label_design import LabelPlan, plan_labels
from stream.jobs.labels.joining import JoinedLabels, SeriesKey

REPORT_SCHEMA = "streamjury.labels.report/1"
PLAN_SCHEMA = "streamjury.labels.plan/1"
UNCORRECTED = "uncorrected"
NO_LABELS = (
    "There are no labels of judged answers: send some with `streamjury labels send` if you use --since, or give a file "
    "of them with --labels"
)

Estimates = dict[SeriesKey, CorrectedEstimate]
Plans = dict[SeriesKey, LabelPlan]


def estimate_all(joined: JoinedLabels) -> Estimates:
    """Return the estimates of all series, ordered by app and criterion."""
    return {key: correct(series.sums) for key, series in sorted(joined.series.items())}


def plan_all(joined: JoinedLabels, width: float) -> Plans:
    return {key: plan_labels(width, series.others, series.labelled) for key, series in sorted(joined.series.items())}


def report_sheets(joined: JoinedLabels, estimates: Estimates) -> Iterator[Sheet]:
    """Yield the corrected means, and the feedback of users if there is any."""
    rows = [
        (
            *key,
            f"{estimate.judged:,}",
            f"{estimate.labels:,}",
            number(estimate.judge_mean),
            number(estimate.corrected.mean) if estimate.corrected else UNCORRECTED,
            _range(estimate.corrected),
            _range(estimate.labels_alone),
            NOTHING if estimate.bias is None else f"{estimate.bias:+.3f}",
        )
        for key, estimate in estimates.items()
    ]
    headings = ("app", "criterion", "judged", "labels", "judges", "corrected", "95 % interval", "labels alone", "bias")
    yield Sheet(
        title="Means corrected by labels",
        headings=headings,
        rows=tuple(rows),
        notes=tuple(_notes(joined)),
        words=frozenset({0, 1}),
    )
    if joined.feedback:
        yield _feedback_sheet(joined)


def _notes(joined: JoinedLabels) -> Iterator[str]:
    ignored = [
        f"Labels that {reason}: {count:,}."
        for count, reason in (
            (joined.not_random, "were not chosen at random and correct no mean"),
            (joined.unscored, "are about answers that the judges gave no score"),
            (joined.impossible, "have a larger probability than that of being sampled, and are ignored"),
            (joined.unmatched, "are about interactions without an evaluation here"),
        )
        if count
    ]
    if not ignored and not any(series.labelled for series in joined.series.values()):
        yield f"{NO_LABELS}."
    yield (
        f"bias: the judges' mean minus the corrected one. {UNCORRECTED}: fewer than {MIN_LABELS} labels, or a few of "
        f"them weigh so much that together they carry less information than {MIN_EFFECTIVE_LABELS} equal ones."
    )
    yield from ignored


def _feedback_sheet(joined: JoinedLabels) -> Sheet:
    rows = [
        (*key, f"{len(series.scores):,}", number(fmean(series.scores)))
        for key, series in sorted(joined.feedback.items())
    ]
    return Sheet(
        title="Feedback of users",
        headings=("app", "series", "reactions", "mean"),
        rows=tuple(rows),
        notes=("Users choose what they react to, so this mean is not that of all traffic.",),
        words=frozenset({0, 1}),
    )


def plan_sheet(plans: Plans, width: float) -> Sheet:
    rows = [
        (
            *key,
            f"{plan.known:,}",
            NOTHING if plan.labels is None else f"{plan.labels:,}",
            NOTHING if plan.random_labels is None else f"{plan.random_labels:,}",
            f"{plan.labels_alone:,}",
            NOTHING if plan.saved is None else f"{plan.saved:+.0%}",
        )
        for key, plan in plans.items()
    ]
    return Sheet(
        title=f"Labels for a 95 % interval of width {width:g}",
        headings=("app", "criterion", "labels so far", "needed", "random queue", "labels alone", "saved"),
        rows=tuple(rows),
        notes=(
            f"With fewer than {MIN_LABELS} labels so far, the number is that of the worst case.",
            f"needed {NOTHING}: the judged answers are too few for this width; judge more of the traffic.",
        ),
        words=frozenset({0, 1}),
    )


def report_object(joined: JoinedLabels, estimates: Estimates) -> dict[str, Any]:
    """Return the report for programs."""
    return {
        "schema_version": REPORT_SCHEMA,
        "series": [
            {
                **key._asdict(),
                "judged": estimate.judged,
                "labels": estimate.labels,
                "effective_labels": estimate.effective_labels,
                "status": UNCORRECTED if estimate.corrected is None else "corrected",
                "judge_mean": estimate.judge_mean,
                "corrected": _interval_object(estimate.corrected),
                "labels_alone": _interval_object(estimate.labels_alone),
                "bias": estimate.bias,
                "tuning": estimate.tuning,
            }
            for key, estimate in estimates.items()
        ],
        "feedback": [
            {**key._asdict(), "reactions": len(series.scores), "mean": fmean(series.scores)}
            for key, series in sorted(joined.feedback.items())
        ],
        "ignored": {
            "not_random": joined.not_random,
            "unscored": joined.unscored,
            "impossible_probability": joined.impossible,
            "unmatched": joined.unmatched,
        },
    }


def plan_object(plans: Plans, width: float) -> dict[str, Any]:
    """Return the plan for programs."""
    return {
        "schema_version": PLAN_SCHEMA,
        "width": width,
        "confidence": 0.95,
        "series": [
            {
                **key._asdict(),
                "known": plan.known,
                "needed": plan.labels,
                "random_queue": plan.random_labels,
                "labels_alone": plan.labels_alone,
                "saved": plan.saved,
            }
            for key, plan in plans.items()
        ],
    }


def _range(interval: MeanInterval | None) -> str:
    return NOTHING if interval is None else f"{number(interval.low)} – {number(interval.high)}"


def _interval_object(interval: MeanInterval | None) -> dict[str, float] | None:
    return None if interval is None else {"mean": interval.mean, "low": interval.low, "high": interval.high}
