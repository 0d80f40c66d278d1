"""`streamjury sampler`, `worker` and `monitor`: one stage in one process, as large installations run them."""

import logging
from pathlib import Path

import click

from sinks.metrics import Stage
from stream.cli.support.cluster import reach
from stream.cli.support.interruption import Interruption
from stream.cli.support.options import config_option, read_config
from stream.cli.support.salt import warn_of_public_salt
from stream.config.secrets import find_secrets
from stream.errors import StreamjuryError
from stream.logs import configure_logging
from stream.service.service import Service

log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.5


@click.command()
@config_option
def sampler(config_path: Path | None) -> None:
    """Decide which interactions are judged, and forward those.

    Reads topics.interactions and writes topics.sampled in transactions with its offsets; unreadable records go to
    topics.deadletter. Run at most as many samplers as there are partitions; Ctrl-C or SIGTERM stops cleanly.

    \b
    Example:
      STREAMJURY__SAMPLING__RATE=0.05 streamjury sampler --config streamjury.yaml
    """
    _serve(config_path, Stage.SAMPLER)


@click.command()
@config_option
def worker(config_path: Path | None) -> None:
    """Judge sampled interactions and publish their evaluations.

    Reads topics.sampled and writes topics.evaluations in offset order together with its offsets. Unsafe answers go to
    topics.critical immediately. On SIGTERM it finishes records in flight, for at most worker.drain_seconds.

    \b
    Example:
      STREAMJURY__HTTP__PORT=9465 streamjury worker --config streamjury.yaml
    """
    _serve(config_path, Stage.WORKER)


@click.command()
@config_option
def monitor(config_path: Path | None) -> None:
    """Watch finished evaluations, serve their scores as metrics, and raise alerts.

    Reads topics.evaluations, skips duplicates, and keeps rolling means per app and dimension for /metrics. Unless
    detection.enabled is false, it announces quality drops on topics.alerts. Its state is kept on topics.scores and
    topics.detection, so another monitor can resume it.

    \b
    Example:
      streamjury monitor --config streamjury.yaml
    """
    _serve(config_path, Stage.MONITOR)


def _serve(config_path: Path | None, stage: Stage) -> None:
    config = read_config(config_path)
    configure_logging(config.logging, secrets=find_secrets(config))
    cluster = reach(config.kafka)
    if cluster.embedded:
        log.warning("this is an embedded broker: it keeps nothing on disk and does not isolate transactions")
    if stage is not Stage.MONITOR:  # which decides about no record
        warn_of_public_salt(cluster, config.sampling)
    try:
        with Interruption() as interruption, Service(config, [stage]) as service:
            log.info("%s started; metrics and health at %s", stage, service.url)
            while not interruption.stop.wait(_LOOK_SECONDS):
                service.check()
            log.info("stopping")
    except StreamjuryError as error:
        raise click.ClickException(str(error)) from error
