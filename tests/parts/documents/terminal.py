"""A terminal as users have it: an interactive shell on a pseudo-terminal."""

import os
import pty
import re
import select
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tests.parts.patience import patience

_PROMPT = re.compile(r"<prompt (\d+)>")
_CTRL_C = b"\x03"
_SECONDS = 60.0


class Terminal:
    """A shell that lives for the `with` block; everything started in it is ended with it."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._folder = folder
        self._environ = {**environ, "TERM": "dumb", "PS1": r"<prompt $?>", "PS2": "", "HISTFILE": ""}
        self._lock = threading.Lock()
        self._shown = ""

    def __enter__(self) -> Self:
        self._master, slave = pty.openpty()
        self._shell = subprocess.Popen(
            # A new session with this as its controlling terminal, so that Ctrl-C reaches the foreground process.
            ["setsid", "--ctty", "bash", "--noprofile", "--norc", "--noediting", "-i"],
            cwd=self._folder,
            env=self._environ,
            stdin=slave,
            stdout=slave,
            stderr=slave,
        )
        os.close(slave)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._wait_for(1)
        self.run("stty -echo columns 200")
        return self

    def __exit__(self, *_error: object) -> None:
        for number in (signal.SIGHUP, signal.SIGCONT, signal.SIGKILL):
            for process in _processes_of(self._shell.pid):
                _send(process, number)
            if number is signal.SIGHUP:
                time.sleep(0.2)
        self._shell.wait()
        self._reader.join(_SECONDS)
        os.close(self._master)

    @property
    def shown(self) -> str:
        """Return all output so far."""
        with self._lock:
            return self._shown

    def run(self, command: str) -> int:
        """Type a command, which may have several lines, wait for its end, and return the exit status."""
        prompts = self._prompts()
        self._type(command.encode() + b"\n")
        return self._wait_for(len(prompts) + 1)

    def start(self, command: str) -> None:
        """Type a command that keeps running."""
        self._type(command.encode() + b"\n")

    def interrupt(self) -> int:
        """Press Ctrl-C and wait for the prompt."""
        prompts = self._prompts()
        self._type(_CTRL_C)
        return self._wait_for(len(prompts) + 1)

    def wait_until_shown(self, pattern: str, *, after: int = 0, seconds: float = _SECONDS) -> None:
        start = time.monotonic()
        while not re.search(pattern, self.shown[after:]):
            if time.monotonic() - start > seconds * patience():
                raise AssertionError(f"{pattern!r} was not shown within {seconds:.0f} s; the end is:\n{self._end()}")
            time.sleep(0.1)

    def _prompts(self) -> list[str]:
        return _PROMPT.findall(self.shown)

    def _wait_for(self, count: int) -> int:
        start = time.monotonic()
        while len(prompts := self._prompts()) < count:
            if time.monotonic() - start > _SECONDS * patience():
                raise AssertionError(f"still at work after {_SECONDS:.0f} s; the end is:\n{self._end()}")
            time.sleep(0.05)
        return int(prompts[-1])

    def _end(self) -> str:
        return self.shown[-3000:]

    def _type(self, text: bytes) -> None:
        # A terminal accepts about 4 kB at a time when input arrives faster than it is read.
        for line in text.splitlines(keepends=True):
            os.write(self._master, line)
            time.sleep(0.002)

    def _read(self) -> None:
        while True:
            try:
                ready, _, _ = select.select([self._master], [], [], 1.0)
                read = os.read(self._master, 65_536) if ready else None
            except OSError:
                return  # the other end is closed
            if read == b"":
                return
            if read:
                with self._lock:
                    self._shown += read.decode(errors="replace").replace("\r\n", "\n")


def _processes_of(session: int) -> list[int]:
    """Return the processes of a session, from /proc."""
    processes = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session:
                processes.append(int(folder.name))
    return processes


def _send(process: int, number: signal.Signals) -> None:
    try:
        os.kill(process, number)
    except ProcessLookupError:
        return
