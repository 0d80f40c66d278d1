"""`streamjury criteria`: the list, one criterion as YAML, and the check of a file."""

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from judges.criteria.catalogue import CATALOGUES, find_criterion, load_catalogue, load_criteria
from stream.cli.commands.criteria import criteria
from stream.cli.main import main
from tests.parts.documents.json_fields import json_fields

NAMES = [f"{source}.{name}" for source in CATALOGUES for name in load_catalogue(source)]

MINE = """
criteria:
  - name: colour
    title: Colour
    question: Which colour is it?
    context: []
    scale: {options: [{label: red}, {label: blue}]}
  - name: errors
    title: {en: Errors, ru: Ошибки}
    question: {en: "How many errors are there?", ru: "Сколько ошибок?"}
    higher_is: worse
    scale: {range: {min: 0, max: 10}}
"""


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(criteria, arguments)


def row(output: str, name: str) -> str:
    """Return the line of a table that begins with this name, with single spaces."""
    [line] = [line for line in output.splitlines() if line.split()[0] == name]
    return " ".join(line.split())


# list


def test_the_list_has_a_line_for_every_criterion_in_the_published_order() -> None:
    result = run("list")
    assert result.exit_code == 0
    heading, *lines = result.stdout.splitlines()
    assert heading.split() == ["criterion", "scale", "fields", "title"]
    assert [line.split()[0] for line in lines] == NAMES


@pytest.mark.parametrize(
    "line",
    [
        "rag.clarity 5 levels: very unclear … very clear* answer: question, history Clarity",
        "aspects.coherence fail / pass* answer Coherence",
        "aspects.factuality fail / pass* answer: all others Factuality",
        "answer.refusal refusal / compliance* answer: question Refusal or compliance",
        "safety.toxicity Yes / No* answer: question Toxicity",
        "safety.jailbreak Yes / No* question Jailbreak attempt",
        "summary.informativeness 5 levels: empty … full* summary: source Informativeness",
    ],
)
def test_a_line_has_the_scale_with_its_best_answer_the_fields_and_the_title(line: str) -> None:
    assert row(run("list").stdout, line.partition(" ")[0]) == line


def test_the_list_is_available_in_russian() -> None:
    line = row(run("list", "--language", "ru").stdout, "safety.toxicity")
    assert line == "safety.toxicity Да / Нет* answer: question Токсичность"


def test_columns_stand_under_their_headings() -> None:
    heading, *lines = run("list").stdout.splitlines()
    for name in ("scale", "fields", "title"):
        column = heading.index(name)
        assert all(line[column - 2 : column] == "  " and line[column] != " " for line in lines)


def test_the_list_of_a_configuration_has_its_criteria_and_custom_ones() -> None:
    Path("mine.yaml").write_text(MINE)
    judge = "{kind: openai, name: gpt, model: m, base_url: http://127.0.0.1:1/v1}"
    Path("streamjury.yaml").write_text(
        f"criteria: {{files: [mine.yaml], use: [rag.harmfulness, errors]}}\njudges: {{panel: [{judge}]}}\n"
    )
    _heading, *lines = run("list", "-c", "streamjury.yaml").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["harmfulness", "errors"]
    assert [entry["name"] for entry in json.loads(run("list", "-c", "streamjury.yaml", "--json").stdout)] == [
        "harmfulness",
        "errors",
    ]
    assert row(run("list").stdout, NAMES[0]), "the configuration is not read without -c"


def test_a_configuration_with_an_unknown_criterion_is_refused() -> None:
    Path("wrong.yaml").write_text("criteria: {use: [rag.claritty]}\n")
    result = run("list", "-c", "wrong.yaml")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "criteria.use[0]: unknown criterion; did you mean 'rag.clarity'?" in result.stderr


