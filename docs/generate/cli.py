"""The page about the command line, written from the commands themselves."""

import inspect
from collections.abc import Iterator
from textwrap import dedent

import click

from stream.cli.main import main

_HEAD = """\
# Commands

<!-- Written by `make reference`. -->

Every command has `-h` and `--help`. Those that read a configuration take it from `--config PATH` (`-c`), else from the
file that `STREAMJURY_CONFIG` names, else from `./streamjury.yaml` if it exists
([configuration](../configuration.md)).

These options mean the same wherever they occur:

| option | meaning |
| --- | --- |
| `-c`, `--config PATH` | the configuration file |
| `--json` | print JSON; nothing else goes to standard output. The help of each command lists the fields |
| `-o`, `--output PATH` | the file or folder to write |
| `--app NAME` | only this app |
| `--since TIME`, `--until TIME` | only this period; a time (`2026-11-15T10:30:00Z`) or an age (`90m`, `7d`) |
| `--limit N` | at most this many |
| `--dry-run` | change nothing, only print what would happen |
| `-y`, `--yes` | skip the confirmation prompt |
| `-v`, `--verbose` | log debug messages to standard error, where logs always go |

| exit status | meaning |
| --- | --- |
| 0 | done |
| 1 | failed, or the check found problems; see standard error |
| 2 | invalid command line or configuration |
| 3 | Kafka cannot be reached, or a topic is missing or closed |
| 130 | Ctrl-C |
"""

# What click keeps as it stands begins with this character.
_AS_IT_STANDS = "\b"


def page() -> str:
    """The whole page, as Markdown."""
    top = click.Context(main, info_name="streamjury")
    names = main.list_commands(top)
    rows = [f"| [`{name}`](#streamjury-{name}) | {_command(top, name).get_short_help_str(200)} |" for name in names]
    overview = "\n".join(["| command | what it does |", "| --- | --- |", *rows, ""])
    return "\n".join([_HEAD, overview, *(section for name in names for section in _sections(top, name))])


def _command(parent: click.Context, name: str) -> click.Command:
    assert isinstance(parent.command, click.Group)
    command = parent.command.get_command(parent, name)
    assert command is not None
    return command


def _sections(parent: click.Context, name: str) -> Iterator[str]:
    """A command, and those below it."""
    command = _command(parent, name)
    context = click.Context(command, info_name=name, parent=parent)
    yield _section(context)
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            yield from _sections(context, below)


def _section(context: click.Context) -> str:
    level = context.command_path.count(" ") + 1
    usage = " ".join([context.command_path, *context.command.collect_usage_pieces(context)])
    parts = [f"{'#' * level} {context.command_path}", _fenced("text", usage), *_paragraphs(context.command)]
    if options := "\n".join(_options(context)):
        parts.append(options)
    return "\n\n".join(parts) + "\n"


def _paragraphs(command: click.Command) -> Iterator[str]:
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        first, _, rest = paragraph.partition("\n")
        if first != _AS_IT_STANDS:
            yield " ".join(paragraph.split())
        elif rest.startswith(("Example:\n", "Examples:\n")):
            yield _fenced("sh", dedent(rest.partition("\n")[2]))
        else:
            yield _fenced("text", dedent(rest))


def _options(context: click.Context) -> Iterator[str]:
    for option in context.command.get_params(context):
        record = option.get_help_record(context)
        if record is not None and option.name != "help":
            names, meaning = record
            yield f"- `{names}`: {' '.join(meaning.split())}"


def _fenced(language: str, text: str) -> str:
    return f"```{language}\n{text}\n```"
