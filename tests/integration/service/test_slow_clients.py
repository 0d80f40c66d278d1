"""Slow HTTP clients do not disturb a whole pipeline that may open few files: it judges and answers others as before."""

import contextlib
import itertools
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from tests.integration.pipeline import wait_until
from tests.parts import local_http
from tests.parts.local_judge import LOCAL_JUDGE
from tests.parts.patience import patience
from tests.sinks.web.asking import is_closed

SECONDS = 8
FILES = 256
CLIENTS = 500
# Connected and silent, half of the headers, half of a body, replies that are not read, and an idle connection.
SENT = (
    b"",
    b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Slow: ",
    b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nhalf",
    b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 200,
    b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
)

# In the group of the other whole-pipeline runs, which need the machine as much.
pytestmark = pytest.mark.xdist_group("run")


class Clients:
    """Connections that are slow in every way and reopened when the server closes them.

    A thread drives them during the `with` block.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._kinds = itertools.cycle(SENT)
        self._open: list[socket.socket] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.opened = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join()
        for client in self._open:
            client.close()

    def _run(self) -> None:
        while not self._stop.wait(0.1):
            self._go_on()

    def _go_on(self) -> None:
        """Send one more byte on each open connection, and reopen each closed one."""
        still_open = []
        for client in self._open:
            if _goes_on(client):
                still_open.append(client)
            else:
                client.close()
        self._open = still_open
        while len(self._open) < CLIENTS and not self._stop.is_set():
            self._open.append(self._connect(next(self._kinds)))

    def _connect(self, sent: bytes) -> socket.socket:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        client.settimeout(10 * patience())
        client.connect(("127.0.0.1", self._port))
        with contextlib.suppress(OSError):  # already closed
            client.sendall(sent)
        self.opened += 1
        return client


def _goes_on(client: socket.socket) -> bool:
    """Return whether it is still open. Read a byte of its reply, if there is one."""
    with contextlib.suppress(BlockingIOError):
        try:
            client.send(b"x", socket.MSG_DONTWAIT)
        except ConnectionError:
            return False
    return not is_closed(client)


class Run:
    """`streamjury run` on its embedded broker, in a process that may open few files."""

    def __init__(self, log: Path) -> None:
        self._log = log
        command = f"ulimit -n {FILES}; exec {sys.executable} -m stream.cli.main run --embedded --json"
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                ["bash", "-c", command],
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, **LOCAL_JUDGE, "STREAMJURY__HTTP__PORT": "0"},
            )

    def port(self) -> int:
        while self.process.poll() is None:
            if match := re.search(r"health=http://127\.0\.0\.1:(\d+)/", self._log.read_text()):
                return int(match[1])
            time.sleep(0.05)
        pytest.fail(self._log.read_text())

    def open_files(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def end(self) -> dict[str, Any]:
        """Stop it with Ctrl-C and return the summary that it prints."""
        self.process.send_signal(signal.SIGINT)
        out, _ = self.process.communicate(timeout=60 * patience())
        assert self.process.returncode == 0, self._log.read_text()
        return json.loads(out.decode().splitlines()[-1])


def _status(url: str) -> int:
    return local_http.get(url, timeout=10 * patience()).status_code


@pytest.fixture
def many_files() -> Iterator[None]:
    """Allow this process to hold the clients' ends."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2048)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_files")
@pytest.mark.slow
def test_500_slow_clients_of_a_process_with_256_files_change_no_verdict(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    run = Run(log)
    with run.process, contextlib.ExitStack() as stack:
        stack.callback(run.process.kill)
        port = run.port()
        url = f"http://127.0.0.1:{port}"
        # Until its stages have their partitions, nothing is judged, with or without clients.
        wait_until(lambda: _status(f"{url}/readyz") == 200, seconds=60, what="a ready run")
        statuses, open_files = [], []
        with Clients(port) as clients:
            begun = time.monotonic()
            # On a busy machine, some of the clients have not come yet after this time.
            while (waited := time.monotonic() - begun) < SECONDS or clients.opened <= CLIENTS:
                assert waited < 10 * SECONDS * patience(), "the server closes no slow connection"
                statuses.append(_status(f"{url}/healthz"))
                open_files.append(run.open_files())
                time.sleep(0.1)
        summary = run.end()
    print(f"{clients.opened} connections, {len(statuses)} answers, at most {max(open_files)} open files")
    assert set(statuses) == {200}
    assert max(open_files) < FILES - 50
    assert "Too many open files" not in log.read_text()
    assert summary["scored"] > SECONDS * 5 / patience()
    assert summary["sampled"] == summary["scored"] + summary["deadletter_by_stage"]["worker"] + summary["left"]
    assert summary["unscored"] == 0
