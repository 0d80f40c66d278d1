"""`streamjury` itself: its list of commands and its version, quickly."""

import os
import pty
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from stream.cli.main import main

LOADED_BY_COMMANDS = ("faust", "confluent_kafka", "pydantic", "httpx", "judges", "rich")


def command_summaries() -> dict[str, str]:
    text = CliRunner().invoke(main, ["--help"], terminal_width=80).output
    return dict(re.findall(r"^  (\w+) +(.+)$", text.partition("Commands:")[2], re.MULTILINE))


def test_every_command_is_listed_with_a_summary_of_one_line() -> None:
    context = click.Context(main)
    assert list(command_summaries()) == main.list_commands(context)
    assert all(isinstance(main.get_command(context, name), click.Command) for name in command_summaries())


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["version"]])
def test_help_and_version_do_not_import_what_only_commands_need(arguments: list[str]) -> None:
    """Importing it takes two seconds."""
    script = (
        "import sys; from stream.cli.main import main; main(sys.argv[1:], standalone_mode=False); "
        f"print('loaded:', [name for name in {LOADED_BY_COMMANDS} if name in sys.modules])"
    )
    process = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True)
    assert process.stdout.splitlines()[-1] == "loaded: []"


def test_a_stage_starts_without_the_command_line_of_httpx_and_numbering_plans() -> None:
    """They would take a seventh of the time."""
    script = (
        "import sys, stream.cli.main, stream.cli.commands.stages, httpx; "
        "print({'httpx._client', 'pygments', 'stdnum', 'phonenumbers'} & set(sys.modules))"
    )
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert process.stdout == "{'httpx._client'}\n"


def test_the_version_is_printed_by_option_and_by_command() -> None:
    expected = f"streamjury {metadata.version('streamjury')}\n"
    assert CliRunner().invoke(main, ["--version"], prog_name="streamjury").output == expected
    assert CliRunner().invoke(main, ["version"]).output == expected


@pytest.mark.parametrize(
    ("arguments", "status", "failure"),
    [
        (["audit", "-c", "wrong.yaml"], 2, "streamjury audit failed: wrong.yaml: 1 problem\nsampling.rate: must be"),
        (["criteria", "show", "nothing"], 1, "streamjury criteria failed: "),
    ],
)
@pytest.mark.slow
def test_a_failure_is_on_the_terminal_although_standard_error_is_a_file(
    arguments: list[str], status: int, failure: str, tmp_path: Path
) -> None:
    """`streamjury run 2> run.log` would show only a prompt."""
    (tmp_path / "wrong.yaml").write_text("sampling: {rate: 2}")
    terminal, program_side = pty.openpty()
    command = [sys.executable, "-m", "stream.cli.main", *arguments]
    with (tmp_path / "log").open("wb") as log:
        done = subprocess.run(command, cwd=tmp_path, stdout=program_side, stderr=log, check=False)
    os.close(program_side)
    printed = os.read(terminal, 4096).decode().replace("\r\n", "\n")
    os.close(terminal)
    assert done.returncode == status
    assert printed.startswith(failure)
    assert printed.removeprefix(failure).strip() in (tmp_path / "log").read_text()


def test_another_package_named_judges_is_refused(tmp_path: Path) -> None:
    (tmp_path / "judges").mkdir()
    (tmp_path / "judges/__init__.py").write_text("")
    command = [sys.executable, "-m", "stream.cli.main", "version"]
    environ = os.environ | {"PYTHONPATH": str(tmp_path)}
    process = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert process.returncode == 1
    assert f"the package `judges` at {tmp_path}/judges/__init__.py is not part of Streamjury" in process.stderr
