"""Options mean the same in every command, and the help of every command has an example."""

import re
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from stream.cli.main import main
from stream.cli.support.time_option import TimeOption
from tests.parts.documents.json_fields import json_fields

SHORT_FORMS = {"--config": "-c", "--output": "-o", "--yes": "-y", "--verbose": "-v"}


def commands(group: click.Group, parent: click.Context | None = None) -> Iterator[tuple[str, click.Command]]:
    """Yield every command with its words, such as `topics create`."""
    context = click.Context(group, info_name="streamjury" if parent is None else group.name, parent=parent)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        words = f"{context.command_path} {name}".removeprefix("streamjury ")
        yield words, command
        if isinstance(command, click.Group):
            yield from ((f"{name} {subname}", subcommand) for subname, subcommand in commands(command))


COMMANDS = dict(commands(main))
# Their lines are records of topics.
DESCRIBED_BY_A_SCHEMA = {"tail", "alerts list"}


def options(name: str) -> dict[str, click.Option]:
    """Return the option of this name of every command that has it."""
    return {
        words: option
        for words, command in COMMANDS.items()
        for option in command.params
        if isinstance(option, click.Option) and name in option.opts
    }


@pytest.mark.parametrize("words", COMMANDS)
def test_help_of_every_command_has_an_example_that_calls_it(words: str) -> None:
    result = CliRunner().invoke(main, [*words.split(), "--help"])
    assert result.exit_code == 0
    assert re.search(rf"Examples?:\n(?:    .*\n)*?    .*\bstreamjury {words}\b", result.stdout), result.stdout


@pytest.mark.parametrize(("long", "short"), SHORT_FORMS.items())
def test_an_option_has_the_same_short_form_everywhere(long: str, short: str) -> None:
    assert [words for words, option in options(long).items() if set(option.opts) != {long, short}] == []
    assert set(options(long)) == set(options(short)), "the short form stands for another option, too"


@pytest.mark.parametrize("name", ["--config", "--verbose", "--yes"])
def test_options_that_do_the_same_everywhere_say_the_same(name: str) -> None:
    # Only `criteria list` works without a configuration, so its help explains the effect of one.
    helps = {option.help for words, option in options(name).items() if words != "criteria list"}
    assert len(options(name)) > 1
    assert len(helps) == 1, helps


def test_every_command_that_reads_a_configuration_takes_it_by_the_same_option() -> None:
    assert {type(option.type) for option in options("--config").values()} == {click.Path}
    assert {"config check", "criteria list", "evaluate", "run", "send"} <= set(options("--config"))


@pytest.mark.parametrize("name", ["--since", "--until", "--at"])
def test_a_time_is_given_in_the_same_form_everywhere(name: str) -> None:
    assert {type(option.type) for option in options(name).values()} == {TimeOption}


def test_machine_readable_output_is_requested_with_json_everywhere() -> None:
    commands_with_json = set(options("--json"))
    assert {"send", "topics create", "replay", "config check", "evaluate", "alerts explain"} <= commands_with_json
    assert all(option.is_flag and (option.help or "").startswith("Print ") for option in options("--json").values())


@pytest.mark.parametrize("words", sorted(set(options("--json")) - DESCRIBED_BY_A_SCHEMA))
def test_the_help_documents_the_fields_of_the_json(words: str) -> None:
    names = json_fields(words)
    assert len(names) == len(set(names)) > 3


def test_a_number_of_records_is_limited_by_the_same_option() -> None:
    assert {"tail", "replay", "backfill", "evaluate", "traffic", "audit"} <= set(options("--limit"))


def test_the_former_name_of_an_option_still_works_but_is_not_shown() -> None:
    runner = CliRunner()
    result = runner.invoke(main, ["traffic", "--count", "3", "--seed", "1", "--dry-run"])
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, 3), result.output
    assert "--count" not in runner.invoke(main, ["traffic", "--help"]).stdout
