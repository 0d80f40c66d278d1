"""Options that commands share, and reading of the configuration file."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Literal, NoReturn

import click

from stream.config.model import Config
from stream.service.setup.config_file import ConfigError, find, load

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Adds an option to a command."""


def config_option_with_help(text: str) -> Decorator:
    return click.option("--config", "-c", "config_path", type=click.Path(path_type=Path), help=text)


config_option = config_option_with_help(
    "Configuration file (default: $STREAMJURY_CONFIG, else ./streamjury.yaml if it exists)."
)

verbose_option = click.option(
    "--verbose", "-v", is_flag=True, help="Log debug messages to standard error, like logging.level: debug."
)

yes_option = click.option(
    "--yes", "-y", "is_confirmed", is_flag=True, help="Skip the confirmation prompt (never shown without a terminal)."
)


def json_option(printed: str = "one JSON object instead of text") -> Decorator:
    return click.option("--json", "as_json", is_flag=True, help=f"Print {printed}.")


def output_option(text: str, *, metavar: Literal["DIR", "FILE"]) -> Decorator:
    path = click.Path(path_type=Path, dir_okay=metavar == "DIR")
    return click.option("--output", "-o", type=path, metavar=metavar, help=text)


def limit_option(text: str, *, least: int = 1) -> Decorator:
    return click.option("--limit", type=click.IntRange(min=least), help=text)


language_option = click.option(
    "--language",
    type=click.Choice(["en", "ru", "mixed"]),
    default="en",
    show_default=True,
    help="Language of the generated interactions.",
)


PROCESSES = click.IntRange(min=1, max=256)
"""Number of processes that a command may start. Each uses a core and has a copy of the evaluator."""


_AUTO = "auto"


class ProcessesOrAuto(click.ParamType):
    """A number of processes, or `auto`, which is None."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        return None if value == _AUTO else PROCESSES.convert(value, param, ctx)


def load_config(path: Path | None) -> Config:
    """Return the configuration; raise ConfigError with all its problems."""
    return load(find(path, os.environ), os.environ)


def read_config(path: Path | None, *, verbose: bool = False) -> Config:
    """Return the configuration; if it is invalid, print all its problems and exit with status 2.

    `verbose` overrides the configured log level.
    """
    try:
        config = load_config(path)
    except ConfigError as error:
        end_with_problems(error)
    if not verbose:
        return config
    return config.model_copy(update={"logging": config.logging.model_copy(update={"level": "debug"})})


class InvalidConfiguration(click.ClickException):
    """All problems of a configuration, for people."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(self.format_message(), file=file, err=file is None)


def end_with_problems(error: ConfigError) -> NoReturn:
    """Print all problems of a configuration, and exit with status 2."""
    count = len(error.problems)
    lines = [f"{source(error.file)}: {count} problem{'s' if count > 1 else ''}", *map(str, error.problems)]
    raise InvalidConfiguration("\n".join(lines)) from None


def source(file: Path | None) -> str:
    """Name the origin of a configuration, for people."""
    return str(file) if file else "built-in defaults (no file)"
