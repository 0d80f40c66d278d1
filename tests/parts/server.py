"""A server from the system's packages, on a free loopback port. It ends with its block or with this process."""

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import httpx

from tests.parts import local_http
from tests.parts.patience import patience

_START_SECONDS = 30.0
_STOP_SECONDS = 15.0
# By default, Linux uses the ports from 32768 for outgoing connections.
_PORTS = range(10_000, 32_768)


class Server:
    """A program that serves HTTP; `command` returns the command line that starts it."""

    def __init__(self, folder: Path, *, name: str, ready: str) -> None:
        """Log to a file in `folder`; the server is ready when the path `ready` answers with success."""
        self.folder = folder
        self.port = free_port()
        self._name = name
        self._ready = ready
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        return self.folder / f"{self._name}.log"

    def command(self) -> Sequence[str | Path]:
        raise NotImplementedError

    def __enter__(self) -> Self:
        child = Path(__file__).with_name("child.py")
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, child, *self.command()],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._wait_until_ready()
        return self

    def __exit__(self, *_error: object) -> None:
        if self._process is None:
            return
        process, self._process = self._process, None
        assert process.stdin is not None
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        finally:
            process.stdin.close()

    def _wait_until_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + _START_SECONDS * patience()
        while time.monotonic() < deadline and self._process.poll() is None:
            if self._answers():
                return
            time.sleep(0.05)
        self.__exit__()
        log_end = self.log.read_text(errors="replace")[-3000:]
        raise RuntimeError(f"{self._name} did not start; the end of its log:\n{log_end}")

    def _answers(self) -> bool:
        try:
            return local_http.get(f"{self.url}{self._ready}", timeout=2).is_success
        except httpx.TransportError:
            return False


def free_port() -> int:
    """Return a port that is not in use and that the system does not use for outgoing connections.

    A client of another test might be given such a port before the server that needs it starts.
    """
    while True:
        port = secrets.choice(_PORTS)
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port


def free_ports(count: int) -> list[int]:
    """Return as many of such ports, all different."""
    ports = set[int]()
    while len(ports) < count:
        ports.add(free_port())
    return list(ports)
