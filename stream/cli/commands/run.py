"""`streamjury run`: runs all stages in one process with a live view; with `--embedded` also a broker and traffic."""

import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event

import click
from rich.console import Console

from sinks.metrics import Outcome, Stage
from stream.cli.demo import EMBEDDED_SAMPLING_RATE, PLAN_NAMES, generate, load_corpus, plan
from stream.cli.demo.corpus import LanguageChoice
from stream.cli.demo.generator import TrafficGenerator
from stream.cli.support.cluster import reach
from stream.cli.support.interruption import Interruption
from stream.cli.support.json_output import print_json
from stream.cli.support.options import config_option, json_option, language_option, read_config, verbose_option
from stream.cli.support.safety_judge import warn_of_weak_safety
from stream.cli.support.salt import warn_of_public_salt
from stream.cli.terminal.live_view import Funnel, RunView, ViewState, make_view
from stream.cli.terminal.run_summary import RunSummary, summary_text
from stream.config.model import Config
from stream.config.secrets import find_secrets
from stream.errors import INTERRUPTED, StageError, StreamjuryError
from stream.kafka.embedded import EmbeddedBroker
from stream.kafka.topics import plan_topics
from stream.logs import configure_logging
from stream.page.serving import open_page
from stream.service.service import Service

log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.25
_SCENARIO_SECONDS = 60.0
_STUCK_SECONDS = 60.0
_POSITIVE = click.FloatRange(min=0, min_open=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficOptions:
    rate: float
    regime: str
    seed: int
    period: float
    language: LanguageChoice


@click.command()
@click.option(
    "--embedded", is_flag=True, help="Start an in-memory broker and generate sample traffic; nothing else is needed."
)
@click.option(
    "--seconds",
    type=_POSITIVE,
    help="Stop after this many seconds (default: run until Ctrl-C). With --embedded, the generated records are then "
    "finished.",
)
@json_option("the summary as one JSON object; the live view goes to standard error")
@click.option(
    "--rate", type=_POSITIVE, default=20.0, show_default=True, help="With --embedded: generated records per second."
)
@click.option(
    "--regime",
    type=click.Choice(PLAN_NAMES),
    default="scenario",
    show_default=True,
    help="With --embedded: `healthy` or a fault of all answers; `scenario` starts healthy, drops, recovers, repeats.",
)
@click.option(
    "--seed", type=int, default=7, show_default=True, help="With --embedded: random seed for the generated traffic."
)
@language_option
@verbose_option
@config_option
def run(
    *,
    config_path: Path | None,
    verbose: bool,
    embedded: bool,
    seconds: float | None,
    as_json: bool,
    rate: float,
    regime: str,
    seed: int,
    language: LanguageChoice,
) -> None:
    """Sample, judge, monitor and archive in one process, and serve the page.

    The command connects to the Kafka cluster of the configuration. With --embedded it starts an in-memory broker and
    judges a simulated service instead: a first look without Kafka, API keys or a network. Without sampling.rate in the
    configuration, it then judges half of the records. Log messages go to standard error.

    \b
    Examples:
      streamjury run --embedded
      streamjury run --embedded 2> run.log
      streamjury run --embedded --seconds 40 --json
      streamjury run --config streamjury.yaml

    \b
    JSON fields:
      consumed                                         records that the sampler read: the sum of the next four, and of
                                                       its dead letters
      filtered, sampled_out, shed, sampled             of these, how many were left out (three reasons) or
                                                       sampled
      scored, unscored                                 judged interactions with and without a composite
      duplicates                                       sampled records that were not judged again
      skipped                                          sampled records that a worker left out to save money
      left                                             sampled records that were not judged before the end
      deadletter, deadletter_by_stage                  dead letters: all, and an object by stage
      composite_mean                                   mean composite, weighted by the sampling
      coverage                                         object: share of verdicts that were given, by criterion
      by_app, by_regime                                objects with scored, unscored, unsafe and composite_mean, by app
                                                       and by type of generated fault
    """
    config = read_config(config_path, verbose=verbose)
    configure_logging(config.logging, secrets=find_secrets(config))
    traffic = TrafficOptions(
        rate=rate, regime=regime, seed=seed, period=seconds or _SCENARIO_SECONDS, language=language
    )
    session: _Session | None = None
    try:
        with Interruption() as interruption, ExitStack() as stack:
            if embedded:
                config = _with_broker(config, stack)
            else:
                cluster = reach(config.kafka)
                if cluster.embedded:
                    log.warning(
                        "this is an embedded broker: it keeps nothing on disk and does not isolate transactions"
                    )
                warn_of_public_salt(cluster, config.sampling)
                warn_of_weak_safety(cluster, config)
            session = _Session(config, interruption.stop, stack, traffic if embedded else None)
            # With --json, only the summary goes to standard output.
            session.watch(seconds, make_view(Console(stderr=as_json)))
    except StreamjuryError as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    finally:
        # Only now, however it ended: records in flight at Ctrl-C have been finished and counted, or abandoned.
        if session is not None:
            figures = session.figures()
            if as_json:
                print_json(figures)
            else:
                click.echo(summary_text(figures, session.coverage))


class _Session:
    """One run: the service, the generated traffic if there is any, and an orderly end."""

    def __init__(self, config: Config, stop: Event, stack: ExitStack, traffic: TrafficOptions | None) -> None:
        self._stop = stop
        self._summary = RunSummary()
        self._published: int | None = None
        self._has_page = config.archive.enabled
        optional = {Stage.ARCHIVIST: config.archive.enabled, Stage.ASSEMBLER: config.input.otlp is not None}
        stages = [stage for stage in Stage if optional.get(stage, True)]
        open_routes = open_page if config.archive.enabled else None
        self.service = Service(config, stages, [self._summary], open_routes=open_routes)
        stack.enter_context(self.service)
        self._traffic = stack.enter_context(_Traffic(config, traffic)) if traffic else None

    def watch(self, seconds: float | None, view: RunView) -> None:
        """Show the pipeline until the time is up or the user stops it; then finish the records in flight."""
        self._started = time.monotonic()
        try:
            with view:
                self._loop(view, lambda: seconds is not None and self._seconds() >= seconds)
                if self._traffic is not None and not self._stop.is_set():
                    self._finish(view, self._traffic.finish())
        finally:
            # The stages stop now. From here on, Ctrl-C abandons the records that they are finishing.
            self._stop.set()

    def figures(self) -> dict[str, object]:
        return self._summary.figures(self.service.metrics)

    @property
    def coverage(self) -> Mapping[str, float | None]:
        return self._summary.coverage

    def _finish(self, view: RunView, written: int) -> None:
        """Wait until all written records are judged, however long it takes, unless nothing happens any more."""
        if waiting := self._waiting(written):
            log.info("traffic ended; finishing %d records; Ctrl-C abandons them", waiting)
        moved_at, least = time.monotonic(), math.inf

        def is_stuck() -> bool:
            nonlocal moved_at, least
            if (steps := self._steps_left(written)) < least:
                moved_at, least = time.monotonic(), steps
            return time.monotonic() - moved_at > _STUCK_SECONDS

        self._loop(view, lambda: self._is_drained(written) or is_stuck())
        if not self._is_drained(written) and not self._stop.is_set():
            left = self._waiting(written)
            raise StageError(f"no record was finished for {_STUCK_SECONDS:.0f} s, and {left} are left")

    def _loop(self, view: RunView, is_done: Callable[[], bool]) -> None:
        while True:
            self.service.check()
            if self._traffic is not None:
                self._traffic.check()
            self._show(view)
            if is_done() or self._stop.wait(_LOOK_SECONDS):
                return

    def _show(self, view: RunView) -> None:
        metrics, url = self.service.metrics, self.service.url
        page = (("page", f"{url}/"),) if self._has_page else ()
        state = ViewState(
            snapshot=self.service.monitor.snapshot(),
            funnel=Funnel.of(metrics),
            addresses=(*page, ("metrics", f"{url}/metrics"), ("health", f"{url}/healthz")),
            elapsed=self._seconds(),
            latency_ms=metrics.judge_latency_ms(),
        )
        view.update(state)

    def _seconds(self) -> float:
        return time.monotonic() - self._started

    def _waiting(self, written: int) -> int:
        """Return the number of written records that are not judged."""
        metrics = self.service.metrics
        unread = written - metrics.read_count(Stage.SAMPLER, Outcome.CONSUMED)
        return max(0, unread) + self._summary.left(metrics)

    def _steps_left(self, written: int) -> int:
        """Return two steps for each record that is not judged, and one for each evaluation that is not watched."""
        unwatched = self._evaluations() - self._watched()
        return 2 * self._waiting(written) + max(0, unwatched)

    def _evaluations(self) -> int:
        count = self.service.metrics.read_count
        return count(Stage.WORKER, Outcome.SCORED) + count(Stage.WORKER, Outcome.UNSCORED)

    def _watched(self) -> int:
        return sum(self.service.metrics.read_count(Stage.MONITOR, outcome) for outcome in _READ)

    def _is_drained(self, written: int) -> bool:
        """Return whether every stage has processed the records of the stage before it."""
        count = self.service.metrics.read_count
        if count(Stage.SAMPLER, Outcome.CONSUMED) < written:
            return False
        # Parked records are judged again in minutes, by the worker that runs then.
        if self._summary.left(self.service.metrics) > count(Stage.WORKER, Outcome.PARKED):
            return False
        if self._published is None:  # canaries are judged on and on: count no later ones
            self._published = self._evaluations()
        return self._watched() >= self._published


# The monitor filters canaries.
_READ = (Outcome.SEEN, Outcome.REPEATED, Outcome.FILTERED)


class _Traffic:
    """Generated traffic, written by its own thread."""

    def __init__(self, config: Config, options: TrafficOptions) -> None:
        traffic = generate(
            load_corpus().in_language(options.language), plan(options.regime, seconds=options.period), seed=options.seed
        )
        self._generator = TrafficGenerator(config.kafka, config.topics.interactions, traffic, options.rate)
        self._stop = Event()
        self._pool = ThreadPoolExecutor(1, "traffic")

    def __enter__(self) -> "_Traffic":
        self._future: Future[Counter[str]] = self._pool.submit(self._generator.run, self._stop)
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._pool.shutdown()

    def finish(self) -> int:
        """Stop the traffic, and return the number of records that the broker has."""
        self._stop.set()
        self._future.result()
        return self._generator.delivered

    def check(self) -> None:
        """Raise the error that ended the traffic, if there is one."""
        if self._future.done():
            self._future.result()


def _with_broker(config: Config, stack: ExitStack) -> Config:
    """Start an embedded broker, and return the configuration with its address."""
    broker = stack.enter_context(EmbeddedBroker())
    broker.make_topics(plan.name for plan in plan_topics(config))
    log.info(
        "embedded broker at %s; its data is lost when it stops; for other commands: "
        "export STREAMJURY__KAFKA__BOOTSTRAP=%s",
        broker.bootstrap,
        broker.bootstrap,
    )
    sampling = config.sampling
    if "rate" not in sampling.model_fields_set:
        sampling = sampling.model_copy(update={"rate": EMBEDDED_SAMPLING_RATE})
    kafka = config.kafka.model_copy(update={"bootstrap": broker.bootstrap, "options": {}})
    # Its positions are those of this broker: with another one they would be wrong.
    folder = stack.enter_context(TemporaryDirectory(prefix="streamjury-", ignore_cleanup_errors=True))
    archive = config.archive.model_copy(update={"url": f"sqlite:///{folder}/archive.db", "password": None})
    return config.model_copy(update={"kafka": kafka, "sampling": sampling, "archive": archive})
