"""The commands that run one stage alone, as large installations do: `streamjury sampler`, `worker` and the others."""

import logging
from pathlib import Path

import click

from sinks.metrics import Stage
from stream.cli.support.cluster import Cluster, reach
from stream.cli.support.interruption import Interruption
from stream.cli.support.options import ProcessesOrAuto, config_option, read_config, verbose_option
from stream.cli.support.safety_judge import warn_of_weak_safety
from stream.cli.support.salt import warn_of_public_salt
from stream.config.model import Config
from stream.config.secrets import find_secrets
from stream.errors import StreamjuryError
from stream.logs import configure_logging
from stream.service.processes.cores import cores
from stream.service.processes.shares import most_processes
from stream.service.processes.supervisor import Supervisor
from stream.service.service import Service

log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.5


@click.command()
@verbose_option
@config_option
def assembler(config_path: Path | None, verbose: bool) -> None:
    """Turn OpenTelemetry spans into interactions, one for each trace of a RAG service.

    Reads the topics of input.otlp and writes topics.interactions in transactions with its offsets. A trace is complete
    when its root span is there and no further span came for input.otlp.quiet_seconds. The outcome of every trace is
    written to topics.traces; records that are not OTLP go to topics.deadletter. Several assemblers divide the
    partitions.

    \b
    Example:
      streamjury assembler --config streamjury.yaml
    """
    config = read_config(config_path, verbose=verbose)
    if config.input.otlp is None:
        raise click.UsageError("the configuration has no section input.otlp, so there are no spans to read")
    _serve(config, Stage.ASSEMBLER)


@click.command()
@verbose_option
@config_option
def sampler(config_path: Path | None, verbose: bool) -> None:
    """Decide which interactions are judged, and forward those.

    Reads topics.interactions and writes topics.sampled in transactions with its offsets; unreadable records go to
    topics.deadletter. Run at most as many samplers as there are partitions; Ctrl-C or SIGTERM stops cleanly.

    \b
    Example:
      STREAMJURY__SAMPLING__RATE=0.05 streamjury sampler --config streamjury.yaml
    """
    _serve(read_config(config_path, verbose=verbose), Stage.SAMPLER)


@click.command()
@click.option(
    "--processes",
    type=ProcessesOrAuto(),
    default=1,
    show_default=True,
    metavar="NUMBER|auto",
    help="Processes that share the work; auto: one for each core, and no more than partitions or limits allow.",
)
@verbose_option
@config_option
def worker(config_path: Path | None, verbose: bool, processes: int | None) -> None:
    """Judge sampled interactions and publish their evaluations.

    Reads topics.sampled and writes topics.evaluations in offset order together with its offsets. Unsafe answers go to
    topics.critical immediately. On SIGTERM it finishes records in flight, for at most worker.drain_seconds.

    With --processes, each process is a member of the group with its own partitions. They share one port for metrics
    and health, and divide worker.concurrency, worker.run_ahead and the limits of endpoints. One that ends by itself is
    started again.

    \b
    Examples:
      STREAMJURY__HTTP__PORT=9465 streamjury worker --config streamjury.yaml
      streamjury worker --processes auto
    """
    _serve(read_config(config_path, verbose=verbose), Stage.WORKER, processes)


@click.command()
@verbose_option
@config_option
def monitor(config_path: Path | None, verbose: bool) -> None:
    """Watch finished evaluations, serve their scores as metrics, and raise alerts.

    Reads topics.evaluations, skips duplicates, and keeps rolling means per app and dimension for /metrics. Unless
    detection.enabled is false, it announces quality drops on topics.alerts. Its state is kept on topics.scores and
    topics.detection, so another monitor can resume it.

    \b
    Example:
      streamjury monitor --config streamjury.yaml
    """
    _serve(read_config(config_path, verbose=verbose), Stage.MONITOR)


@click.command()
@verbose_option
@config_option
def archivist(config_path: Path | None, verbose: bool) -> None:
    """Write evaluations, their texts, alerts and labels to the archive, an SQL database for the page.

    Reads topics.evaluations, topics.sampled, topics.alerts and topics.labels. Its offsets are kept in the database
    (archive.url), in the same transactions as the rows, so each evaluation is stored once, whatever happens. While the
    database is away it waits. Several archivists divide the partitions. Without an archivist, everything else works.

    \b
    Example:
      streamjury archivist --config streamjury.yaml
      STREAMJURY__HTTP__PORT=9466 streamjury archivist
    """
    _serve(read_config(config_path, verbose=verbose), Stage.ARCHIVIST)


def _serve(config: Config, stage: Stage, processes: int | None = 1) -> None:
    """Run a stage until it is stopped; if `processes` is None, in as many processes as have work."""
    configure_logging(config.logging, secrets=find_secrets(config))
    cluster = reach(config.kafka)
    if cluster.embedded:
        log.warning("this is an embedded broker: it keeps nothing on disk and does not isolate transactions")
    if stage not in {Stage.MONITOR, Stage.ARCHIVIST, Stage.ASSEMBLER}:  # which sample nothing
        warn_of_public_salt(cluster, config.sampling)
    if stage is Stage.WORKER:
        warn_of_weak_safety(cluster, config)
    try:
        number = _count_processes(config, cluster, processes)
        with Interruption() as interruption, _runner(config, stage, number) as runner:
            several = "" if number == 1 else f" with {number} processes"
            log.info("%s started%s; metrics and health at %s", stage, several, runner.url)
            while not interruption.stop.wait(_LOOK_SECONDS):
                runner.check()
            log.info("stopping")
    except StreamjuryError as error:
        raise click.ClickException(str(error)) from error


def _runner(config: Config, stage: Stage, processes: int) -> Service | Supervisor:
    return Service(config, [stage]) if processes == 1 else Supervisor(config, processes)


def _count_processes(config: Config, cluster: Cluster, processes: int | None) -> int:
    """Return the requested number of processes, or one for each core that would have work."""
    partitions = cluster.partitions.get(config.topics.sampled)  # None if the topic is created by its first use
    if processes is None:
        return min(cores(), partitions or cores(), most_processes(config)[0])
    if partitions is not None and processes > max(partitions, 1):
        log.warning(
            "%s has %d partitions: %d of %d processes will have no work and never be ready",
            config.topics.sampled,
            partitions,
            processes - partitions,
            processes,
        )
    return processes
