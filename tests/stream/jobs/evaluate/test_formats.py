"""Input files: any content is read back unchanged, or is a clear error about a row or the file."""

import csv
import io
import json
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream.config.sections.input import InputConfig
from stream.jobs.evaluate.formats import Format, format_of, open_rows
from stream.jobs.evaluate.rows import FileError, FileRow
from tests.parts.patience import patience

HEADER = "Current User Question,Conversation History,Fragment Texts,Assistant Answer"
COLUMNS = tuple(HEADER.split(","))


def rows_of(path: Path, chosen: Format | None = None, **settings: Any) -> list[FileRow]:
    with open_rows(str(path), chosen, InputConfig.model_validate(settings)) as rows:
        return list(rows)


def write_file(folder: Path, content: str | bytes, name: str = "rows.csv") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read_table(folder: Path, content: str | bytes) -> list[FileRow]:
    return rows_of(write_file(folder, content))


def cells(row: FileRow) -> list[str]:
    return list(json.loads(row.value).values())


def refusal(folder: Path, content: str | bytes, name: str = "rows.csv") -> str:
    with pytest.raises(FileError) as caught:
        rows_of(write_file(folder, content, name))
    return str(caught.value)


# CSV


def test_rows_are_numbered_and_have_their_columns(tmp_path: Path) -> None:
    path = write_file(tmp_path, f"{HEADER},note\nq1,h1,f1,a1,n1\n\nq2,,,a2,\n")
    with open_rows(str(path), None, InputConfig()) as rows:
        file_rows = list(rows)
        assert rows.columns == (*COLUMNS, "note")
        assert rows.input.adapter == "csv"
        assert rows.total == rows.position == path.stat().st_size
    assert [(row.number, row.fault) for row in file_rows] == [(1, None), (2, None)]
    assert json.loads(file_rows[0].value) == {**dict(zip(COLUMNS, ("q1", "h1", "f1", "a1"), strict=True)), "note": "n1"}
    assert cells(file_rows[1]) == ["q2", "", "", "a2", ""]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_detected_from_the_header(tmp_path: Path, delimiter: str) -> None:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter)
    writer.writerows([COLUMNS, ["a, b; c", "d\te", "f|g", 'h "i"']])
    [row] = read_table(tmp_path, text.getvalue())
    assert cells(row) == ["a, b; c", "d\te", "f|g", 'h "i"']


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le-bom"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_byte_order_marks_and_line_ends_make_no_difference(tmp_path: Path, encoding: str, end: str) -> None:
    text = end.join([HEADER, "Почему?,,,Потому.", 'q,"two\r\nlines",,a', ""])
    content = b"\xff\xfe" + text.encode("utf-16-le") if encoding == "utf-16-le-bom" else text.encode(encoding)
    first, second = read_table(tmp_path, content)
    assert cells(first) == ["Почему?", "", "", "Потому."]
    assert cells(second) == ["q", "two\r\nlines", "", "a"]


def test_a_row_that_does_not_fit_the_header_is_an_error_and_the_next_one_is_read(tmp_path: Path) -> None:
    rows = read_table(tmp_path, f'{HEADER}\nq,,,a\nshort,row\n"two\nlines",,,a,more\nq,,,a\n')
    assert [row.number for row in rows] == [1, 2, 3, 4]
    assert [row.fault and row.fault.message for row in rows] == [
        None,
        "line 3: 2 cells, but the header has 4",
        "line 4: 5 cells, but the header has 4",
        None,
    ]
    assert json.loads(rows[1].value) == {"Current User Question": "short", "Conversation History": "row"}


def test_bytes_that_are_not_utf8_fail_their_row_only(tmp_path: Path) -> None:
    bad = "Почему?,,,Потому.".encode("cp1251")
    rows = read_table(tmp_path, f"{HEADER}\nq,,,a\n".encode() + bad + b"\nq,,,a\n")
    assert [row.fault and tuple(row.fault) for row in rows] == [None, ("bad_encoding", "line 3: not UTF-8"), None]
    assert "?" in cells(rows[1])[0]


