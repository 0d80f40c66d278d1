"""A reader of a page: types its commands into real terminals, as written and in their order; only the ports differ."""

import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx

from tests.integration.pipeline import wait_until
from tests.parts import local_http
from tests.parts.documents.pages import ROOT, blocks
from tests.parts.documents.shell import check, commands
from tests.parts.documents.terminal import Terminal
from tests.parts.patience import patience

METRICS = "9464"
# Up-to-date or not, these exist; installing them again is not part of a test.
_MADE = (".venv/.runtime", ".venv/.installed", ".cache/collector/.built", ".cache/instrumented/.installed")

Terminals = Mapping[str, Terminal]


def clone_into(folder: Path) -> Path:
    """Return the repository in a folder, with the environment of the tests as its `.venv`."""
    clone = folder / "streamjury"
    clone.mkdir()
    for path in ROOT.iterdir():
        if path.name != ".venv":
            (clone / path.name).symlink_to(path)
    (clone / ".venv").symlink_to(sys.prefix)
    return clone


@contextmanager
def two_terminals(clone: Path, metrics_port: str) -> Iterator[Terminals]:
    """Open two terminals in the clone; the program gets no setting from them but a port."""
    path = os.pathsep.join(part for part in os.environ["PATH"].split(os.pathsep) if not part.startswith(sys.prefix))
    environ = {"PATH": path, "HOME": str(clone), "LANG": "C.UTF-8", "STREAMJURY__HTTP__PORT": metrics_port}
    with ExitStack() as stack:
        terminals = {name: stack.enter_context(Terminal(clone, environ)) for name in ("Terminal 1", "Terminal 2")}
        old = " ".join(f"--old-file={path}" for path in _MADE)
        terminals["Terminal 1"].run(f'make() {{ command make {old} "$@"; }}')
        yield terminals


class Reader:
    """Reads one page with two terminals. A command that lasts is stopped when the page needs its terminal again."""

    def __init__(self, terminals: Terminals, ports: Mapping[str, str], *, lasting: tuple[str, ...]) -> None:
        self._terminals, self._ports, self._lasting = terminals, ports, lasting
        self._at_work: set[str] = set()

    def follow(
        self,
        page: Path,
        *,
        before: Callable[[str], None],
        wait_for: Callable[[str, Terminal, int], None],
        not_typed: Collection[str] = (),
    ) -> None:
        """Type every command. `before` waits as a reader would before a command, `wait_for` for one that lasts."""
        for block in blocks(page, "sh"):
            assert block.title is not None, block
            terminal = self._terminals[block.title]
            for command in commands(re.sub("|".join(self._ports), lambda match: self._ports[match[0]], block.code)):
                self._stop(block.title)
                if command.startswith(tuple(not_typed)):
                    check(command)
                elif command.startswith(self._lasting):
                    offset = len(terminal.shown)
                    terminal.start(command)
                    self._at_work.add(block.title)
                    wait_for(command, terminal, offset)
                else:
                    before(command)
                    assert terminal.run(command) == 0, f"{block}: {command}\n{terminal.shown[-3000:]}"

    def _stop(self, title: str) -> None:
        if title in self._at_work:
            terminal = self._terminals[title]
            assert terminal.interrupt() in (0, 2, 130), terminal.shown[-2000:]
            self._at_work.remove(title)


def wait_until_ready(command: str, terminal: Terminal, port: str) -> None:
    """Wait until the pipeline that a command started is ready."""
    wait_until(lambda: _ready(port), seconds=60, what=lambda: f"{command} is ready: {terminal.shown[-2000:]}")


def _ready(port: str) -> bool:
    try:
        return local_http.get(f"http://127.0.0.1:{port}/readyz", timeout=30 * patience()).is_success
    except httpx.TransportError:
        return False
