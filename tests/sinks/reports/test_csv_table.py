"""The table reads back as the judged rows, with the results beside them."""

import csv
import io
import json
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from judges.values.evaluation import CompositeStatus
from sinks.reports.csv_table import Table, name_added_columns
from sinks.reports.results_schema import Row, RowError
from tests.sinks.reports.invented import dimension, hostile, row, verdict

DIMENSIONS = ("groundedness", "completeness")


def write_table(columns: Sequence[str], *rows: Row) -> tuple[list[list[str]], Table]:
    file = io.StringIO(newline="")
    table = Table(file, columns, DIMENSIONS)
    for result in rows:
        table.add(result)
    return list(csv.reader(io.StringIO(file.getvalue(), newline=""), strict=True)), table


@given(st.lists(st.lists(hostile, min_size=2, max_size=2), max_size=5))
def test_the_texts_of_the_file_come_back_as_they_were(texts: list[list[str]]) -> None:
    rows = [
        row(number, source=dict(zip(("a", "b"), cells, strict=True))) for number, cells in enumerate(texts, start=1)
    ]
    (_header, *read_back), _table = write_table(("a", "b"), *rows)
    assert [cells[:2] for cells in read_back] == texts


@given(st.lists(hostile, min_size=1, max_size=6, unique=True))
def test_the_columns_of_the_file_come_back_as_they_were(columns: list[str]) -> None:
    [header], _table = write_table(columns)
    assert header[: len(columns)] == columns
    added = [name.casefold() for name in header[len(columns) :]]
    assert len(set(added)) == len(added)
    assert not set(added) & {name.strip().casefold() for name in columns}


def test_results_follow_the_columns_of_the_file() -> None:
    dimensions = {
        "groundedness": dimension(verdict("one", 1), option="some", label="немного"),
        "completeness": dimension(verdict("one", None)),
    }
    judged = row(1, 2 / 3, dimensions=dimensions, status=CompositeStatus.QUESTIONABLE, source={"q": "Why?"})
    unread = Row(row=2, source={"q": ""}, error=RowError(kind="invalid_row", message="no"))
    header, first, second = write_table(("q",), judged, unread)[0]
    assert header == [
        "q",
        "groundedness_score",
        "groundedness_level",
        "groundedness_option",
        "groundedness_label",
        "groundedness_status",
        "groundedness_explanation",
        "completeness_score",
        "completeness_level",
        "completeness_option",
        "completeness_label",
        "completeness_status",
        "completeness_explanation",
        "composite",
        "coverage",
        "truncated",
        "status",
    ]
    groundedness, completeness = ["0.5", "1", "some", "немного", "scored"], ["", "", "", "", "insufficient"]
    explained = [verdict("one", value).explanation or verdict("one", value).detail or "" for value in (1, None)]
    cells = [*groundedness, explained[0], *completeness, explained[1]]
    assert first == ["Why?", *cells, "0.666666667", "1", "", "questionable"]
    assert second == ["", *([""] * 12), "", "", "", "not_judged"]
    assert len(header) == len(first) == len(second)


def test_truncated_texts_and_the_explanations_of_every_judge_are_in_the_table() -> None:
    said = [verdict(name, 1).model_copy(update={"explanation": f"{name} says so"}) for name in ("one", "two")]
    judged = row(1, 0.5, dimensions={"groundedness": dimension(*said)}, source={"q": "Why?"})
    assert judged.evaluation is not None
    evaluation = judged.evaluation.model_copy(update={"truncated": ("contexts[0].text", "answer")})
    header, cells = write_table(("q",), judged.model_copy(update={"evaluation": evaluation}))[0]
    table = dict(zip(header, cells, strict=True))
    assert table["groundedness_explanation"] == "one: one says so\ntwo: two says so"
    assert table["truncated"] == "contexts[0].text, answer"


def test_values_that_are_not_text_are_written_as_json() -> None:
    source = {"a": None, "b": 1.5, "c": True, "d": [{"text": "Привет"}]}
    _header, cells = write_table(tuple(source), row(1, source=source))[0]
    assert cells[:3] == ["", "1.5", "true"]
    assert json.loads(cells[3]) == source["d"]


def test_a_column_that_would_be_there_twice_gets_another_name() -> None:
    taken = ("Composite", "status", "status_streamjury", "groundedness_score ")
    assert name_added_columns(taken, ("groundedness",)) == [
        "groundedness_score_streamjury",
        "groundedness_level",
        "groundedness_option",
        "groundedness_label",
        "groundedness_status",
        "groundedness_explanation",
        "composite_streamjury",
        "coverage",
        "truncated",
        "status_streamjury_2",
    ]


def test_cells_that_a_spreadsheet_would_run_are_counted_and_stay_as_they_are() -> None:
    texts = ["=1+1", "+SUM(A1)", "-cmd|' /C calc'!A0", "@x", "\t=1", "\r=1", "-12.5", "+7", "fine", "", "a=1"]
    rows = [row(number, source={"a": text}) for number, text in enumerate(texts, start=1)]
    (_header, *read_back), table = write_table(("a",), *rows)
    assert [cells[0] for cells in read_back] == texts
    assert (table.formulas.count, table.formulas.rows) == (6, [1, 2, 3, 4, 5, 6])