@pytest.mark.parametrize(
    ("before", "line", "position"),
    [("", 1, 27), ("\ufeff", 1, 30), ("\n\r\n", 3, 30), ('"two\nlines",', 2, 39)],
    ids=["plain", "byte order mark", "blank lines", "header of two lines"],
)
def test_a_header_that_is_not_utf8_is_refused_with_its_position_and_how_to_convert_it(
    tmp_path: Path, before: str, line: int, position: int
) -> None:
    content = before.encode() + "question,contexts,answer,R\xfcckfrage\nq,c,a,r\n".encode("latin-1")
    assert content[position - 1] == 0xFC
    message = refusal(tmp_path, content, "old answers.csv")
    path = tmp_path / "old answers.csv"
    assert message.startswith(f"{path}, line {line}: the header is not UTF-8 (byte {position} of the file is 0xfc); ")
    assert message.endswith(f"iconv -f LATIN1 -t UTF-8 '{path}' > utf8.csv")


def test_a_quotation_mark_that_is_never_closed_is_an_error_of_its_row(tmp_path: Path) -> None:
    rows = read_table(tmp_path, f'{HEADER}\nq,,,a\nq,,,"and so on\nq,,,a\n')
    assert [row.fault and row.fault.message for row in rows] == [
        None,
        "line 3: the file ends before a quotation mark is closed",
    ]


def test_nul_bytes_are_ordinary_characters(tmp_path: Path) -> None:
    [row] = read_table(tmp_path, f"{HEADER}\nq\x00,,\x00,a\n")
    assert cells(row) == ["q\x00", "", "\x00", "a"]


def test_a_field_of_megabytes_is_read_whole(tmp_path: Path) -> None:
    long = "x" * 3_000_000
    first, second = read_table(tmp_path, f'{HEADER}\nq,,"{long}",a\nq,,,a\n')
    assert (cells(first)[2], cells(second)[3]) == (long, "a")


def test_an_endless_line_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    assert "a line of more than 33,554,432 characters" in refusal(tmp_path, f"{HEADER}\n{'x' * 33_554_433}")


def test_an_endless_field_over_many_lines_is_refused_too(tmp_path: Path) -> None:
    message = refusal(tmp_path, f'{HEADER}\nq,,"' + "a line of text\n" * 2_500_000)
    assert "field larger than field limit" in message
    assert "is there an unclosed quotation mark before it?" in message


@pytest.mark.parametrize("content", ["", "\n\n", b"\xef\xbb\xbf"])
def test_an_empty_file_is_refused(tmp_path: Path, content: str | bytes) -> None:
    assert refusal(tmp_path, content).endswith("rows.csv is empty")


def test_missing_columns_are_named_with_the_present_ones(tmp_path: Path) -> None:
    message = refusal(tmp_path, "Question;Reply\na;b\n")
    assert "has no column 'Assistant Answer' (or 'answer'); it has 'Question', 'Reply'" in message
    assert "'Current User Question' (or 'question') and 'Assistant Answer'" in refusal(tmp_path, "a,b\n1,2\n")


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    assert "two columns named 'note'" in refusal(tmp_path, f"{HEADER},note,note\n")
    assert "are both columns for the answer" in refusal(tmp_path, f"{HEADER},answer\n")


def test_a_column_without_a_name_gets_one(tmp_path: Path) -> None:
    [row] = read_table(tmp_path, f"{HEADER},\nq,h,f,a,x\n")
    assert json.loads(row.value)["column 5"] == "x"


def test_a_mapping_reads_columns_of_other_names(tmp_path: Path) -> None:
    mapping = {"id": "No", "question": "Frage", "answer": "Antwort"}
    path = write_file(tmp_path, "No,Frage,Antwort\n1,q,a\n")
    with open_rows(str(path), None, InputConfig(adapter="mapping", mapping=mapping)) as rows:
        assert rows.input.adapter == "mapping"
        assert [row.nameless for row in rows] == [False]


@pytest.mark.parametrize(("id_cells", "nameless"), [(("7", "8"), [False, False]), (("", "8"), [True, False])])
def test_a_row_without_an_id_is_marked_nameless(
    tmp_path: Path, id_cells: tuple[str, str], nameless: list[bool]
) -> None:
    content = f"{HEADER},ID\n" + "".join(f"q,,,a,{cell}\n" for cell in id_cells)
    assert [row.nameless for row in read_table(tmp_path, content)] == nameless
    assert [row.nameless for row in read_table(tmp_path, f"{HEADER}\nq,,,a\n")] == [True]


