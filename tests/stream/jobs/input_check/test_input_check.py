"""`streamjury input check` shows what is read into which field, and guesses where missing fields are."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from stream.cli.commands.input import input_group
from stream.cli.main import main
from stream.config.model import Config
from stream.config.sections.input import InputConfig
from stream.jobs.input_check.check import SampleRecord, check_input
from stream.jobs.input_check.hints import find_hints
from tests.parts.documents.json_fields import json_fields

MAPPED = {"input": {"adapter": "mapping", "mapping": {"id": "request.id", "question": "request.text", "answer": "out"}}}
LOGGED = {"request": {"id": 7, "text": "How?"}, "response": {"text": "So."}, "docs": ["a", "b"], "kind": "chat"}


def check(tmp_path: Path, config: dict[str, Any], *records: Any, options: tuple[str, ...] = ("--json",)) -> Result:
    (tmp_path / "streamjury.json").write_text(json.dumps(config))
    lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
    (tmp_path / "records.jsonl").write_text("\n".join(lines))
    arguments = ["input", "check", str(tmp_path / "records.jsonl"), "-c", str(tmp_path / "streamjury.json"), *options]
    return CliRunner().invoke(main, arguments)


def test_fields_problems_and_hints(tmp_path: Path) -> None:
    result = check(tmp_path, MAPPED, LOGGED, {**LOGGED, "out": "Yes."}, "", LOGGED, "nonsense")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert {name: document[name] for name in ("ok", "encoding", "adapter", "records", "readable")} == {
        "ok": False,
        "encoding": "json",
        "adapter": "mapping",
        "records": 4,
        "readable": 1,
    }
    fields = {entry.pop("field"): entry for entry in document["fields"]}
    assert fields["question"] == {"path": "request.text", "required": True, "found": 3, "example": "How?"}
    assert fields["answer"] == {"path": "out", "required": True, "found": 1, "example": "Yes."}
    assert fields["app"] == {"path": None, "required": False, "found": 0, "example": None}
    assert document["problems"] == [
        {"place": "line 1", "kind": "invalid_record", "message": "answer: nothing at 'out'"},
        {"place": "line 4", "kind": "invalid_record", "message": "answer: nothing at 'out'"},
        {"place": "line 5", "kind": "bad_json", "message": document["problems"][2]["message"]},
    ]
    assert document["hints"] == ["`docs` looks like the contexts: set input.mapping.contexts to docs"]


def test_missing_field_is_guessed(tmp_path: Path) -> None:
    result = check(tmp_path, MAPPED, LOGGED, LOGGED)
    hint = "`response.text` looks like the answer: set input.mapping.answer to response.text"
    assert hint in json.loads(result.stdout)["hints"]


def test_readable_records(tmp_path: Path) -> None:
    record = {"id": "1", "question": "How\x1b[31m?", "answer": "So.", "contexts": [{"text": "x" * 20_000}]}
    result = check(tmp_path, {}, record, options=())
    assert result.exit_code == 0, result.output
    assert "1 of 1 records can be read" in result.stdout
    assert "contexts[0].text" in result.stdout
    assert "\x1b" not in result.stdout


def test_no_records_is_not_ok(tmp_path: Path) -> None:
    assert check(tmp_path, {}).exit_code == 1


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        ('{"resourceSpans": [{"scopeSpans": []}]}\n', "these are OpenTelemetry traces, not interactions"),
        (json.dumps([{"id": "1", "question": "q", "answer": "a"}], indent=2), "the file is one JSON document"),
        ("id,question,answer\n1,q,a\n", "if it is CSV, `streamjury evaluate` reads it"),
    ],
)
def test_another_kind_of_file_is_recognised(tmp_path: Path, content: str, hint: str) -> None:
    path = tmp_path / "file"
    path.write_text(content, encoding="utf-8")
    result = CliRunner().invoke(input_group, ["check", str(path), "--json"])
    assert result.exit_code == 1
    (found,) = json.loads(result.stdout)["hints"]
    assert hint in found


def test_one_broken_line_is_not_another_kind_of_file(tmp_path: Path) -> None:
    path = tmp_path / "file.jsonl"
    path.write_text('{"id": \n{"id": "1", "question": "q", "answer": "a"}\n', encoding="utf-8")
    result = CliRunner().invoke(input_group, ["check", str(path), "--json"])
    assert json.loads(result.stdout)["hints"] == []


def test_usage() -> None:
    for arguments in ((), ("x.jsonl", "--topic")):
        assert "give a FILE or --topic" in CliRunner().invoke(input_group, ["check", *arguments]).output
    assert "cannot read nowhere.jsonl" in CliRunner().invoke(input_group, ["check", "nowhere.jsonl"]).output


def test_help_lists_every_json_field(tmp_path: Path) -> None:
    assert set(json_fields("input check")) == set(json.loads(check(tmp_path, {}, LOGGED).stdout))


NAMES = ["id", "output", "text", "a.b", ""]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "output", "text", "a.b", ""]), inner)
    ),
    max_leaves=20,
)


@given(st.lists(st.dictionaries(st.sampled_from(["id", "question", "response", "docs", "x"]), JSON), max_size=4))
def test_hints_name_paths_that_lead_to_a_value(documents: list[dict[str, object]]) -> None:
    hints = find_hints(InputConfig(), documents, missing={"id", "question", "answer", "contexts"}, found=set())
    for hint in hints:
        path = hint.split("`")[1]
        assert any(_follow(document, path) is not None for document in documents)


def _follow(value: Any, path: str) -> Any:
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


@pytest.mark.parametrize("value", [None, b"", b"[1]", b"\xff", b'{"id": NaN}', b'{"a": 1, "a": 2}'])
def test_unreadable_records_are_problems(value: bytes | None) -> None:
    result = check_input(Config(), [SampleRecord(place="line 1", value=value)])
    assert (result.ok, len(result.problems)) == (False, 1)
