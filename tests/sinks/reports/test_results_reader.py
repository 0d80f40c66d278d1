"""Reading a results file, and the errors for an invalid one."""

import json
from pathlib import Path
from random import Random

import pytest

from sinks.reports import results_reader
from sinks.reports.results_reader import ResultsError, read_results
from tests.sinks.reports.invented import row, run
from tests.sinks.reports.sample import write_results


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "results.jsonl"


@pytest.mark.parametrize("step", [1, 3, 1_000_003, 2**50])
def test_rows_come_by_rising_number_in_whatever_order_they_finished(file: Path, step: int) -> None:
    numbers = [step * factor for factor in range(1, 8)]
    Random(0).shuffle(numbers)
    results = read_results(write_results(file, run(), (row(number) for number in numbers)))
    assert [result.row for result in results.rows()] == sorted(numbers)
    assert len(results) == len(numbers)
    assert results.number_at(1) == 2 * step
    assert [result.row for result in results.rows_at([2, 0])] == [3 * step, step]


def test_a_folder_stands_for_the_results_in_it(file: Path) -> None:
    write_results(file, run(name="there.csv"), [row(1)])
    assert read_results(file.parent).run.name == "there.csv"


@pytest.mark.parametrize("number", [2, 1_000])
def test_the_last_evaluation_of_a_row_counts(file: Path, number: int) -> None:
    results = read_results(write_results(file, run(), [row(number, 0.1), row(1, 0.2), row(number, 0.9)]))
    scores = [(result.row, result.evaluation and result.evaluation.composite.score) for result in results.rows()]
    assert scores == [(1, 0.2), (number, 0.9)]


def test_wherever_a_crash_cuts_the_last_line_the_rows_before_it_can_be_read(file: Path) -> None:
    whole = write_results(file, run(), [row(1), row(2)], finished=False).read_bytes()
    last = whole.rindex(b"\n", 0, -1) + 1
    for end in range(last, len(whole) + 1):
        file.write_bytes(whole[:end])
        # A complete row may lack only its line end.
        expected = [1, 2] if end >= len(whole) - 1 else [1]
        assert [result.row for result in read_results(file).rows()] == expected, end


def test_a_run_has_an_end_only_if_nothing_follows_it(file: Path) -> None:
    assert read_results(write_results(file, run(), [row(1)])).end is not None
    assert read_results(write_results(file, run(), [row(1)], finished=False)).end is None
    lines = write_results(file, run(), [row(1), row(2)]).read_text().splitlines()
    file.write_text("\n".join([lines[0], lines[1], lines[3], lines[2], ""]))
    assert read_results(file).end is None


def test_columns_are_those_of_the_file_then_others_in_order_of_appearance(file: Path) -> None:
    rows = [row(3, source={"z": 1, "b": 1}), row(1, source={"b": 1, "c": 1}), row(2, source={"a": 1})]
    assert read_results(write_results(file, run(columns=("a",)), rows)).columns == ("a", "b", "c", "z")


def test_too_many_columns_are_not_all_kept(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results_reader, "MAX_COLUMNS", 2)
    results = read_results(write_results(file, run(), [row(1, source={"a": 1, "b": 2}), row(2, source={"c": 3})]))
    assert (results.columns, results.more_columns) == (("a", "b"), True)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{not json}\n", "line 3: is not a result"),
        ('{"kind": "row"}\n', "line 3: has kind 'row'"),
        ('{"kind": "note", "row": 3}\n', "line 3: has kind 'note', expected a row or the end"),
        ('{"kind": "row", "row": 0}\n', "line 3: is not a result"),
        ('{"kind": "row", "row": 99999999999999999999}\n', "line 3: is not a result"),
        ('{"kind": "end"}\n', "line 3: ended_at: Field required"),
        ('["row"]\n', "line 3: is not a result"),
        (b"\xff\xfe\n", "line 3: is not a result"),
    ],
)
def test_an_invalid_line_is_named(file: Path, line: str | bytes, message: str) -> None:
    write_results(file, run(), [row(1)], finished=False)
    with file.open("ab") as appended:
        appended.write(line if isinstance(line, bytes) else line.encode())
    with pytest.raises(ResultsError, match=message) as error:
        read_results(file)
    assert (error.value.path, error.value.line) == (file, 3)


def test_a_row_with_a_wrong_value_is_named_when_it_is_read(file: Path) -> None:
    write_results(file, run(), [row(1), row(2)], finished=False)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    lines[2]["evaluation"]["composite"]["score"] = 1.5
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    rows = read_results(file).rows()
    assert next(rows).row == 1
    with pytest.raises(ResultsError, match=r"line 3: evaluation\.composite\.score: "):
        next(rows)


def test_an_invalid_results_file_is_reported(file: Path) -> None:
    with pytest.raises(ResultsError, match=r"cannot be read \(No such file or directory\)"):
        read_results(file)
    file.write_bytes(b"")
    with pytest.raises(ResultsError, match="is empty"):
        read_results(file)
    file.write_text('{"id": 1}\n')
    with pytest.raises(ResultsError, match="line 1: name: Field required"):
        read_results(file)
    file.write_text(run(schema_version="streamjury.results/2").model_dump_json() + "\n")
    with pytest.raises(ResultsError, match=r"line 1: this file has version streamjury\.results/2"):
        read_results(file)
