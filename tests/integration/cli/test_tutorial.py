"""The tutorial, typed into two real terminals from its first command to its last."""

import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.integration.pipeline import wait_until
from tests.parts import alertmanager, prometheus
from tests.parts.documents.pages import ROOT, blocks
from tests.parts.documents.shell import check, commands
from tests.parts.documents.terminal import Terminal
from tests.parts.required import unavailable
from tests.parts.server import free_port

PAGE = ROOT / "docs/tutorial.md"
METRICS, JUDGE, PROMETHEUS, ALERTMANAGER, RECEIVER = "9464", "8011", "9190", "9193", "9095"
# Needs root and a network; without the tools it installs, the test is skipped.
NOT_TYPED = "sudo apt-get install"
# Commands that run until Ctrl-C.
LASTING = ("make run", "streamjury run", "streamjury webhook")


@pytest.fixture
def ports() -> dict[str, str]:
    """Free ports to replace the usual ones, which may be in use on this machine."""
    return {port: str(free_port()) for port in (METRICS, JUDGE, PROMETHEUS, ALERTMANAGER, RECEIVER)}


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The repository with the environment of the tests as its `.venv`."""
    folder = tmp_path / "streamjury"
    folder.mkdir()
    for path in ROOT.iterdir():
        if path.name != ".venv":
            (folder / path.name).symlink_to(path)
    (folder / ".venv").symlink_to(sys.prefix)
    return folder


@pytest.fixture
def terminals(clone: Path, ports: dict[str, str]) -> Iterator[dict[str, Terminal]]:
    """Two terminals in the clone; the program gets no setting from them but a port."""
    path = os.pathsep.join(part for part in os.environ["PATH"].split(os.pathsep) if not part.startswith(sys.prefix))
    environ = {"PATH": path, "HOME": str(clone), "LANG": "C.UTF-8", "STREAMJURY__HTTP__PORT": ports[METRICS]}
    with ExitStack() as stack:
        terminals_by_name = {
            name: stack.enter_context(Terminal(clone, environ)) for name in ("Terminal 1", "Terminal 2")
        }
        # The environment exists; installing it again is not part of this test.
        terminals_by_name["Terminal 1"].run('make() { command make --old-file=.venv/.runtime "$@"; }')
        yield terminals_by_name


@pytest.mark.slow
def test_the_tutorial_works_from_the_first_command_to_an_alert(
    terminals: dict[str, Terminal], ports: dict[str, str], tmp_path: Path
) -> None:
    """Type every command as written, in its order and its terminal; only the ports differ."""
    missing = None if shutil.which("curl") else "no curl: install it (Debian: curl)"
    if reason := prometheus.why_unavailable() or alertmanager.why_unavailable() or missing:
        unavailable(reason)
    at_work: set[str] = set()
    for block in blocks(PAGE, "sh"):
        assert block.title is not None, block
        terminal = terminals[block.title]
        for command in commands(re.sub("|".join(ports), lambda match: ports[match[0]], block.code)):
            if block.title in at_work:
                assert terminal.interrupt() in (0, 2, 130), terminal.shown[-2000:]
                at_work.remove(block.title)
            if command.startswith(NOT_TYPED):
                check(command)
            elif command.startswith(LASTING):
                offset = len(terminal.shown)
                terminal.start(command)
                at_work.add(block.title)
                _wait_for(command, terminal, offset, ports[METRICS])
            else:
                _read_on(command, ports[METRICS])
                assert terminal.run(command) == 0, f"{block}: {command}\n{terminal.shown[-3000:]}"
    output = terminals["Terminal 2"].shown
    _check_promised_output(output, tmp_path / "first-jury")


def _wait_for(command: str, terminal: Terminal, offset: int, port: str) -> None:
    """Wait as a reader would for the output of a command."""
    if command.startswith("streamjury webhook"):
        terminal.wait_until_shown("FIRING +page +StreamjuryQualityDrop", after=offset, seconds=60)
    elif command == "make run":
        terminal.wait_until_shown(r"support-bot\D+0\.\d+", after=offset)
    else:
        wait_until(lambda: _ready(port), seconds=60, what=lambda: f"{command} is ready: {terminal.shown[-2000:]}")


def _read_on(command: str, port: str) -> None:
    """Wait as a reader would: reading the output of `tail` takes longer than the monitor needs."""
    if "streamjury_score_recent" in command:
        mean = 'streamjury_score_recent{app="shop-bot"}'
        metrics = f"http://127.0.0.1:{port}/metrics"
        wait_until(lambda: mean in httpx.get(metrics).text, seconds=30, what=f"{mean} in the metrics")


def _ready(port: str) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/readyz").is_success
    except httpx.TransportError:
        return False


def _check_promised_output(output: str, folder: Path) -> None:
    first, second = re.findall(r"((?:^.*shop-bot.*\n(?: +.*\n)?){3})", output, re.MULTILINE)
    assert re.search(r" 0\.67 scored .* grounded=hallucinated .* a2$", first, re.MULTILINE)
    assert re.search(r" 1\.00 scored .* a1$", first, re.MULTILINE)
    assert re.search(r" failed .* a3$", second, re.MULTILINE)
    assert 'streamjury_score_recent{app="shop-bot"}' in output
    assert re.search(r"^statuses +scored 2, failed 1$", output, re.MULTILINE)
    assert (folder / "mine-results/report.html").is_file()
