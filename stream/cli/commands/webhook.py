"""`streamjury webhook`: prints the alerts that Alertmanager sends, for people or as JSON lines."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime

import click

from sinks.web.server import WebServer
from stream.cli.support.interruption import Interruption, until_reader_leaves
from stream.cli.support.options import json_option
from stream.cli.terminal.alertmanager_webhook import INDEX, FiringAlert, Notice, NoticeReceiver, alert_json, alert_line

_LOOK_SECONDS = 0.2


@click.command()
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on; 0.0.0.0 accepts connections from other machines.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=9095,
    show_default=True,
    help="Port to listen on; 0: any free port.",
)
@json_option("one JSON object per line instead of text")
def webhook(*, host: str, port: int, as_json: bool) -> None:
    """Receive Alertmanager notifications and print every alert, until Ctrl-C.

    A receiver for a first look, and a base for your own: point a `webhook_configs` entry of Alertmanager at it. It
    stores nothing. It rejects notifications that it could not print, and Alertmanager sends them again.

    \b
    Examples:
      streamjury webhook
      streamjury webhook --port 9095 --json | jq 'select(.severity == "page")'

    \b
    JSON fields of each line:
      received_at                    time when it arrived
      status                         firing or resolved
      severity, alertname            labels of the alert, or null
      app, window                    labels of the alert, or null
      summary, description, runbook  annotations, or empty
      labels, annotations            objects with all of them
      starts_at, ends_at             start and end; the end is null while it is firing
    """
    receiver = NoticeReceiver(_printer(alert_json if as_json else alert_line))
    with Interruption() as interruption, until_reader_leaves(), _listen(host, port, receiver) as server:
        click.echo(f"waiting for Alertmanager notifications at {server.url}/alerts; press Ctrl-C to stop", err=True)
        while not interruption.stop.wait(_LOOK_SECONDS):
            receiver.check()


def _printer(write: Callable[[FiringAlert, datetime], str]) -> Callable[[Notice, datetime], None]:
    def print_notice(notice: Notice, received_at: datetime) -> None:
        for alert in notice.alerts:
            # Characters that the terminal cannot show are escaped.
            click.echo(write(alert, received_at).encode(sys.stdout.encoding or "utf-8", "backslashreplace"))
        if notice.truncated:
            click.echo(f"Alertmanager left out {notice.truncated} more alerts", err=True)

    return print_notice


@contextmanager
def _listen(host: str, port: int, receiver: NoticeReceiver) -> Iterator[WebServer]:
    with ExitStack() as stack:
        try:
            server = stack.enter_context(WebServer(receiver.routes(), index=INDEX, host=host, port=port))
        except OSError as error:
            raise click.ClickException(
                f"cannot listen on {host}:{port} ({error.strerror}); choose another --port"
            ) from None
        yield server
