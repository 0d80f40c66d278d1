"""Stages and commands in separate processes that need not import the program: copies of a process that has done so."""

import multiprocessing
import os
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path

from stream.cli.main import main

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
    ]
)


def start_command(arguments: Sequence[str], *, environ: Mapping[str, str], output: Path) -> BaseProcess:
    """Start `streamjury ARGUMENTS`, which appends everything that it prints to a file."""
    return start_process(_run_command, arguments, environ, output=output)


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
    main(arguments, prog_name="streamjury")
