"""`streamjury sampling explain`: which rule, which probability, and why, from a configuration and a record alone."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from stream.cli.commands.sampling import sampling
from stream.cli.main import main
from stream.records.decision import Cohort
from tests.parts.documents.json_fields import json_fields

CONFIG = """
sampling:
  rate: 0.05
  safety: {triggers: [thumbs_down, refusal]}
  rules:
    - {name: tests, match: {headers: {x-synthetic: {exists: true}}}, rate: 0}
    - {name: vip, match: {app: shop, body: {timing.ms: {min: 100}}}, rate: 0.9, lane: gold, max_per_minute: 5}
    - {name: docs, match: {app: {regex: ^docs}}, target_per_minute: 60, min_rate: 0.5}
"""
# Their draws are 0.337846 and 0.589849.
LOW, HIGH = "5", "order-17"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.upper().startswith("STREAMJURY")]:
        monkeypatch.delenv(name)
    Path("streamjury.yaml").write_text(CONFIG)


def explain(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(sampling, ["explain", *arguments], input=stdin)


def record(**fields: Any) -> str:
    Path("record.json").write_text(json.dumps({"id": LOW, "question": "q", "answer": "a", **fields}))
    return "record.json"


def test_every_tried_rule_is_listed_with_the_condition_that_failed() -> None:
    result = explain("--id", LOW, "--file", record(app="docs-en"))
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "config   streamjury.yaml, sampling.rate 0.05",
        "id       5",
        "rule     tests: no, header x-synthetic is missing",
        "rule     vip: no, app is not shop (it is docs-en)",
        "rule     docs: yes, app matches /^docs/",
        "trigger  thumbs_down: no",
        "trigger  refusal: no",
        "decision rule docs, lane main, probability 0.5",
        "rate     adapts to the traffic between 0.5 and 1, for 60 per minute",
        "rate     the current rate is unknown without a step log; this is the lowest",
        "outcome  sampled: the draw 0.337846 is below 0.5",
    ]


def test_a_record_that_no_rule_matches_gets_the_default() -> None:
    output = explain("--id", HIGH, "--file", record(app="shop", timing={"ms": 5})).stdout
    assert "vip: no, timing.ms is not at least 100 (it is 5)" in output
    assert "rule     default (no other rule matches)\n" in output
    assert output.endswith("outcome  sampled_out: the draw 0.589849 is not below 0.05\n")


def test_without_a_rate_of_its_own_it_says_that_the_demo_uses_another() -> None:
    Path("streamjury.yaml").unlink()
    assert explain("--id", HIGH).stdout.startswith(
        "config   built-in defaults (no file), sampling.rate 0.1, the default (`streamjury run --embedded` uses 0.5 "
        "instead)\n"
    )
    Path("streamjury.yaml").write_text("sampling: {target_per_minute: 5, rate: null}")
    assert explain("--id", HIGH).stdout.startswith("config   streamjury.yaml, sampling.target_per_minute 5\n")


def test_caps_and_filtering_are_reported() -> None:
    assert "cap      5 per minute" in explain("--id", HIGH, "--file", record(app="shop", timing={"ms": 500})).stdout
    output = explain("--id", HIGH, "--header", "x-synthetic=", "--header", "a=b=c").stdout
    assert output.splitlines()[2:] == [
        "rule     tests: yes, header x-synthetic exists",
        "decision rule tests, lane main, probability 0",
        "outcome  filtered: the rate is 0",
    ]


def test_safety_takes_precedence_with_its_reason() -> None:
    output = explain("--id", HIGH, "--file", record(app="docs", tags={"thumbs": "down"})).stdout
    assert "trigger  thumbs_down: yes, tag thumbs is negative" in output
    assert "decision rule safety, lane safety, probability 1" in output
    assert "follows the traffic" not in output


def test_without_a_key_the_id_in_the_record_counts() -> None:
    assert explain("--file", record()).stdout.splitlines()[1] == "id       5"
    piped = explain("--file", "-", stdin=b'{"id": "x", "question": "q", "answer": "a"}')
    assert piped.stdout.splitlines()[1] == "id       x"


def test_the_explanation_as_json() -> None:
    document = json.loads(explain("--id", LOW, "--file", record(app="docs"), "--json").stdout)
    assert list(document) == json_fields("sampling explain")
    assert document == {
        "id": LOW,
        "outcome": "sampled",
        "chosen": True,
        "rule": "docs",
        "lane": "main",
        "probability": 0.5,
        "draw": Cohort("streamjury").draw(LOW),
        "why": "rule docs: app matches /^docs/",
        "rules": [
            {"rule": "tests", "matched": False, "why": "header x-synthetic is missing"},
            {"rule": "vip", "matched": False, "why": "app is not shop (it is docs)"},
            {"rule": "docs", "matched": True, "why": "app matches /^docs/"},
        ],
        "triggers": {"thumbs_down": None, "refusal": None},
        "target_per_minute": 60.0,
        "bounds": [0.5, 1.0],
        "rate_known": False,
        "max_per_minute": None,
        "config": "streamjury.yaml",
        "rate": 0.05,
        "salt": "streamjury",
        "version": "1",
    }


def test_a_salt_that_is_set_is_not_printed() -> None:
    Path("c.yaml").write_text("sampling: {salt: pepper-and-salt}")
    output = explain("--id", LOW, "--json", "-c", "c.yaml").stdout
    assert json.loads(output)["salt"] == "***"
    assert "pepper" not in output


def test_a_step_log_provides_the_current_rate() -> None:
    Path("steps.jsonl").write_text('{"at_ms": 1000, "rule": "default", "k": 4}\n')
    Path("c.yaml").write_text("sampling: {target_per_minute: 5, step_log: steps.jsonl}")
    output = explain("--id", LOW, "-c", "c.yaml").stdout
    assert "probability 0.5\n" in output
    assert "unknown" not in output


def test_the_record_is_not_required_if_only_an_ineffective_trigger_would_read_it() -> None:
    Path("c.yaml").write_text("sampling: {rate: 1, safety: {rate: 0.5}}")
    result = explain("--id", LOW, "-c", "c.yaml")
    assert result.exit_code == 0
    assert "trigger" not in result.stdout


def test_the_time_of_the_record_decides_when_steps_are_replayed() -> None:
    Path("steps.jsonl").write_text(
        '{"at_ms": 1000, "rule": "default", "k": 8}\n{"at_ms": 2000, "rule": "default", "k": 4}\n'
    )
    Path("c.yaml").write_text("sampling: {target_per_minute: 5, replay_steps: steps.jsonl}")
    for time, probability in (
        ("1970-01-01T00:00:01Z", 0.25),
        ("1970-01-01T00:00:02", 0.5),
        ("1970-01-01T01:00:02+01:00", 0.5),
    ):
        document = json.loads(explain("--id", LOW, "-c", "c.yaml", "--json", "--at", time).stdout)
        assert document["probability"] == probability


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ([], 2, "give --id or --file, or both"),
        (["--id", "x"], 1, "the rules depend on the record's value; give it with --file"),
        (["--id", "x", "--file", "none.json"], 1, "cannot read none.json: no such file"),
        (["--id", "x", "--header", "novalue"], 2, "'novalue' must have the form name=value"),
        (["--id", "x", "--at", "noon"], 2, "'noon' is neither a time such as"),
        (["--id", "x", "-c", "none.yaml"], 2, "none.yaml: 1 problem"),
    ],
)
def test_wrong_arguments_are_reported(arguments: list[str], status: int, message: str) -> None:
    result = explain(*arguments)
    assert result.exit_code == status
    assert message in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "the record cannot be used (bad_json): not JSON"),
        (b"[]", "must be a JSON object, not an array"),
        (b"", "the record cannot be used (empty)"),
        (b'{"question": "q"}', "the record cannot be used (invalid_record): id: Field required"),
    ],
)
def test_a_record_that_cannot_be_used_is_reported_with_the_reason(content: bytes, message: str) -> None:
    result = explain("--file", "-", stdin=content)
    assert result.exit_code == 1
    assert message in result.stderr


def test_ids_that_are_not_utf8_are_shown_escaped() -> None:
    Path("c.yaml").write_text("sampling: {rate: 1}")
    assert explain("--id", "вопрос\udcff", "-c", "c.yaml").stdout.splitlines()[1] == "id       вопрос\\xff"


def test_the_command_is_listed_and_explains_itself() -> None:
    assert "sampling" in CliRunner().invoke(main, ["--help"]).output
    output = CliRunner().invoke(main, ["sampling", "explain", "--help"]).output
    assert "streamjury sampling explain --id order-17 --file record.json" in output
