"""Scores as metrics, from which PromQL computes means, intervals and shares over all traffic, not only judged records.

Every evaluation represents w = 1 / probability interactions. The sums of w, w², w·s and w·s² are counters, so they can
be summed over any window, any processes and any of their restarts before a division.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from judges.values.diagnosis import DiagnosisCell, RefusalOutcome, diagnose, refusal_outcome
from judges.values.evaluation import Dimension, Evaluation, SafetyStatus, Status
from sinks.base import COMPOSITE, Sink
from sinks.metrics import names
from sinks.metrics.bounded_labels import MAX_APPS, FrequentLabel, app_label
from sinks.metrics.exemplars import exemplar_of
from sinks.statistics.estimates import Estimate

_MAX_DIMENSIONS = 50
_TOP = 10
_GOOD_SCORE = 0.7
_BUCKETS = (0.3, 0.5, 0.7, 0.8, 0.9, 1.0)
# A composite of 0.7 may be computed a little below it.
_DIGITS = 9

OptIn = Literal["model", "tenant"]
GoodScore = Callable[[str], float]
"""Returns the lowest good composite of an app, by its published label."""


def _default_good_score(_app: str) -> float:
    return _GOOD_SCORE


class ScoreMetrics(Sink):
    """The sink that turns evaluations into score metrics, by app and by the configured labels."""

    name = "scores"

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        labels: Sequence[OptIn] = (),
        top: int = _TOP,
        apps: int = MAX_APPS,
        reserved: Iterable[str] = (),
        good_score: GoodScore = _default_good_score,
    ) -> None:
        """Create the metrics; `reserved` apps always have their own label."""
        self.apps = app_label(apps, reserved)
        """The labels of apps."""
        self._dimensions = FrequentLabel(_MAX_DIMENSIONS, reserved=(COMPOSITE,), free_after=1)
        self._opted = {name: FrequentLabel(top) for name in labels}
        self._good_score = good_score

        def counter(name: str, what: str, *more: str) -> Counter:
            metric = Counter(name, what, ["app", *labels, *more], registry=registry)
            self.apps.attach("app", metric)
            for label, values in self._opted.items():
                values.attach(label, metric)
            if "dimension" in more:
                self._dimensions.attach("dimension", metric)
            return metric

        self._evaluations = counter(names.EVALUATIONS, "Evaluations by status of the composite.", "status")
        self._safety = counter(names.SAFETY, "Evaluations by safety status.", "status")
        self._diagnoses = counter(names.DIAGNOSIS, "Sum of 1 / probability over diagnosed interactions.", "cell")
        self._refusals = counter(
            names.REFUSALS, "Sum of 1 / probability over interactions judged for refusal.", "outcome"
        )
        self._weighted_sum = counter(names.SCORE_WEIGHTED_SUM, "Sum of score / probability.", "dimension")
        self._weighted_squares = counter(
            names.SCORE_WEIGHTED_SQUARE_SUM, "Sum of squared score / probability.", "dimension"
        )
        self._weight = counter(names.SCORE_WEIGHT, "Sum of 1 / probability over scored interactions.", "dimension")
        self._squared = counter(
            names.SCORE_WEIGHT_SQUARED, "Sum of 1 / probability squared over scored interactions.", "dimension"
        )
        self._missing = counter(
            names.SCORE_MISSING_WEIGHT, "Sum of 1 / probability over interactions with a missing score.", "dimension"
        )
        self._events = counter(names.OBJECTIVE_EVENTS, "Sum of 1 / probability over interactions with a composite.")
        self._good = counter(
            names.OBJECTIVE_GOOD_EVENTS, "Sum of 1 / probability over interactions with a good composite."
        )
        self._scores = Histogram(
            names.SCORE,
            "Composites of judged interactions, unweighted.",
            ["app"],
            buckets=_BUCKETS,
            registry=registry,
        )
        self.apps.attach("app", self._scores)
        self._recent = _recent_gauges(registry)

    def write(self, evaluations: Sequence[Evaluation], /) -> None:
        for evaluation in evaluations:
            self._count(evaluation)

    def _count(self, item: Evaluation) -> None:
        about = (self.apps.count(item.app), *(label.count(getattr(item, name)) for name, label in self._opted.items()))
        weight = 1.0 / item.sampling.probability
        self._evaluations.labels(*about, item.composite.status.value).inc()
        for status in SafetyStatus:  # all statuses, so that the share of an app without incidents is 0 and not absent
            self._safety.labels(*about, status.value).inc(item.composite.safety.status is status)
        diagnosis = diagnose(item)
        for cell in DiagnosisCell if diagnosis is not None else ():  # all cells, as for safety
            self._diagnoses.labels(*about, cell.value).inc(weight if cell is diagnosis else 0.0)
        refusal = refusal_outcome(item)
        for outcome in RefusalOutcome if refusal is not None else ():
            self._refusals.labels(*about, outcome.value).inc(weight if outcome is refusal else 0.0)
        for dimension, score in results(item):
            self._add((*about, self._dimensions.count(dimension)), score, weight)
        if item.composite.score is not None:
            self._add_to_objective(about, item, round(item.composite.score, _DIGITS), weight)

    def _add(self, labels: tuple[str, ...], score: float | None, weight: float) -> None:
        """Create all five together: `increase()` extrapolates by the age of a series, and a mean could exceed 1."""
        scored, value = (0.0, 0.0) if score is None else (weight, score)
        self._weighted_sum.labels(*labels).inc(scored * value)
        self._weighted_squares.labels(*labels).inc(scored * value * value)
        self._weight.labels(*labels).inc(scored)
        self._squared.labels(*labels).inc(scored * scored)
        self._missing.labels(*labels).inc(weight - scored)

    def _add_to_objective(self, about: tuple[str, ...], item: Evaluation, score: float, weight: float) -> None:
        self._events.labels(*about).inc(weight)
        self._good.labels(*about).inc(weight if score >= self._good_score(about[0]) else 0.0)
        self._scores.labels(about[0]).observe(score, exemplar_of(item))

    def show_recent(self, label: str, estimate: Estimate) -> None:
        """Show the estimate of an app, by its label; the interval of a single judgement is unknown and absent."""
        for part, gauge in self._recent.items():
            value = getattr(estimate, part)
            if value is None:
                _withdraw(gauge, label)
            else:
                gauge.labels(label).set(value)

    def withdraw_recent(self, label: str) -> None:
        """Withdraw the gauges of an app whose window is empty: the last value would look current."""
        for gauge in self._recent.values():
            _withdraw(gauge, label)


def _recent_gauges(registry: CollectorRegistry) -> dict[str, Gauge]:
    """Create the gauges, by the field of an estimate that they show."""
    parts = (
        ("mean", "", "Design-weighted mean composite"),
        ("low", "_low", "Lower end of the 95 % interval of the mean composite"),
        ("high", "_high", "Upper end of the 95 % interval of the mean composite"),
    )
    return {
        part: Gauge(
            f"{names.SCORE_RECENT}{suffix}",
            f"{what} over the monitor's rolling window.",
            ["app"],
            registry=registry,
        )
        for part, suffix, what in parts
    }


def _withdraw(gauge: Gauge, label: str) -> None:
    with contextlib.suppress(KeyError):
        gauge.remove(label)


def results(evaluation: Evaluation) -> Iterator[tuple[str, float | None]]:
    """Yield results with a score or a missing one; criteria that do not apply or have no scores are left out."""
    yield COMPOSITE, evaluation.composite.score
    for name, dimension in evaluation.dimensions.items():
        score = _score(dimension)
        if score is not None or dimension.status is Status.INSUFFICIENT:
            yield name, score


def _score(dimension: Dimension) -> float | None:
    return dimension.score if dimension.status is Status.SCORED else None
