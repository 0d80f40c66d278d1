"""Prometheus metrics: what the pipeline did and what the judges found, on a registry that is passed in."""

import contextlib
import threading
from collections.abc import Iterable, Sequence
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from judges.evaluation import Dimension, Evaluation, Status
from sinks.base import COMPOSITE, Message, Sink
from sinks.estimates import Estimate

_SECONDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 45.0)
# Apps are named by the traffic; a bug upstream must not be able to fill the time series database.
_MAX_APPS = 50
_MAX_DIMENSIONS = 50
# What an interaction without an app is counted under.
UNKNOWN_APP = "unknown"
_OTHER = "other"


class Stage(StrEnum):
    SAMPLER = "sampler"
    WORKER = "worker"
    MONITOR = "monitor"


class Outcome(StrEnum):
    """What became of a record in a stage; `consumed` is their sum, counted by itself."""

    CONSUMED = "consumed"
    FILTERED = "filtered"
    SAMPLED_OUT = "sampled_out"
    SAMPLED = "sampled"
    SHED = "shed"
    SCORED = "scored"
    UNSCORED = "unscored"
    PARKED = "parked"
    """Its judges could not be reached in time; it is judged again later."""
    DEFERRED = "deferred"
    """Its app had more than its share; it is judged after the others."""
    DEADLETTER = "deadletter"
    SEEN = "seen"
    REPEATED = "repeated"
    UNREADABLE = "unreadable"


class PipelineMetrics:
    """The funnel and the judges' work, fed by the sampler and the workers after each commit."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._records = Counter(
            "streamjury_records", "Records by stage and what became of them.", ["stage", "outcome"], registry=registry
        )
        self._dead = Counter(
            "streamjury_deadletters", "Dead letters by stage and reason.", ["stage", "reason"], registry=registry
        )
        self._unscored = Counter(
            "streamjury_unscored", "Evaluations without a composite, by reason.", ["reason"], registry=registry
        )
        self._calls = Counter(
            "streamjury_judge_verdicts",
            "Verdicts asked of judges, by status (scored, insufficient, not_applicable) and why there is no score.",
            ["judge", "criterion", "status", "reason"],
            registry=registry,
        )
        self._saved = Counter(
            "streamjury_judge_calls_saved",
            "Samples that judges were not asked for, because the outcome was decided.",
            ["criterion"],
            registry=registry,
        )
        self._paths = Counter(
            "streamjury_cascade_paths",
            "Findings of a cascade: of its first judges, or of the full panel and why.",
            ["criterion", "path"],
            registry=registry,
        )
        self._judge_seconds = Histogram(
            "streamjury_judge_seconds", "Time of one verdict.", ["judge"], buckets=_SECONDS, registry=registry
        )
        self._evaluation_seconds = Histogram(
            "streamjury_evaluation_seconds", "Time of one evaluation.", buckets=_SECONDS, registry=registry
        )
        self._notices = Counter(
            "streamjury_critical_notices", "Safety notices delivered to the critical topic.", registry=registry
        )
        self._in_flight = Gauge("streamjury_in_flight", "Records being judged now.", registry=registry)
        self._parked = Gauge("streamjury_parked", "Records waiting to be judged again.", registry=registry)
        self._lag = Gauge("streamjury_lag", "Records waiting to be read by a stage.", ["stage"], registry=registry)
        self.waiting_again = 0
        """Records waiting to be judged again, as last told."""
        self.sinks: list[Sink[Evaluation]] = []
        """What else is told of every evaluation that is counted here, and of no other: their figures add up."""

    def count(self, stage: Stage, outcome: Outcome, number: int = 1) -> None:
        self._records.labels(stage.value, outcome.value).inc(number)

    def counted(self, stage: Stage, outcome: Outcome) -> int:
        """The count so far, as a scrape would see it."""
        samples = (s for metric in self._records.collect() for s in metric.samples if s.name.endswith("_total"))
        wanted = {"stage": stage.value, "outcome": outcome.value}
        return int(next((sample.value for sample in samples if sample.labels == wanted), 0))

    def judge_latency_ms(self) -> float | None:
        """The mean time of a verdict so far."""
        samples = [sample for metric in self._judge_seconds.collect() for sample in metric.samples]
        verdicts = sum(sample.value for sample in samples if sample.name.endswith("_count"))
        seconds = sum(sample.value for sample in samples if sample.name.endswith("_sum"))
        return 1000 * seconds / verdicts if verdicts else None

    def dead_letter(self, stage: Stage, reason: str, number: int = 1) -> None:
        self._dead.labels(stage.value, reason).inc(number)

    def unscored(self, reason: str) -> None:
        self._unscored.labels(reason).inc()

    def parked(self, number: int) -> None:
        self.waiting_again = number
        self._parked.set(number)

    def critical_delivered(self) -> None:
        self._notices.inc()

    def in_flight(self, number: int) -> None:
        self._in_flight.set(number)

    def lag(self, stage: Stage, records: int) -> None:
        self._lag.labels(stage.value).set(records)

    def judged(self, evaluation: Evaluation, *, final: bool = True) -> None:
        """Counts an evaluation's verdicts and times; its judges and criteria are those of the configuration.

        One that is not final was not published, because the record is judged again.
        """
        self._evaluation_seconds.observe(evaluation.latency_ms / 1000)
        for criterion, dimension in evaluation.dimensions.items():
            self._saved.labels(criterion).inc(dimension.calls_saved)
            if dimension.path is not None:
                self._paths.labels(criterion, dimension.path.value).inc()
            for verdict in dimension.judges:
                reason = verdict.reason.value if verdict.reason else ""
                self._calls.labels(verdict.judge, criterion, verdict.status.value, reason).inc()
                self._judge_seconds.labels(verdict.judge).observe(verdict.latency_ms / 1000)
        for sink in self.sinks if final else ():
            sink.write(evaluation)


class SamplingMetrics:
    """What the sampler did with each record, by rule and app. Rules that read no app leave it unknown."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._apps = BoundedLabel(_MAX_APPS)
        self._decided = Counter(
            "streamjury_sampling",
            "Records by the rule that decided, the app where it was read, and what became of them.",
            ["rule", "app", "outcome"],
            registry=registry,
        )

    def count(self, rule: str, app: str | None, outcome: Outcome, number: int) -> None:
        what = "invalid" if outcome is Outcome.DEADLETTER else outcome.value
        self._decided.labels(rule, self._apps(app), what).inc(number)


