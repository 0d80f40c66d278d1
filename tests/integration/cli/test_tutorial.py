"""The tutorial, typed into two real terminals from its first command to its last."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.cli.reader import METRICS, Reader, Terminals, clone_into, two_terminals, wait_until_ready
from tests.integration.pipeline import wait_until
from tests.parts import alertmanager, local_http, prometheus
from tests.parts.documents.pages import ROOT, blocks
from tests.parts.documents.terminal import Terminal
from tests.parts.patience import patience
from tests.parts.required import unavailable
from tests.parts.server import free_port

PAGE = ROOT / "docs/tutorial.md"
JUDGE, PROMETHEUS, ALERTMANAGER, RECEIVER = "8011", "9190", "9193", "9095"
# Needs root and a network; without the tools it installs, the test is skipped.
NOT_TYPED = "sudo apt-get install"
# Commands that run until Ctrl-C.
LASTING = ("make run", "streamjury run", "streamjury webhook")


@pytest.fixture
def ports() -> dict[str, str]:
    """Free ports to replace the usual ones, which may be in use on this machine."""
    return {port: str(free_port()) for port in (METRICS, JUDGE, PROMETHEUS, ALERTMANAGER, RECEIVER)}


@pytest.fixture
def terminals(tmp_path: Path, ports: dict[str, str]) -> Iterator[Terminals]:
    with two_terminals(clone_into(tmp_path), ports[METRICS]) as terminals_by_name:
        yield terminals_by_name


@pytest.mark.slow
def test_the_tutorial_works_from_the_first_command_to_an_alert(
    terminals: Terminals, ports: dict[str, str], tmp_path: Path
) -> None:
    """Type every command as written, in its order and its terminal; only the ports differ."""
    missing = None if shutil.which("curl") else "no curl: install it (Debian: curl)"
    if reason := prometheus.why_unavailable() or alertmanager.why_unavailable() or missing:
        unavailable(reason)
    folder = tmp_path / "first-jury"
    try:
        Reader(terminals, ports, lasting=LASTING).follow(
            PAGE,
            before=lambda command: _read_on(command, ports[METRICS]),
            wait_for=lambda command, terminal, offset: _wait_for(command, terminal, offset, ports[METRICS]),
            not_typed=[NOT_TYPED],
        )
    except AssertionError as error:
        for log in folder.glob("*.log"):
            error.add_note(f"{log.name}:\n{log.read_text()[-2000:]}")
        raise
    _check_promised_output(terminals["Terminal 2"].shown, folder)


def _wait_for(command: str, terminal: Terminal, offset: int, port: str) -> None:
    """Wait as a reader would for the output of a command."""
    if command.startswith("streamjury webhook"):
        terminal.wait_until_shown("FIRING +page +StreamjuryQualityDrop", after=offset, seconds=60)
    elif command == "make run":
        terminal.wait_until_shown(r"support-bot\D+0\.\d+", after=offset)
    else:
        wait_until_ready(command, terminal, port)


def _read_on(command: str, port: str) -> None:
    """Wait as a reader would: reading the output of `tail` takes longer than the monitor needs."""
    if "streamjury_score_recent" in command:
        mean = 'streamjury_score_recent{app="shop-bot"}'
        metrics = f"http://127.0.0.1:{port}/metrics"
        wait_until(
            lambda: mean in local_http.get(metrics, timeout=30 * patience()).text,
            seconds=30,
            what=f"{mean} in the metrics",
        )


def _check_promised_output(output: str, folder: Path) -> None:
    """Compare the evaluations, which may arrive in any order, with those on the page."""
    shown = [_undated(lines) for lines in re.findall(r"((?:^.*shop-bot.*\n(?: +.*\n)?){3})", output, re.MULTILINE)]
    assert shown == [_undated(block.code) for block in blocks(PAGE, "text") if "shop-bot" in block.code]
    assert 'streamjury_score_recent{app="shop-bot"}' in output
    assert re.search(r"^statuses +scored 2, failed 1$", output, re.MULTILINE)
    assert (folder / "mine-results/report.html").is_file()


def _undated(lines: str) -> list[str]:
    return sorted(re.sub(r"^.*(?=shop-bot)", "", line) for line in lines.splitlines())
