"""Parse blocks of shell commands, and check the names in commands that cannot be run."""

import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import click
import yaml
from packaging.requirements import Requirement

from stream.cli.main import main

ROOT = Path(__file__).parents[3]

_HERE_DOCUMENT = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
_BETWEEN = frozenset({"|", "||", "&&", ";", "&", "(", ")"})
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*")
# Standard shell programs, which need no check.
_PLAIN = frozenset(
    {
        ".",
        "cat",
        "cd",
        "curl",
        "export",
        "grep",
        "head",
        "jobs",
        "jq",
        "kill",
        "mkdir",
        "pidof",
        "python",
        "sudo",
        "zcat",
    }
)
# Programs in a folder that the target of the same name makes.
_MADE = "$CLONE/.cache/"
_TOOLS = frozenset({"apt-get", "prometheus", "prometheus-alertmanager", "promtool"})


def commands(code: str) -> list[str]:
    """Return the commands of a block, each with the lines that a `\\` or a here-document adds to it."""
    parsed: list[str] = []
    lines = iter(code.splitlines())
    for line in lines:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        command = line
        while command.endswith("\\"):
            command += "\n" + next(lines)
        if here := _HERE_DOCUMENT.search(line):
            for inner in lines:
                command += "\n" + inner
                if inner.strip() == here[2]:
                    break
        parsed.append(command)
    return parsed


def check(command: str) -> None:
    """Fail if a command names a program, a command of ours, an option or a target that does not exist."""
    for words in simple_commands(command):
        _check_words(words)


def simple_commands(command: str) -> Iterator[list[str]]:
    """Return the words of each part of a pipeline or list, without redirections and assignments."""
    first = command.replace("\\\n", " ").splitlines()[0]
    lexer = shlex.shlex(first, posix=True, punctuation_chars=True)
    lexer.commenters, lexer.whitespace_split = "#", True
    words: list[str] = []
    skip = False
    for word in lexer:
        if word in _BETWEEN:
            yield from _with_program(words)
            words = []
        elif set(word) <= set("<>&"):
            skip = True
            if words and words[-1] == "2":
                words.pop()
        elif skip:
            skip = False
        else:
            words.append(word)
    yield from _with_program(words)


def _with_program(words: Sequence[str]) -> Iterator[list[str]]:
    rest = list(words)
    while rest and _ASSIGNMENT.fullmatch(rest[0]):
        rest = rest[1:]
    if rest:
        yield rest


def _check_words(words: Sequence[str]) -> None:
    program, *arguments = words
    if program == "streamjury":
        check_streamjury(arguments)
    elif program == "make":
        _check_make(arguments)
    elif program == "pip":
        _check_pip(arguments)
    elif program == "docker":
        _check_compose(arguments)
    elif program.startswith(_MADE):
        _check_make([program.removeprefix(_MADE).partition("/")[0]])
    elif program == "sudo":
        _check_words(arguments)
    else:
        assert program in _PLAIN | _TOOLS, f"no rule for {program}"


def check_mention(span: str) -> None:
    """Check a command that a text mentions, perhaps without its arguments."""
    words = next(simple_commands(span))
    try:
        _check_words(words)
    except (click.MissingParameter, click.BadOptionUsage):
        return


# Options that print something and exit.
_ANSWERED = {"-h", "--help", "--version"}


def check_streamjury(words: Sequence[str]) -> None:
    """Follow the words from command to subcommand, and parse the remaining ones without running the command."""
    command: click.Command = main
    asks = bool(_ANSWERED & set(words))
    words = [word for word in words if word not in _ANSWERED]
    while isinstance(command, click.Group):
        if not words:
            if asks:
                return
            raise click.MissingParameter(f"{command.name} needs a command")
        subcommand = command.get_command(click.Context(command), words[0])
        assert subcommand is not None, f"there is no command {words[0]}"
        command, words = subcommand, words[1:]
    command.make_context("streamjury", list(words), resilient_parsing=False)


def _check_make(arguments: Sequence[str]) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    wanted = {word for word in arguments if "=" not in word and not word.startswith("-")}
    assert wanted <= targets, f"no such target: {wanted - targets}"


def _check_pip(arguments: Sequence[str]) -> None:
    """Check that the extras in a `pip install` of our package exist."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    extras = set(re.findall(r"^([\w-]+) = \[", text.partition("[project.optional-dependencies]")[2], re.MULTILINE))
    for word in arguments:
        if word.startswith("streamjury"):
            assert Requirement(word).extras <= extras, word


def _check_compose(arguments: Sequence[str]) -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
    profiles = {profile for service in services.values() for profile in service.get("profiles", [])}
    assert arguments[0] == "compose", arguments
    for option, value in pairwise(arguments):
        assert option != "--profile" or value in profiles, value
