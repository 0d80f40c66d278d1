"""Stages and commands in separate processes that need not import the program: copies of a process that has done so."""

import io
import json
import multiprocessing
import os
import runpy
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path

from stream.cli.main import main
from tests.parts.limits import patient_limits

_context = multiprocessing.get_context("forkserver")
# Everything that a stage imports, also later. None of it starts a thread, so that a copy is as good as a new process.
_context.set_forkserver_preload(
    [
        "stream.cli.commands.stages",
        "stream.cli.commands.run",
        "stream.archivist.stage",
        "stream.assembler.stage",
        "stream.monitor.stage",
        "sinks.web.application",
        "judges.models.redaction.digits",
        __name__,
        "tests.parts.warm",
    ]
)

# Has the server below run the command with its arguments, folder, environment and files, and ends with its status.
_SHELL_SCRIPT = """#!{python} -IS
import json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
socket.send_fds(server, [b"."], [0, 1, 2])
server.sendall(json.dumps([sys.argv[1:], dict(os.environ), os.getcwd()]).encode())
server.shutdown(socket.SHUT_WR)
sys.exit(int(server.recv(16)))
"""


def start_command(arguments: Sequence[str], *, environ: Mapping[str, str], output: Path) -> BaseProcess:
    """Start `streamjury ARGUMENTS`, which appends everything that it prints to a file."""
    return start_process(_run_command, arguments, environ, output=output)


def start_script(script: Path, *arguments: str, output: Path) -> BaseProcess:
    """Start `python SCRIPT ARGUMENTS`, which appends everything that it prints to a file."""
    return start_process(_run_script, script, arguments, output=output)


def start_process(run: Callable[..., None], *arguments: object, output: Path) -> BaseProcess:
    """Start a function of a module, which appends everything that it prints to a file."""
    # As the first process is called; the log names the others.
    name = "MainProcess"
    process = _context.Process(target=_run, args=(run, arguments, Path.cwd(), output), name=name)
    process.start()
    return process


def _run(run: Callable[..., None], arguments: Sequence[object], folder: Path, output: Path) -> None:
    os.chdir(folder)
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for standard in (1, 2):
        os.dup2(descriptor, standard)
    run(*arguments)


def _run_command(arguments: Sequence[str], environ: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environ)
    _be_patient()
    main(arguments, prog_name="streamjury")


def _be_patient() -> None:
    for limit in patient_limits():
        setattr(*limit)


def _run_script(script: Path, arguments: Sequence[str]) -> None:
    _be_patient()
    sys.argv = [str(script), *arguments]
    runpy.run_path(str(script), run_name="__main__")


@contextmanager
def program_for_shells() -> Iterator[Path]:
    """Yield a folder for the PATH of a shell, with a `streamjury` that need not import the program."""
    with tempfile.TemporaryDirectory(prefix="streamjury-") as name:
        folder = Path(name)
        script = folder / "streamjury"
        script.write_text(_SHELL_SCRIPT.format(python=sys.executable, address=f"{folder}/socket"), encoding="utf-8")
        script.chmod(0o755)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"{folder}/socket")
            listener.listen()
            server = start_process(_serve_shells, listener, output=folder / "log")
        try:
            yield folder
        finally:
            server.kill()
            server.join()


def _serve_shells(listener: socket.socket) -> None:
    """Run each command in a copy of this process, and another copy that waits for it: a pipe has several at once."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        client, _ = listener.accept()
        if os.fork():
            client.close()
            continue
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if command := os.fork():
            _, status = os.waitpid(command, 0)
            client.sendall(str(os.waitstatus_to_exitcode(status)).encode())
            os._exit(0)
        _, files, _, _ = socket.recv_fds(client, 1, 3)
        arguments, environ, folder = json.load(client.makefile())
        for standard, file in enumerate(files):
            os.dup2(file, standard)
            os.close(file)
        client.close()
        sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False))
        os.chdir(folder)
        _run_command(arguments, environ)
