"""A real PostgreSQL server, from Debian's package, in a temporary folder and as an unprivileged user."""

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Self

import psycopg

from tests.parts.patience import patience

_START_SECONDS = 30.0
_STOP_SECONDS = 15.0
# Tests must not wait for disks, except for what a crash of the server would show, which they do not look at.
_SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "max_connections": "50",
    "shared_buffers": "128MB",
    "max_wal_size": "2GB",
}
# Debian's package makes this user; the server refuses to run as root.
_USER = "postgres"


def why_unavailable() -> str | None:
    """Return the reason why no server can run and the remedy, or None."""
    if _programs() is None:
        return "no PostgreSQL: install Debian's package postgresql"
    if os.geteuid() == 0 and not _has_user():
        return f"PostgreSQL does not run as root, and there is no user {_USER}: install Debian's package postgresql"
    return None


def _programs() -> Path | None:
    """Returns the folder of the newest server's programs."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: float(folder.parent.name))
    initdb = shutil.which("initdb")
    return folders[-1] if folders else Path(initdb).parent if initdb else None


def _has_user() -> bool:
    try:
        pwd.getpwnam(_USER)
    except KeyError:
        return False
    return True


class PostgresServer:
    """A server with a Unix socket in a temporary folder; its data survives restarts within the `with` block."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = Path()

    def __enter__(self) -> Self:
        # Not below a folder that only root may enter.
        self._folder = Path(tempfile.mkdtemp(prefix="streamjury-postgres-", dir="/tmp"))
        if os.geteuid() == 0:
            shutil.chown(self._folder, _USER)
        try:
            self._run("initdb", "--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--username=tests")
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self._end(signal.SIGQUIT)
        shutil.rmtree(self._folder, ignore_errors=True)

    def start(self) -> None:
        """Starts the server on the data it left, and returns when it answers."""
        assert self._process is None, "the server is running"
        settings = [f"--{name}={value}" for name, value in _SETTINGS.items()]
        child = Path(__file__).with_name("child.py")
        server = [*_as_user(), _program("postgres"), "-D", str(self._data), "-k", str(self._folder), *settings]
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(child), *server],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd="/",
            )
        self._wait_until_ready()

    def stop(self) -> None:
        """Ends the server in good order, without waiting for its clients; its data stays."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Ends the server at once; its data stays as it happens to be, and it recovers when it starts."""
        self._end(signal.SIGQUIT)

    def create_database(self) -> str:
        """Creates an empty database and returns its URL."""
        name = f"archive_{uuid.uuid4().hex}"
        with psycopg.connect(self._address, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return f"postgresql://tests@/{name}?host={self._folder}"

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    @property
    def _address(self) -> str:
        return f"postgresql://tests@/postgres?host={self._folder}"

    def _run(self, program: str, *arguments: str) -> None:
        command = [*_as_user(), _program(program), "-D", str(self._data), *arguments]
        result = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
        if result.returncode:
            raise RuntimeError(f"{program} failed:\n{result.stdout}{result.stderr}")

    def _wait_until_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + _START_SECONDS * patience()
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                psycopg.connect(self._address, connect_timeout=2).close()
                return
            except psycopg.OperationalError:
                time.sleep(0.05)
        log = (self._folder / "server.log").read_text(errors="replace")[-3000:]
        self._end(signal.SIGQUIT)
        raise RuntimeError(f"PostgreSQL did not start; the end of its log:\n{log}")

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        process, self._process = self._process, None
        assert process.stdin is not None
        pid_file = self._data / "postmaster.pid"
        try:
            os.kill(int(pid_file.read_text().split()[0]), how)
            process.wait(_STOP_SECONDS)
        except (FileNotFoundError, ProcessLookupError, IndexError, subprocess.TimeoutExpired):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        finally:
            process.stdin.close()


def _program(name: str) -> str:
    folder = _programs()
    assert folder is not None
    return str(folder / name)


def _as_user() -> list[str]:
    if os.geteuid() != 0:
        return []
    return ["setpriv", f"--reuid={_USER}", f"--regid={_USER}", "--clear-groups", "--"]
