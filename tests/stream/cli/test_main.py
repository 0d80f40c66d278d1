"""`streamjury` itself: its list of commands and its version, quickly."""

import os
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


def test_the_version_is_printed_by_option_and_by_command() -> None:
    expected = f"streamjury {metadata.version('streamjury')}\n"
    assert CliRunner().invoke(main, ["--version"], prog_name="streamjury").output == expected
    assert CliRunner().invoke(main, ["version"]).output == expected


def test_another_package_named_judges_is_refused(tmp_path: Path) -> None:
    (tmp_path / "judges").mkdir()
    (tmp_path / "judges/__init__.py").write_text("")
    command = [sys.executable, "-m", "stream.cli.main", "version"]
    environ = os.environ | {"PYTHONPATH": str(tmp_path)}
    process = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert process.returncode == 1
    assert f"the package `judges` at {tmp_path}/judges/__init__.py is not part of Streamjury" in process.stderr
