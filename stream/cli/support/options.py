"""Options that commands share, and reading the configuration they name."""

import os
from pathlib import Path
from typing import Any, NoReturn

import click

from stream.config.model import Config
from stream.service.setup.config_file import ConfigError, find, load

config_option = click.option(
    "--config",
    "-c",
    "config_path",
    type=click.Path(path_type=Path),
    help="Configuration file (default: $STREAMJURY_CONFIG, else ./streamjury.yaml if it exists).",
)

language_option = click.option(
    "--language",
    type=click.Choice(["en", "ru", "mixed"]),
    default="en",
    show_default=True,
    help="Language of the generated interactions.",
)


PROCESSES = click.IntRange(min=1, max=256)
"""How many processes a command may start. Each keeps a core busy and has a copy of the evaluator."""


_AUTO = "auto"


class ProcessesOrAuto(click.ParamType):
    """A number of processes, or `auto`, which is None."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        return None if value == _AUTO else PROCESSES.convert(value, param, ctx)


def read_config(path: Path | None) -> Config:
    """The configuration, or the end of the process with status 2 after all that is wrong with it was said."""
    try:
        return load(find(path, os.environ), os.environ)
    except ConfigError as error:
        end_with_problems(error)


def end_with_problems(error: ConfigError) -> NoReturn:
    """Says all that is wrong with a configuration, and ends the process with status 2."""
    count = len(error.problems)
    click.echo(f"{source(error.file)}: {count} problem{'s' if count > 1 else ''}", err=True)
    for problem in error.problems:
        click.echo(problem, err=True)
    raise SystemExit(2) from None


def source(file: Path | None) -> str:
    """Where a configuration comes from, for people."""
    return str(file) if file else "built-in defaults (no file)"
