"""Metrics of the pipeline: records in, their outcome in each stage, and the backlog."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge

from judges.models.flow import FlowState
from judges.values.evaluation import Evaluation, EvaluatorInfo
from sinks.base import Outcome, Stage
from sinks.metrics import names
from sinks.metrics.bounded_labels import MAX_APPS, app_label
from sinks.metrics.budgets import BudgetMetrics, BudgetStanding
from sinks.metrics.endpoints import EndpointMetrics
from sinks.metrics.verdicts import VerdictMetrics


class PipelineMetrics:
    """Metrics of the pipeline and of the judges' work, fed by the sampler and the workers after each commit."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._records = Counter(
            names.RECORDS,
            "Records by stage, outcome and, where there is one, reason.",
            ["stage", "outcome", "reason"],
            registry=registry,
        )
        self._notices = Counter(
            names.CRITICAL_NOTICES, "Safety notices delivered to the critical topic.", registry=registry
        )
        self._id_conflicts = Counter(
            names.ID_CONFLICTS,
            "Records judged under a new id, because their id was already used for other content.",
            registry=registry,
        )
        self._in_flight = Gauge(names.IN_FLIGHT, "Records in flight.", registry=registry)
        self._parked = Gauge(names.PARKED, "Records waiting for a retry.", registry=registry)
        self._lag = Gauge(names.LAG, "Records waiting to be read by a stage.", ["stage"], registry=registry)
        self._paused = Gauge(
            names.JUDGE_PAUSED,
            "1 while a judge is paused because its endpoint refuses calls.",
            ["judge"],
            registry=registry,
        )
        self._registry = registry
        self._budgets: BudgetMetrics | None = None
        self._endpoints: EndpointMetrics | None = None
        self._evaluator = Gauge(
            names.EVALUATOR_INFO,
            "Evaluator of this process: results with the same fingerprint are comparable.",
            ["fingerprint", "version"],
            registry=registry,
        )
        self._verdicts = VerdictMetrics(registry)
        self.waiting_again = 0
        """Records waiting for a retry, as last reported."""

    def count(self, stage: Stage, outcome: Outcome, number: int = 1, *, reason: str | None = None) -> None:
        """Count records; the reason is for dead letters and missing scores.

        Stages count records as consumed last, so that whoever reads that number finds their outcomes counted.
        """
        self._records.labels(stage.value, outcome.value, reason or "").inc(number)

    def read_count(self, stage: Stage, outcome: Outcome) -> int:
        """Read the current count over all reasons, as in a scrape."""
        samples = (s for metric in self._records.collect() for s in metric.samples if s.name.endswith("_total"))
        wanted = {"stage": stage.value, "outcome": outcome.value}
        return int(sum(sample.value for sample in samples if wanted.items() <= sample.labels.items()))

    def judge_latency_ms(self) -> float | None:
        """Return the mean time of a verdict so far."""
        return self._verdicts.latency_ms()

    def set_parked(self, number: int) -> None:
        self.waiting_again = number
        self._parked.set(number)

    def count_notice(self) -> None:
        self._notices.inc()

    def count_id_conflict(self) -> None:
        self._id_conflicts.inc()

    def in_flight(self, number: int) -> None:
        self._in_flight.set(number)

    def lag(self, stage: Stage, records: int) -> None:
        self._lag.labels(stage.value).set(records)

    def evaluator(self, info: EvaluatorInfo) -> None:
        self._evaluator.labels(info.fingerprint, info.version).set(1)

    def set_paused(self, judges: Iterable[str], paused: Collection[str]) -> None:
        """Set for all judges whether they are paused now."""
        for judge in judges:
            self._paused.labels(judge).set(judge in paused)

    def endpoints(self, states: Mapping[str, FlowState]) -> None:
        """Show the flow control in front of each endpoint."""
        if states and self._endpoints is None:
            self._endpoints = EndpointMetrics(self._registry)
        if self._endpoints is not None:
            self._endpoints.show(states)

    def spending(self, standing: Sequence[BudgetStanding], *, refused: int, excess_usd: float) -> None:
        """Show the budgets, the calls refused by them, and cost beyond reservations, both since the start."""
        if standing and self._budgets is None:
            self._budgets = BudgetMetrics(self._registry)
        if self._budgets is not None:
            self._budgets.show(standing, refused=refused, excess_usd=excess_usd)

    def count_evaluation(self, evaluation: Evaluation, *, published: bool = True) -> None:
        """Count an evaluation's verdicts and times; its judges and criteria are those of the configuration.

        It is not published if its record is parked or dead-lettered.
        """
        self._verdicts.count(evaluation, published=published)


SPAN_OUTCOMES = ("kept", "repeated", "late", "known", "sampled_out", "own", "invalid")
TRACE_OUTCOMES = ("assembled", "unrelated", "no_root", "no_question", "no_answer", "too_large", "evicted")


class AssemblerMetrics:
    """Spans and traces of an assembler, counted after each commit."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._spans = Counter(
            names.ASSEMBLER_SPANS,
            "Spans by outcome: kept, repeated, late, known, sampled_out, own or invalid.",
            ["outcome"],
            registry=registry,
        )
        self._traces = Counter(
            names.ASSEMBLER_TRACES,
            "Finished traces by outcome; for assembled ones, an interaction was written.",
            ["outcome"],
            registry=registry,
        )
        self._open = Gauge(names.ASSEMBLER_OPEN_TRACES, "Traces that are not finished yet.", registry=registry)
        self.count(dict.fromkeys(SPAN_OUTCOMES, 0), dict.fromkeys(TRACE_OUTCOMES, 0))

    def count(self, spans: Mapping[str, int], traces: Mapping[str, int]) -> None:
        """Count spans and traces by outcome."""
        for counter, numbers in ((self._spans, spans), (self._traces, traces)):
            for outcome, number in numbers.items():
                counter.labels(outcome).inc(number)

    def set_open(self, number: int) -> None:
        self._open.set(number)


class SamplingMetrics:
    """The sampler's decisions by rule and app. If no rule reads the app, it is unknown."""

    def __init__(self, registry: CollectorRegistry, *, apps: int = MAX_APPS, reserved: Iterable[str] = ()) -> None:
        self._apps = app_label(apps, reserved)
        self._decided = Counter(
            names.SAMPLING,
            "Records by sampling rule, app (if it was read) and outcome.",
            ["rule", "app", "outcome"],
            registry=registry,
        )
        self._apps.attach("app", self._decided)

    def count(self, rule: str, app: str | None, outcome: Outcome, number: int) -> None:
        what = "invalid" if outcome is Outcome.DEADLETTER else outcome.value
        self._decided.labels(rule, self._apps.count(app, number), what).inc(number)
