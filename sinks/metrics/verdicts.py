"""Metrics of judges: their verdicts, times, tokens, cost and agreement."""

from functools import cache

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Summary

from judges.values.evaluation import Dimension, Evaluation, JudgeVerdict, Reason, Status
from sinks.metrics import names
from sinks.metrics.exemplars import exemplar_of

# From the rules of a local judge to the longest configurable timeout of a call.
_SECONDS = (0.01, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0, 600.0)


class VerdictMetrics:
    """The work of the judges, whether or not its result was published: it was done and paid for.

    For a share, both parts exist from the start: in PromQL, a division by a missing series has no result.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, what: str, *labels: str) -> Counter:
            return Counter(name, what, labels, registry=registry)

        self._verdicts = counter(
            names.JUDGE_VERDICTS,
            "Verdicts requested from judges, by status (scored, insufficient, not_applicable) and reason for a "
            "missing score.",
            "judge",
            "criterion",
            "status",
            "reason",
        )
        self._samples = counter(names.JUDGE_SAMPLES, "Single answers of judges, by outcome.", "judge", "outcome")
        self._tokens = counter(names.JUDGE_TOKENS, "Prompt and completion tokens of judges.", "judge", "kind")
        self._cost = counter(names.JUDGE_COST_USD, "Cost of judges in US dollars, where known.", "judge")
        self._cached = counter(names.JUDGE_CACHED, "Verdicts taken from the cache.", "judge")
        self._suspect = counter(
            names.JUDGE_SUSPECT_VERDICTS, "Verdicts that may repeat an instruction from the judged text.", "judge"
        )
        self._redacted = counter(
            names.REDACTIONS, "Values redacted before they were sent to judges' endpoints, by kind.", "kind"
        )
        self._repairs = counter(names.JUDGE_REPAIRS, "Repair calls for unreadable answers.", "judge")
        self._retries = counter(names.JUDGE_RETRIES, "Calls retried because an endpoint failed.", "judge")
        self._positions = counter(
            names.POSITION_CHECKS,
            "Verdicts requested in both orders of the options, by whether they agreed.",
            "judge",
            "result",
        )
        self._saved = counter(
            names.JUDGE_CALLS_SAVED,
            "Samples not requested because the outcome was already decided.",
            "criterion",
        )
        self._paths = counter(
            names.CASCADE_PATHS,
            "Results of a cascade: from its first judges, or from the full panel and why.",
            "criterion",
            "path",
        )
        self._unscored = counter(
            names.DIMENSIONS_UNSCORED,
            "Dimensions of published evaluations with a missing score, by reason.",
            "criterion",
            "reason",
        )
        self._panel(registry)
        self._times(registry)
        # Cached, because an evaluation has many verdicts and is counted between two polls of the worker.
        self._answers = cache(self._answers_of)

    def _panel(self, registry: CollectorRegistry) -> None:
        self._agreement = Summary(
            names.PANEL_AGREEMENT, "Share of judge pairs that agree.", ["criterion"], registry=registry
        )
        self._spread = Summary(
            names.PANEL_SPREAD,
            "Largest minus smallest score of the judges of a panel.",
            ["criterion"],
            registry=registry,
        )
        self._votes = Gauge(
            names.PANEL_EFFECTIVE_VOTES,
            "Number of independent judges that the panel is equivalent to, latest estimate.",
            ["criterion"],
            registry=registry,
        )

    def _times(self, registry: CollectorRegistry) -> None:
        self._judge_seconds = Histogram(
            names.JUDGE_SECONDS,
            "Duration of one verdict by a judge.",
            ["judge"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._evaluation_seconds = Histogram(
            names.EVALUATION_SECONDS, "Duration of one evaluation.", buckets=_SECONDS, registry=registry
        )

    def count(self, evaluation: Evaluation, *, published: bool) -> None:
        self._evaluation_seconds.observe(evaluation.latency_ms / 1000, exemplar_of(evaluation))
        for criterion, dimension in evaluation.dimensions.items():
            self._count_finding(criterion, dimension)
            if published and dimension.status is Status.INSUFFICIENT:
                self._unscored.labels(criterion, _reason_label(dimension.reason)).inc()
            for verdict in dimension.judges:
                self._verdicts.labels(
                    verdict.judge, criterion, verdict.status.value, _reason_label(verdict.reason)
                ).inc()
                if _was_worked_on(verdict):
                    self._judge_seconds.labels(verdict.judge).observe(verdict.latency_ms / 1000)
                self._count_answers(verdict)
                self._count_price(verdict)

    def latency_ms(self) -> float | None:
        """Return the mean time of a verdict so far."""
        samples = [sample for metric in self._judge_seconds.collect() for sample in metric.samples]
        verdicts = sum(sample.value for sample in samples if sample.name.endswith("_count"))
        seconds = sum(sample.value for sample in samples if sample.name.endswith("_sum"))
        return 1000 * seconds / verdicts if verdicts else None

    def _count_finding(self, criterion: str, dimension: Dimension) -> None:
        self._saved.labels(criterion).inc(dimension.calls_saved)
        if dimension.path is not None:
            self._paths.labels(criterion, dimension.path.value).inc()
        if dimension.agreement is not None:
            self._agreement.labels(criterion).observe(dimension.agreement)
        if dimension.spread is not None:
            self._spread.labels(criterion).observe(dimension.spread)
        if dimension.effective_votes is not None:
            self._votes.labels(criterion).set(dimension.effective_votes)

    def _count_answers(self, verdict: JudgeVerdict) -> None:
        judge = verdict.judge
        self._cached.labels(judge).inc(verdict.cached)
        if verdict.cached:
            return  # its cost was counted when it was made
        for field, counter in self._answers(judge).items():
            if number := getattr(verdict.samples, field):
                counter.inc(number)
        for kind, number in verdict.redacted.items():
            self._redacted.labels(kind).inc(number)
        self._suspect.labels(judge).inc(verdict.suspect)
        if verdict.position_bias is not None:
            self._positions.labels(judge, "kept").inc(not verdict.position_bias)
            self._positions.labels(judge, "flipped").inc(verdict.position_bias)

    def _answers_of(self, judge: str) -> dict[str, Counter]:
        """Return the counters of a judge, by the field of `Samples` that they sum."""
        outcomes = {outcome: self._samples.labels(judge, outcome) for outcome in ("valid", "invalid", "error", "saved")}
        return {**outcomes, "repairs": self._repairs.labels(judge), "retries": self._retries.labels(judge)}

    def _count_price(self, verdict: JudgeVerdict) -> None:
        if verdict.tokens is not None:
            self._tokens.labels(verdict.judge, "prompt").inc(verdict.tokens.prompt)
            self._tokens.labels(verdict.judge, "completion").inc(verdict.tokens.completion)
        if verdict.cost_usd is not None:
            # A custom judge may report any cost, and a counter raises on a negative one.
            self._cost.labels(verdict.judge).inc(max(0.0, verdict.cost_usd))


def _reason_label(reason: Reason | None) -> str:
    return reason.value if reason else ""


def _was_worked_on(verdict: JudgeVerdict) -> bool:
    """Return whether the latency is that of a working judge.

    It is not if no call was made, if the verdict came from a cache, or if there was no answer because the endpoint was
    away, refused the call or is paused: the time of such a failure says nothing about the judge. A timeout counts with
    its measured time; a panel that stops waiting does not measure it.
    """
    samples = verdict.samples
    away = verdict.reason is Reason.UNAVAILABLE and not samples.valid + samples.invalid
    return samples.requested > 0 and verdict.latency_ms > 0 and not away and not verdict.cached