class ScoreMetrics:
    """The sink that turns evaluations into score metrics.

    Means are design-weighted: every evaluation stands for 1 / probability interactions, so
    `rate(weighted_sum) / rate(weight)` estimates the mean over all traffic, over any window and any set of processes.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ["app", "dimension"]
        self._apps = BoundedLabel(_MAX_APPS)
        self._names = BoundedLabel(_MAX_DIMENSIONS)
        self._weighted_sum = Counter(
            "streamjury_score_weighted_sum", "Sum of score / probability.", labels, registry=registry
        )
        self._weight = Counter("streamjury_score_weight", "Sum of 1 / probability.", labels, registry=registry)
        self._squared = Counter(
            "streamjury_score_weight_squared", "Sum of 1 / probability squared.", labels, registry=registry
        )
        self._dimensions = Counter(
            "streamjury_dimension_results",
            "Results of dimensions and of the composite by status.",
            [*labels, "status"],
            registry=registry,
        )
        self._evaluations = Counter(
            "streamjury_evaluations", "Evaluations by status of the composite.", ["app", "status"], registry=registry
        )
        self._recent = {
            part: Gauge(
                f"streamjury_score_recent{suffix}",
                f"{what} over the monitor's rolling window.",
                labels,
                registry=registry,
            )
            for part, suffix, what in (
                ("mean", "", "Design-weighted mean score"),
                ("low", "_low", "Lower end of the 95 % interval of the mean score"),
                ("high", "_high", "Upper end of the 95 % interval of the mean score"),
                ("effective_size", "_effective", "Effective number of judgements (Kish)"),
                ("coverage", "_coverage", "Share of the chosen traffic that could be scored"),
            )
        }

    def write(self, item: Evaluation, /) -> Sequence[Message]:
        app = self._apps(item.app)
        weight = 1.0 / item.sampling.probability
        self._evaluations.labels(app, item.composite.status.value).inc()
        for dimension, score, status in _results(item):
            name = self._names(dimension)
            self._dimensions.labels(app, name, status).inc()
            if score is not None:
                self._weighted_sum.labels(app, name).inc(weight * score)
                self._weight.labels(app, name).inc(weight)
                self._squared.labels(app, name).inc(weight * weight)
        return ()

    def recent(self, app: str, dimension: str, found: Estimate) -> None:
        """Publishes what is known of one series; what is not, such as the interval of a single judgement, is absent."""
        labels = (self._apps(app), self._names(dimension))
        for part, gauge in self._recent.items():
            value = getattr(found, part)
            if value is None:
                _withdraw(gauge, labels)
            else:
                gauge.labels(*labels).set(value)

    def no_longer_recent(self, app: str, dimension: str) -> None:
        """Withdraws a series whose window is empty: the last value would look like a steady one."""
        for gauge in self._recent.values():
            _withdraw(gauge, (self._apps(app), self._names(dimension)))


def _withdraw(gauge: Gauge, labels: tuple[str, str]) -> None:
    with contextlib.suppress(KeyError):
        gauge.remove(*labels)


class BoundedLabel:
    """Passes the first N distinct values on and calls the rest `other`."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._seen: set[str] = set()
        self._lock = threading.Lock()

    def __call__(self, value: str | None) -> str:
        name = value or UNKNOWN_APP
        with self._lock:
            if name not in self._seen and len(self._seen) >= self._limit:
                return _OTHER
            self._seen.add(name)
        return name


def _results(evaluation: Evaluation) -> Iterable[tuple[str, float | None, str]]:
    yield COMPOSITE, evaluation.composite.score, _status(evaluation.composite.score)
    for name, dimension in evaluation.dimensions.items():
        yield name, _score(dimension), dimension.status.value


def _score(dimension: Dimension) -> float | None:
    return dimension.score if dimension.status is Status.SCORED else None


def _status(score: float | None) -> str:
    return Status.INSUFFICIENT.value if score is None else Status.SCORED.value