any_cell = st.text(st.characters(codec="utf-8"), max_size=20) | st.text('",;\t|\n\r\\\x00 1.', max_size=10)


@given(
    rows=st.lists(st.tuples(any_cell, any_cell, any_cell, any_cell, any_cell), min_size=1, max_size=5),
    delimiter=st.sampled_from(",;\t|"),
    end=st.sampled_from(["\n", "\r\n"]),
    mark=st.booleans(),
)
def test_any_text_in_any_column_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, ...]], delimiter: str, end: str, mark: bool
) -> None:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator=end, quoting=csv.QUOTE_ALL)
    writer.writerows([(*COLUMNS, "note"), *rows])
    file_rows = read_table(tmp_path_factory.mktemp("any"), text.getvalue().encode("utf-8-sig" if mark else "utf-8"))
    assert [cells(row) for row in file_rows] == [list(row) for row in rows]
    assert not any(row.fault for row in file_rows)


@given(st.binary(max_size=300) | st.text('question,answer"\n\r;|\t\x00é', max_size=100).map(str.encode))
def test_any_bytes_below_a_header_are_rows_or_a_clear_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    folder = tmp_path_factory.mktemp("bytes")
    for whole in (f"{HEADER}\n".encode() + content, content):
        with suppress(FileError):
            rows = read_table(folder, whole)
            assert all(isinstance(json.loads(row.value), dict) for row in rows)
            assert [row.number for row in rows] == list(range(1, len(rows) + 1))


# JSONL


def read_lines(folder: Path, content: bytes, **limits: int) -> list[FileRow]:
    return rows_of(write_file(folder, content, "rows.jsonl"), limits=limits)


def test_lines_are_rows_and_blank_ones_are_skipped(tmp_path: Path) -> None:
    rows = read_lines(tmp_path, b'\xef\xbb\xbf{"a": 1}\r\n\n  \n{"b":\t2}\nnot json')
    assert rows == [FileRow(1, b'{"a": 1}', line=1), FileRow(2, b'{"b":\t2}', line=4), FileRow(3, b"not json", line=5)]


@pytest.mark.parametrize("size", [9, 10, 11, 12, 13, 14, 30, 3_000_000])
def test_a_line_over_the_limit_is_an_error_and_the_next_one_is_read(tmp_path: Path, size: int) -> None:
    first, second = read_lines(tmp_path, b"x" * size + b"\nnext\n", record_bytes=10)
    # A line slightly over the limit is left to the reader, which has the same limit and message.
    assert first.fault is None if size <= 12 else first.fault is not None
    assert first.fault is None or first.fault.message == f"{size + 1} bytes, the limit is 10"
    assert len(first.value) <= 2_000
    assert second == FileRow(2, b"next", line=2)


