"""`streamjury page`: serves the page alone, from the archive."""

import logging
from pathlib import Path

import click
from prometheus_client import CollectorRegistry

from sinks.web.health import Health
from stream.cli.support.interruption import Interruption
from stream.cli.support.options import config_option, read_config, verbose_option
from stream.config.secrets import find_secrets
from stream.errors import StreamjuryError
from stream.logs import configure_logging
from stream.page.serving import open_page
from stream.service.web_server import open_web_server

log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.5


@click.command()
@verbose_option
@config_option
def page(config_path: Path | None, verbose: bool) -> None:
    """Serve the page in the browser: apps, answers, alerts, judges, the pipeline and the review queue.

    Reads the archive of archive.url, which an archivist fills. Kafka is needed only for the pipeline's figures, dead
    letters, explanations of alerts, and labels. Other machines need a token of http.tokens.

    \b
    Example:
      streamjury page --config streamjury.yaml
      STREAMJURY__HTTP__PORT=8080 streamjury page
    """
    config = read_config(config_path, verbose=verbose)
    configure_logging(config.logging, secrets=find_secrets(config))
    health = Health()
    try:
        with (
            Interruption() as interruption,
            open_page(config, health=health) as routes,
            open_web_server(config.http, CollectorRegistry(), health, routes) as server,
        ):
            log.info("page at %s/", server.url)
            while not interruption.stop.wait(_LOOK_SECONDS):
                pass
            log.info("stopping")
    except StreamjuryError as error:
        raise click.ClickException(str(error)) from error
