"""The guide "From OpenTelemetry to an alert", typed into two real terminals from its first command to its last."""

import re
from pathlib import Path

import pytest

from tests.integration.cli.reader import METRICS, Reader, clone_into, two_terminals, wait_until_ready
from tests.integration.pipeline import wait_until
from tests.parts.documents.pages import ROOT
from tests.parts.otel import collector, services
from tests.parts.required import unavailable
from tests.parts.server import free_port

PAGE = ROOT / "docs/guides/opentelemetry.md"
OTLP = "4318"


@pytest.mark.slow
def test_the_guide_works_from_the_first_command_to_an_alert(tmp_path: Path) -> None:
    if reason := collector.why_unavailable() or services.why_unavailable():
        unavailable(reason)
    ports = {port: str(free_port()) for port in (METRICS, OTLP)}
    log = tmp_path / "otel-jury" / "run.log"

    def read_on(command: str) -> None:
        """Wait as a reader would for the alert."""
        if command == "streamjury alerts list":
            alert = re.compile("WARNING.* groundedness of shop-bot", re.IGNORECASE)
            wait_until(lambda: bool(alert.search(log.read_text())), seconds=60, what=lambda: log.read_text()[-3000:])

    with two_terminals(clone_into(tmp_path), ports[METRICS]) as terminals:
        Reader(terminals, ports, lasting=("streamjury run",)).follow(
            PAGE,
            before=read_on,
            wait_for=lambda command, terminal, _: wait_until_ready(command, terminal, ports[METRICS]),
        )
        output = terminals["Terminal 2"].shown
    assert len(re.findall(r"[\d:]+ shop-bot 1\.00 scored .* [0-9a-f]{32}$", output, re.MULTILINE)) == 3
    assert re.search(r"[0-9a-f]{8} +the groundedness of shop-bot is too low$", output, re.MULTILINE)