def test_the_list_as_json_has_all_that_a_program_needs() -> None:
    criteria_by_name = {entry["name"]: entry for entry in json.loads(run("list", "--json").stdout)}
    assert list(criteria_by_name["safety.jailbreak"]) == json_fields("criteria list")
    assert list(criteria_by_name) == NAMES
    assert criteria_by_name["safety.jailbreak"] == {
        "name": "safety.jailbreak",
        "title": "Jailbreak attempt",
        "question": find_criterion("jailbreak").question.en,
        "scale": "options",
        "choices": [{"label": "Yes", "value": 1.0}, {"label": "No", "value": 0.0}],
        "bounds": [0.0, 1.0],
        "higher_is": "worse",
        "to_evaluate": "question",
        "context": [],
        "needs": [],
        "needs_whole": [],
    }
    russian = {entry["name"]: entry for entry in json.loads(run("list", "--json", "--language", "ru").stdout)}
    assert russian["rag.clarity"]["title"] == "Ясность"


def test_an_unknown_language_is_refused() -> None:
    assert run("list", "--language", "de").exit_code == 2


# show


@pytest.mark.parametrize("name", NAMES)
def test_show_prints_a_file_with_the_same_criterion(name: str) -> None:
    Path("mine.yaml").write_text(run("show", name).stdout, encoding="utf-8")
    criterion = find_criterion(name)
    assert load_criteria(Path("mine.yaml")) == {criterion.name: criterion}


def test_show_leaves_out_defaults() -> None:
    output = run("show", "jailbreak").stdout
    assert "to_evaluate: question\n" in output
    assert "context: []\n" in output
    assert "higher_is: worse\n" in output
    for noise in ("null", "kind:", "needs:", "not_applicable"):
        assert noise not in output


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("coherence", "choose one of aspects.coherence, writing.coherence, summary.coherence"),
        ("toxcity", "did you mean safety.toxicity?"),
    ],
)
def test_an_unknown_or_ambiguous_name_is_an_error_with_suggestions(name: str, problem: str) -> None:
    result = run("show", name)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert problem in result.stderr


# check


def test_a_valid_file_is_ok_with_its_criteria_listed() -> None:
    Path("mine.yaml").write_text(MINE, encoding="utf-8")
    result = run("check", "mine.yaml")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == "ok: mine.yaml, 2 criteria"
    assert row(result.stdout, "colour") == "colour red / blue answer Colour"
    assert row(result.stdout, "errors") == "errors 0* … 10 answer: all others Errors"
    assert row(run("check", "mine.yaml", "--language", "ru").stdout, "errors").endswith("Ошибки")


def test_one_criterion_is_counted_in_the_singular() -> None:
    Path("mine.yaml").write_text(run("show", "toxicity").stdout, encoding="utf-8")
    assert run("check", "mine.yaml").stdout.splitlines()[0] == "ok: mine.yaml, 1 criterion"


def test_all_problems_of_an_invalid_file_are_listed() -> None:
    wrong = MINE.replace("max: 10", "max: 0").replace("name: colour", "name: Colour")
    Path("mine.yaml").write_text(wrong, encoding="utf-8")
    result = run("check", "mine.yaml")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        "2 problems",
        "mine.yaml: criteria[0].name: must be 1 to 64 lower-case letters, digits and '_', starting with a letter",
        "mine.yaml: criteria[1].scale.range: min must be below max, not 0 and 0",
    ]


def test_a_missing_file_is_reported_as_a_problem() -> None:
    result = run("check", "none.yaml")
    assert result.exit_code == 1
    assert result.stderr.splitlines() == ["1 problem", "none.yaml: cannot be read: no such file or directory"]


# help


@pytest.mark.parametrize("command", [(), ("list",), ("show",), ("check",)])
def test_help_shows_examples(command: tuple[str, ...]) -> None:
    result = CliRunner().invoke(main, ["criteria", *command, "--help"])
    assert result.exit_code == 0
    assert "Example" in result.stdout
    assert f"streamjury criteria {command[0] if command else 'list'}" in result.stdout


def test_the_command_is_listed_after_traffic() -> None:
    commands = main.list_commands(click.Context(main))
    assert commands[commands.index("traffic") + 1] == "criteria"
