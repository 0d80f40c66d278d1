"""The monitor's state: watches finished evaluations, keeps rolling means, and feeds metrics and the live view.

`Monitor` is the state, without Faust; `MonitorStage` in `stream.monitor.stage` is the Faust app around it.
"""

import logging
import threading
import time
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from judges.criteria.criterion import SAFETY_DIMENSION
from judges.shortfall import shortfall_of
from judges.values.diagnosis import CONTEXT_CRITERIA
from judges.values.evaluation import MIN_PROBABILITY, CompositeStatus, Dimension, Evaluation, Reason, Status
from sinks.base import COMPOSITE, UNKNOWN, Sink, write_all
from sinks.metrics import Outcome, PipelineMetrics, ScoreMetrics, Stage, results
from stream.config.names import BACKFILL, CANARY
from stream.config.sections.stages import MonitorConfig
from stream.errors import RecordError
from stream.monitor.reading import read_evaluation
from stream.monitor.rolling_means import RollingScores, SeriesMean

log = logging.getLogger(__name__)

_RECENT = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class NotableAnswer:
    """One answer worth a look: how bad, and why."""

    interaction_id: str
    app: str
    score: float | None
    status: CompositeStatus
    dimension: str
    reason: str
    question: str
    answer: str
    at: float

    @property
    def content(self) -> tuple[str, ...]:
        """Equal for two answers with the same texts; without excerpts, only the id distinguishes them."""
        texts = (self.question, self.answer)
        return (self.app, *texts) if any(texts) else (self.app, self.interaction_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The monitor's state at one moment."""

    series: Sequence[SeriesMean]
    criteria: Sequence[str]
    """Criteria of the evaluations within the window, scored or not, in order of arrival."""

    worst: Sequence[NotableAnswer]
    incidents: Sequence[NotableAnswer]
    statuses: Counter[CompositeStatus]
    withheld: Mapping[CompositeStatus, Counter[Reason]] = field(default_factory=dict)
    """Composites without a score, by their status and the most frequent reason for missing scores."""

    coverage: Mapping[str, float] = field(default_factory=dict)
    """Share of the judged answers within the window that have a score, by criterion, over all apps. Criteria that
    applied to no answer are not listed."""


class Monitor:
    """The state of the watched series. Safe to read from another thread."""

    def __init__(
        self,
        config: MonitorConfig,
        metrics: PipelineMetrics,
        scores: ScoreMetrics,
        *,
        safety: str = SAFETY_DIMENSION,
        required: Collection[str] = (),
        least_probability: float = MIN_PROBABILITY,
    ) -> None:
        """`safety` and `required` name criteria of the composite. Records with a lower probability are refused."""
        self._least_probability = least_probability
        self._config = config
        self._metrics = metrics
        self._scores = scores
        self._safety = safety
        self._required = required
        self._criteria: dict[str, float] = {}
        self._window = config.window_minutes * 60.0
        self._rolling = RollingScores(self._window, scores.apps)
        self._recent_ids: OrderedDict[str, None] = OrderedDict()
        self._recent: deque[NotableAnswer] = deque(maxlen=_RECENT)
        self._incidents: deque[NotableAnswer] = deque(maxlen=_RECENT)
        self._statuses: Counter[CompositeStatus] = Counter()
        self._withheld: dict[CompositeStatus, Counter[Reason]] = defaultdict(Counter)
        self._published: frozenset[str] = frozenset()
        self._lock = threading.Lock()
        self.sinks: list[Sink] = [scores]

    def observe(
        self,
        value: bytes | None,
        schema: bytes | None = None,
        on_refused: Callable[[RecordError], None] = lambda _error: None,
    ) -> Evaluation | None:
        """Take one record of the evaluations topic with its version; return the evaluation, or None.

        Duplicates are recognised. Records that cannot be used raise nothing: `on_refused` is called with the error.
        Backfilled history and canaries are counted and left out, because they say nothing about live traffic.
        """
        try:
            evaluation = read_evaluation(value, schema, least_probability=self._least_probability)
        except RecordError as error:
            log.warning("rejected an evaluation: %s", error)
            self.count_refused(error)
            on_refused(error)
            return None
        self._take(evaluation)
        return evaluation

    def _take(self, evaluation: Evaluation) -> None:
        if evaluation.sampling.lane in {BACKFILL, CANARY}:
            self._count(Outcome.FILTERED)
        elif not self._is_new(evaluation.evaluation_id):
            self._count(Outcome.REPEATED)
        else:
            write_all(self.sinks, evaluation)  # the metrics decide which apps have a label
            with self._lock:
                self._remember(evaluation)
            self._count(Outcome.SEEN)

    def count_refused(self, error: RecordError) -> None:
        """Count a record of one of our own topics that becomes a dead letter."""
        self._count(Outcome.DEADLETTER, error.kind)

    def snapshot(self) -> Snapshot:
        now = time.time()
        with self._lock:
            series = list(self._rolling.means(now))
            coverage = self._rolling.coverage(now)
            self._criteria = {name: at for name, at in self._criteria.items() if at > now - self._window}
            criteria = list(self._criteria)
            fresh = [finding for finding in self._recent if finding.at > now - self._window]
            incidents, statuses = list(self._incidents), Counter(self._statuses)
            withheld = {status: Counter(reasons) for status, reasons in self._withheld.items()}
        # The same answer to the same question is one finding, however often it was given.
        worst: dict[tuple[str, ...], NotableAnswer] = {}
        for finding in sorted(fresh, key=lambda finding: (finding.score or 0.0, -finding.at)):
            worst.setdefault(finding.content, finding)
        return Snapshot(
            series=series,
            criteria=criteria,
            worst=list(worst.values())[: self._config.worst],
            incidents=incidents,
            statuses=statuses,
            withheld=withheld,
            coverage=coverage,
        )

    def report_lag(self, records: int) -> None:
        """Publish how many records are waiting to be observed."""
        self._metrics.lag(Stage.MONITOR, records)

    def refresh(self) -> None:
        """Update the gauges of rolling means, also for apps without new records."""
        means = {series.app: series.estimate for series in self.snapshot().series if series.dimension == COMPOSITE}
        for label in self._published - means.keys():
            self._scores.withdraw_recent(label)
        for label, estimate in means.items():
            self._scores.show_recent(label, estimate)
        self._published = frozenset(means)

    def _count(self, outcome: Outcome, reason: str | None = None) -> None:
        self._metrics.count(Stage.MONITOR, outcome, reason=reason)
        self._metrics.count(Stage.MONITOR, Outcome.CONSUMED)

    def _is_new(self, evaluation_id: str) -> bool:
        if evaluation_id in self._recent_ids:
            return False
        self._recent_ids[evaluation_id] = None
        if len(self._recent_ids) > self._config.remember:
            self._recent_ids.popitem(last=False)
        return True

    def _remember(self, evaluation: Evaluation) -> None:
        app, now = evaluation.app or UNKNOWN, time.time()
        # A clock that is ahead must not keep a record in the window for longer.
        probability, at = evaluation.sampling.probability, min(evaluation.evaluated_at.timestamp(), now)
        self._criteria |= {name: max(at, self._criteria.get(name, at)) for name in evaluation.dimensions}
        for name, score in results(evaluation):
            self._rolling.add(app, name, score=score, probability=probability, at=at, now=now)
        self._statuses[evaluation.composite.status] += 1
        finding = replace(notable_answer_of(evaluation, self._safety, self._required), at=at)
        if evaluation.composite.score is not None:
            self._recent.append(finding)
        if evaluation.composite.status is CompositeStatus.UNSAFE:
            self._incidents.append(finding)
        shortfall = shortfall_of(evaluation, self._safety) if evaluation.composite.score is None else None
        if shortfall is not None:
            self._withheld[evaluation.composite.status][shortfall.reason] += 1


def notable_answer_of(
    evaluation: Evaluation, safety: str = SAFETY_DIMENSION, required: Collection[str] = ()
) -> NotableAnswer:
    """Summarise an evaluation by the criterion to look at first: the one that decided its status, else the worst."""
    worst = _worst_of(evaluation, safety, required)
    excerpt = evaluation.excerpt
    return NotableAnswer(
        interaction_id=evaluation.interaction_id,
        app=evaluation.app or UNKNOWN,
        score=evaluation.composite.score,
        status=evaluation.composite.status,
        dimension=worst,
        reason=reason_of(evaluation.dimensions[worst]) if worst in evaluation.dimensions else "",
        question=excerpt.question if excerpt else "",
        answer=excerpt.answer if excerpt else "",
        at=evaluation.evaluated_at.timestamp(),
    )


def reason_of(dimension: Dimension) -> str:
    """Return the explanation of the judge with the lowest score."""
    scored = [verdict for verdict in dimension.judges if verdict.status is Status.SCORED]
    lowest = min(scored, key=lambda verdict: 1.0 if verdict.score is None else verdict.score, default=None)
    return lowest.explanation if lowest else ""


def _worst_of(evaluation: Evaluation, safety: str, required: Collection[str]) -> str:
    """Return the dimension to look at first; empty if no dimension has a score.

    Results of another configuration may have other safety or required criteria; then the worst dimension is used.
    """
    scores = {
        name: dimension.score
        for name, dimension in evaluation.dimensions.items()
        if dimension.status is Status.SCORED and dimension.score is not None
    }
    worst = min(scores, key=lambda name: (name in CONTEXT_CRITERIA, scores[name]), default="")
    if evaluation.composite.status is CompositeStatus.FAILED:
        unmet = [name for name in required if scores.get(name, 1.0) < 1.0]
        return min(unmet, key=scores.__getitem__, default=worst)
    if evaluation.composite.status is not CompositeStatus.UNSAFE:
        return worst
    return safety if safety in evaluation.dimensions or not worst else worst