def test_waiting_for_slow_rows_ends_when_reading_is_stopped(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    stopped = threading.Event()
    file_rows: list[FileRow] = []

    def read() -> None:
        with open_rows(str(pipe), None, InputConfig(), stopped.is_set) as rows:
            assert rows.total is None
            file_rows.extend(rows)

    thread = threading.Thread(target=read)
    thread.start()
    with pipe.open("wb") as writer:
        writer.write(b'{"a":1}\n')
        writer.flush()
        stopped.set()
        thread.join(5 * patience())
        assert not thread.is_alive()


# Which format


@pytest.mark.parametrize(
    ("file", "chosen", "expected"),
    [
        ("a.csv", None, "csv"),
        ("a.TSV", None, "csv"),
        ("a.jsonl", None, "jsonl"),
        ("a.ndjson", None, "jsonl"),
        ("a.parquet", None, "parquet"),
        ("a.csv", "jsonl", "jsonl"),
        ("-", None, "jsonl"),
        ("-", "csv", "csv"),
    ],
)
def test_the_format_follows_the_file_name_unless_it_is_given(file: str, chosen: Format | None, expected: str) -> None:
    assert format_of(file, chosen) == expected


def test_a_file_that_cannot_be_opened_is_an_error_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="unknown file extension; add --format"):
        format_of("rows.xlsx", None)
    with pytest.raises(FileError, match="it is a directory; give a file"):
        format_of(str(tmp_path), None)
    with pytest.raises(FileError, match="standard input"):
        format_of("-", "parquet")
    with pytest.raises(FileError, match=r"cannot read .*none.csv: No such file"):
        rows_of(tmp_path / "none.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(FileError, match=r"cannot read .*folder.csv: Is a directory"):
        rows_of(tmp_path / "folder.csv")


# JSON


@pytest.mark.parametrize("wrap", ["{}", '{{"version": 2, "data": {}}}', "\ufeff{}"])
def test_an_array_of_objects_is_read_as_rows(tmp_path: Path, wrap: str) -> None:
    items = [{"question": "q1", "answer": "a1", "contexts": ["c"]}, {"id": "x", "question": "q2", "answer": "a2"}]
    path = write_file(tmp_path, wrap.format(json.dumps(items)), "rows.json")
    rows = rows_of(path)
    assert [json.loads(row.value) for row in rows] == items
    assert [(row.number, row.nameless, row.fault) for row in rows] == [(1, True, None), (2, False, None)]


def test_an_indented_array_has_one_line_per_row(tmp_path: Path) -> None:
    items = [{"question": "first\nsecond", "answer": "a", "contexts": ["c"]}, {"question": "q", "answer": "b"}]
    path = write_file(tmp_path, json.dumps(items, indent=2).replace("\n", "\r\n"), "rows.json")
    values = [row.value for row in rows_of(path)]
    assert [json.loads(value) for value in values] == items
    assert not any(b"\n" in value or b"\r" in value for value in values)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is not a JSON array of objects"),
        ("7", "is not a JSON array of objects"),
        ('{"a": 1}', "must have one array of rows; its arrays are: none"),
        ('{"a": [], "b": []}', "must have one array of rows; its arrays are: 'a', 'b'"),
        ('{"id": "1"}\n{"id": "2"}', "one object a line is --format jsonl"),
    ],
)
def test_other_json_is_refused_with_the_reason(tmp_path: Path, content: str, message: str) -> None:
    assert message in refusal(tmp_path, content, "rows.json")


def test_an_item_that_is_too_large_is_a_fault_of_its_row(tmp_path: Path) -> None:
    path = write_file(tmp_path, json.dumps([{"question": "q" * 200, "answer": "a"}]), "rows.json")
    [row] = rows_of(path, limits={"record_bytes": 100})
    assert row.fault is not None
    assert row.fault.kind == "too_large"


# Columns under other names

_MAPPING = {"question": "prompt", "answer": "response", "contexts": "documents"}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rows.csv", "prompt,response,documents\nq1,a1,c1\n"),
        ("rows.json", '[{"prompt": "q1", "response": "a1", "documents": ["c1"]}]'),
        ("rows.jsonl", '{"prompt": "q1", "response": "a1", "documents": ["c1"]}\n'),
    ],
)
def test_mapped_columns_are_added_under_the_names_of_the_fields(tmp_path: Path, name: str, content: str) -> None:
    path = write_file(tmp_path, content, name)
    with open_rows(str(path), None, InputConfig(), mapping=_MAPPING) as rows:
        [row] = rows
        assert rows.input.adapter == "csv"
    record = json.loads(row.value)
    assert (record["question"], record["answer"], record["prompt"]) == ("q1", "a1", "q1")
    assert row.nameless
    assert row.fault is None


def test_a_mapped_path_may_lead_into_an_object_and_may_name_the_id(tmp_path: Path) -> None:
    content = '{"key": 7, "request": {"text": "q"}, "answer": "a"}\n{"key": 8, "answer": "a"}\n'
    path = write_file(tmp_path, content, "rows.jsonl")
    with open_rows(str(path), None, InputConfig(), mapping={"id": "key", "question": "request.text"}) as rows:
        first, second = rows
    assert json.loads(first.value)["id"] == "7"
    assert json.loads(first.value)["question"] == "q"
    assert not first.nameless
    assert second.fault is not None
    assert "question: nothing at 'request.text', which --map names" in second.fault.message


def test_a_column_that_the_file_does_not_have_is_an_error_that_lists_the_others(tmp_path: Path) -> None:
    path = write_file(tmp_path, "question,answer\nq,a\n")
    with (
        pytest.raises(FileError, match=r"no column 'prompt', which --map names; it has 'question', 'answer'"),
        open_rows(str(path), None, InputConfig(), mapping={"question": "prompt"}),
    ):
        pass
    assert "name others with --map, such as --map question=COLUMN" in refusal(tmp_path, "prompt,answer\nq,a\n")
