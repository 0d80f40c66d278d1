"""The monitor: watches finished evaluations, keeps the rolling state, and feeds metrics and the live view.

`Monitor` is the state and knows nothing of Faust; `MonitorStage` is the Faust app around it. The agent has one actor,
awaits nothing and lets nothing escape: with more actors, or an exception that leaves it, Faust loses records.
"""

import asyncio
import logging
import threading
import time
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory
from typing import Any

import faust
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from faust.types.auth import CredentialsT
from pydantic import ValidationError

from judges.criteria import SAFETY_DIMENSION
from judges.evaluation import CompositeStatus, Dimension, Evaluation, Reason, Status
from judges.shortfall import shortfall_of
from sinks.base import COMPOSITE, SCHEMA, UNKNOWN, Sink
from sinks.metrics import Outcome, PipelineMetrics, ScoreMetrics, Stage, results
from stream.committed import read_committed_only
from stream.config import Config, KafkaConfig, MonitorConfig
from stream.credentials import broker_credentials
from stream.embedded import is_embedded
from stream.errors import RecordError, StageError, no_broker
from stream.feeding import feed
from stream.rolling import RollingScores, SeriesMean
from stream.sampling import BACKFILL

log = logging.getLogger(__name__)

_RECENT = 300
_REFRESH_SECONDS = 1.0
_STOP_SECONDS = 15.0
_START_SECONDS = 30.0
_ASK_SECONDS = 3.0
# What more of waiting for the broker does not mend.
_NOT_LET_IN = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL})


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What the monitor knows at one moment."""

    series: Sequence[SeriesMean]
    criteria: Sequence[str]
    """What evaluations within the window were about, scored or not, in the order in which they came."""

    worst: Sequence[Finding]
    incidents: Sequence[Finding]
    statuses: Counter[CompositeStatus]
    withheld: Mapping[CompositeStatus, Counter[Reason]] = field(default_factory=dict)
    """Composites without a score, by their status and the reason that stands behind most of what was not scored."""


class Monitor:
    """The state of the watched series. Safe to read from another thread."""

    def __init__(
        self,
        config: MonitorConfig,
        metrics: PipelineMetrics,
        scores: ScoreMetrics,
        *,
        safety: str = SAFETY_DIMENSION,
    ) -> None:
        """`safety` is the criterion that decides about it."""
        self._config = config
        self._metrics = metrics
        self._scores = scores
        self._safety = safety
        self._criteria: dict[str, float] = {}
        self._window = config.window_minutes * 60.0
        self._rolling = RollingScores(self._window, scores.apps)
        self._known: OrderedDict[str, None] = OrderedDict()
        self._recent: deque[Finding] = deque(maxlen=_RECENT)
        self._incidents: deque[Finding] = deque(maxlen=_RECENT)
        self._statuses: Counter[CompositeStatus] = Counter()
        self._withheld: dict[CompositeStatus, Counter[Reason]] = defaultdict(Counter)
        self._shown: frozenset[str] = frozenset()
        self._lock = threading.Lock()
        self.sinks: list[Sink[Evaluation]] = [scores]

    def observe(self, value: bytes | None, schema: bytes | None = None) -> None:
        """Takes one record of the evaluations topic, and its version. A repeat is recognised; nothing is raised.

        History that was judged after the fact is counted and left out: it must not move what is said of now.
        """
        try:
            if schema not in {None, SCHEMA[1]}:
                raise RecordError("unsupported_version", f"it is of version {schema!r}; upgrade the monitor")
            evaluation = Evaluation.model_validate_json(value or b"")
        except (ValidationError, RecordError) as error:
            why = error if isinstance(error, RecordError) else error.errors(include_input=False)[0]["msg"]
            log.warning("an evaluation could not be read: %s", why)
            self._count(Outcome.UNREADABLE)
            return
        if evaluation.sampling.lane == BACKFILL:
            self._count(Outcome.FILTERED)
            return
        if not self._is_new(evaluation.evaluation_id):
            self._count(Outcome.REPEATED)
            return
        with self._lock:
            self._remember(evaluation)
        feed(self.sinks, evaluation)
        self._count(Outcome.SEEN)

    def snapshot(self) -> Snapshot:
        now = time.time()
        with self._lock:
            series = list(self._rolling.means(now))
            self._criteria = {name: at for name, at in self._criteria.items() if at > now - self._window}
            criteria = list(self._criteria)
            fresh = [finding for finding in self._recent if finding.at > now - self._window]
            incidents, statuses = list(self._incidents), Counter(self._statuses)
            withheld = {status: Counter(reasons) for status, reasons in self._withheld.items()}
        worst = sorted(fresh, key=lambda finding: (finding.score or 0.0, -finding.at))[: self._config.worst]
        return Snapshot(
            series=series, criteria=criteria, worst=worst, incidents=incidents, statuses=statuses, withheld=withheld
        )

    def behind(self, records: int) -> None:
        """Is told how many records wait to be observed."""
        self._metrics.lag(Stage.MONITOR, records)

    def refresh(self) -> None:
        """Brings the gauges of rolling means up to date, also for apps without new records."""
        means = {series.app: series.estimate for series in self.snapshot().series if series.dimension == COMPOSITE}
        for app in self._shown - means.keys():
            self._scores.no_longer_recent(app)
        for app, found in means.items():
            self._scores.recent(app, found)
        self._shown = frozenset(means)

    def _count(self, outcome: Outcome) -> None:
        self._metrics.count(Stage.MONITOR, Outcome.CONSUMED)
        self._metrics.count(Stage.MONITOR, outcome)

    def _is_new(self, evaluation_id: str) -> bool:
        if evaluation_id in self._known:
            return False
        self._known[evaluation_id] = None
        if len(self._known) > self._config.remember:
            self._known.popitem(last=False)
        return True

    def _remember(self, evaluation: Evaluation) -> None:
        app, now = evaluation.app or UNKNOWN, time.time()
        probability, at = evaluation.sampling.probability, evaluation.evaluated_at.timestamp()
        self._criteria |= {name: max(at, self._criteria.get(name, at)) for name in evaluation.dimensions}
        for name, score in results(evaluation):
            self._rolling.add(app, name, score=score, probability=probability, at=at, now=now)
        self._statuses[evaluation.composite.status] += 1
        finding = finding_of(evaluation, self._safety)
        if evaluation.composite.score is not None:
            self._recent.append(finding)
        if evaluation.composite.status is CompositeStatus.UNSAFE:
            self._incidents.append(finding)
        shortfall = shortfall_of(evaluation, self._safety) if evaluation.composite.score is None else None
        if shortfall is not None:
            self._withheld[evaluation.composite.status][shortfall.reason] += 1


def finding_of(evaluation: Evaluation, safety: str = SAFETY_DIMENSION) -> Finding:
    """An evaluation in short: its worst dimension speaks for it; of an unsafe one, that which decides about safety."""
    worst = _worst_of(evaluation, safety)
    excerpt = evaluation.excerpt
    return Finding(
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


def _worst_of(evaluation: Evaluation, safety: str) -> str:
    """The dimension to look at first; empty where nothing has a score.

    Results of another configuration may have another criterion for safety: then the worst of theirs has to do.
    """
    scores = {name: found.score for name, found in evaluation.dimensions.items() if found.status is Status.SCORED}
    known = {name: score for name, score in scores.items() if score is not None}
    worst = min(known, key=known.__getitem__, default="")
    if evaluation.composite.status is not CompositeStatus.UNSAFE:
        return worst
    return safety if safety in evaluation.dimensions or not worst else worst


class MonitorStage:
    """The Faust app that carries evaluations to the monitor."""

    stage = Stage.MONITOR

    def __init__(self, config: Config, monitor: Monitor) -> None:
        self._credentials = broker_credentials(config.kafka.options)
        self._config = config
        self._monitor = monitor
        self._app: faust.App | None = None
        self.moved_at = time.monotonic()
        self.backlog = 0
        self.done = 0

    # It publishes nothing.
    problem = None

    @property
    def pulse(self) -> "MonitorStage":
        return self

    @property
    def assigned(self) -> bool:
        consumer = self._app.consumer if self._app is not None and self._app.started else None
        return bool(consumer is not None and consumer.assignment())

    def run(self, stop: threading.Event) -> None:
        """Watches until told to stop."""
        asyncio.run(self._serve(stop))

    async def _serve(self, stop: threading.Event) -> None:
        embedded = is_embedded(await asyncio.to_thread(_cluster_id, self._config.kafka))
        # Faust makes a data folder wherever it is started, though the monitor keeps no table in it.
        with TemporaryDirectory(prefix="streamjury-monitor-") as folder:
            self._app = make_app(self._config, self._observe, self._credentials, embedded=embedded, folder=folder)
            await self._watch(self._app, stop)

    def _observe(self, value: bytes | None, schema: bytes | None) -> None:
        self._monitor.observe(value, schema)
        self.done += 1

    async def _watch(self, app: faust.App, stop: threading.Event) -> None:
        try:
            await app.start()
            while not stop.is_set():
                self.moved_at = time.monotonic()
                self.backlog = _backlog(app)
                self._monitor.behind(self.backlog)
                self._monitor.refresh()
                if app.should_stop:
                    raise StageError(f"its Faust app stopped by itself ({app.crash_reason or 'without a reason'})")
                await asyncio.sleep(_REFRESH_SECONDS / 4)
        finally:
            # Without an awaited stop, Faust's threads keep the process alive.
            await asyncio.wait_for(app.stop(), _STOP_SECONDS)


def make_app(
    config: Config,
    observe: Callable[[bytes | None, bytes | None], None],
    credentials: CredentialsT | None = None,
    *,
    embedded: bool,
    folder: str,
) -> faust.App:
    """A Faust app with one agent on the evaluations topic and none of Faust's own doors open."""
    app = faust.App(
        config.monitor.group,
        broker=_broker_url(config.kafka),
        broker_credentials=credentials,
        store="memory://",
        datadir=folder,
        topic_allow_declare=False,
        topic_disable_leader=True,
        web_enabled=False,
        processing_guarantee="at_least_once",
        consumer_auto_offset_reset="earliest",
        broker_session_timeout=10.0,
        broker_heartbeat_interval=3.0,
        stream_buffer_maxsize=256,
        # The embedded broker's commit markers have no valid checksum; a real broker's have.
        broker_check_crcs=not embedded,
        # Faust's own handlers would replace the program's.
        loghandlers=[],
    )
    _refuse_surprises(app, config)
    if not embedded:  # which isolates no transactions
        read_committed_only(app)
    topic = app.topic(config.topics.evaluations, value_type=bytes, value_serializer="raw", key_serializer="raw")

    @app.agent(topic, concurrency=1)  # type: ignore[untyped-decorator]
    async def watch(stream: faust.Stream[bytes]) -> None:
        async for event in stream.events():
            observe(event.value, dict(event.headers or {}).get(SCHEMA[0]))

    return app


