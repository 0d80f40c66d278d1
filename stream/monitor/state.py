"""The monitor's state: watches finished evaluations, keeps rolling means, and feeds metrics and the live view.

`Monitor` is the state and knows nothing of Faust; `MonitorStage` in `stream.monitor.stage` is the Faust app around it.
"""

import logging
import threading
import time
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from judges.criteria.criterion import SAFETY_DIMENSION
from judges.shortfall import shortfall_of
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
        """Equal for two answers that read the same; without excerpts only the id tells them apart."""
        texts = (self.question, self.answer)
        return (self.app, *texts) if any(texts) else (self.app, self.interaction_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What the monitor knows at one moment."""

    series: Sequence[SeriesMean]
    criteria: Sequence[str]
    """What evaluations within the window were about, scored or not, in the order in which they came."""

    worst: Sequence[NotableAnswer]
    incidents: Sequence[NotableAnswer]
    statuses: Counter[CompositeStatus]
    withheld: Mapping[CompositeStatus, Counter[Reason]] = field(default_factory=dict)
    """Composites without a score, by their status and the reason that stands behind most of what was not scored."""

    coverage: Mapping[str, float] = field(default_factory=dict)
    """The share of what was judged within the window that has a score, by criterion, over all apps. A criterion that
    applied to nothing is not among them."""


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
        """`safety` and `required` name criteria of the composite; what claims a lower probability is refused."""
        self._least_probability = least_probability
        self._config = config
        self._metrics = metrics
        self._scores = scores
        self._safety = safety
        self._required = required
        self._criteria: dict[str, float] = {}
        self._window = config.window_minutes * 60.0
        self._rolling = RollingScores(self._window, scores.apps)
        self._known: OrderedDict[str, None] = OrderedDict()
        self._recent: deque[NotableAnswer] = deque(maxlen=_RECENT)
        self._incidents: deque[NotableAnswer] = deque(maxlen=_RECENT)
        self._statuses: Counter[CompositeStatus] = Counter()
        self._withheld: dict[CompositeStatus, Counter[Reason]] = defaultdict(Counter)
        self._shown: frozenset[str] = frozenset()
        self._lock = threading.Lock()
        self.sinks: list[Sink] = [scores]

    def observe(
        self,
        value: bytes | None,
        schema: bytes | None = None,
        on_refused: Callable[[RecordError], None] = lambda _error: None,
    ) -> Evaluation | None:
        """Takes one record of the evaluations topic, and its version, and gives what could be read.

        A repeat is recognised; nothing is raised, and `on_refused` is called for what cannot be used. What says nothing
        of live traffic is counted and left out: history that was judged after the fact, and canaries.
        """
        try:
            evaluation = read_evaluation(value, schema, least_probability=self._least_probability)
        except RecordError as error:
            log.warning("rejected an evaluation: %s", error)
            self.refused(error)
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

    def refused(self, error: RecordError) -> None:
        """Counts a record of one of our own topics that becomes a dead letter."""
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

    def behind(self, records: int) -> None:
        """Is told how many records wait to be observed."""
        self._metrics.lag(Stage.MONITOR, records)

    def refresh(self) -> None:
        """Brings the gauges of rolling means up to date, also for apps without new records."""
        means = {series.app: series.estimate for series in self.snapshot().series if series.dimension == COMPOSITE}
        for label in self._shown - means.keys():
            self._scores.withdraw_recent(label)
        for label, found in means.items():
            self._scores.show_recent(label, found)
        self._shown = frozenset(means)

    def _count(self, outcome: Outcome, reason: str | None = None) -> None:
        self._metrics.count(Stage.MONITOR, Outcome.CONSUMED)
        self._metrics.count(Stage.MONITOR, outcome, reason=reason)

    def _is_new(self, evaluation_id: str) -> bool:
        if evaluation_id in self._known:
            return False
        self._known[evaluation_id] = None
        if len(self._known) > self._config.remember:
            self._known.popitem(last=False)
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
    """What the judge who found the worst has to say."""
    scored = [verdict for verdict in dimension.judges if verdict.status is Status.SCORED]
    lowest = min(scored, key=lambda verdict: 1.0 if verdict.score is None else verdict.score, default=None)
    return lowest.explanation if lowest else ""


def _worst_of(evaluation: Evaluation, safety: str, required: Collection[str]) -> str:
    """The dimension to look at first; empty where nothing has a score.

    Results of another configuration may have other criteria for safety or required: then their worst has to do.
    """
    scores = {name: found.score for name, found in evaluation.dimensions.items() if found.status is Status.SCORED}
    known = {name: score for name, score in scores.items() if score is not None}
    worst = min(known, key=known.__getitem__, default="")
    if evaluation.composite.status is CompositeStatus.FAILED:
        unmet = [name for name in required if known.get(name, 1.0) < 1.0]
        return min(unmet, key=known.__getitem__, default=worst)
    if evaluation.composite.status is not CompositeStatus.UNSAFE:
        return worst
    return safety if safety in evaluation.dimensions or not worst else worst