def _backlog(app: faust.App) -> int:
    """Records between what the client handed to Faust and the ends of our partitions, as last heard from the broker.

    Faust's own way to a position waits for the client's thread. This only looks, from another thread: the consumer may
    not have begun, or a partition may go meanwhile, and then nothing is found waiting.
    """
    try:
        client = app.consumer._thread._ensure_consumer()
        assignment = client._subscription.subscription.assignment
        states = [assignment.state_value(partition) for partition in client.assignment()]
        return sum(max(0, state.highwater - state.position) for state in states if _is_known(state))
    except Exception as error:
        log.debug("the monitor's backlog is not known: %r", error)
        return 0


def _is_known(state: Any) -> bool:
    return state is not None and state.highwater is not None and state.has_valid_position


def _cluster_id(kafka: KafkaConfig) -> str | None:
    """Asks until the broker answers or shows that it will not let us in."""
    errors: list[KafkaError] = []
    options: dict[str, Any] = {**kafka.client_options(), "log_level": 0, "error_cb": errors.append}
    deadline = time.monotonic() + _START_SECONDS
    try:
        client = AdminClient(options)
        while True:
            try:
                return client.list_topics(timeout=_ASK_SECONDS).cluster_id
            except KafkaException:
                client.poll(0)  # serves the callback, which knows more than the exception
                refused = [error.str() for error in errors if error.code() in _NOT_LET_IN]
                if refused:
                    raise StageError(f"Kafka at {kafka.bootstrap} does not let us in: {refused[-1]}") from None
                if time.monotonic() > deadline:
                    raise
    except KafkaException as error:
        raise no_broker(kafka.bootstrap, error.args[0].str()) from error


def _broker_url(kafka: KafkaConfig) -> str:
    return ";".join(f"kafka://{address.strip()}" for address in kafka.bootstrap.split(","))


def _refuse_surprises(app: faust.App, config: Config) -> None:
    """Faust lets environment variables without a prefix beat what it is told; a stray one must not redirect us."""
    effective = {"broker": [str(url) for url in app.conf.broker], "web_enabled": app.conf.web_enabled}
    wanted = {"broker": _broker_url(config.kafka).split(";"), "web_enabled": False}
    for name, value in wanted.items():
        if effective[name] != value:
            raise StageError(
                f"an environment variable changes Faust's {name} to {effective[name]}; "
                f"unset BROKER_URL, FAUST_{name.upper()} and the like"
            )
