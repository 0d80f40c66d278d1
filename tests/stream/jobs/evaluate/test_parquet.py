"""Parquet tables, with and without pyarrow."""

import json
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from stream.config.model import Config
from stream.config.sections.input import InputConfig
from stream.jobs.evaluate import EvaluateRequest, evaluate
from stream.jobs.evaluate.formats import open_rows
from stream.jobs.evaluate.rows import FileError, FileRow


def test_without_pyarrow_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with (
        pytest.raises(FileError, match=r"with the extra parquet: '\.\[parquet\]'"),
        open_rows(str(tmp_path / "a.parquet"), None, InputConfig()),
    ):
        pass


def write_parquet(path: Path, records: list[dict[str, Any]]) -> Path:
    pyarrow = pytest.importorskip("pyarrow", reason="no pyarrow: pip install 'streamjury[parquet]'")
    parquet = pytest.importorskip("pyarrow.parquet", reason="no pyarrow: pip install 'streamjury[parquet]'")
    parquet.write_table(pyarrow.Table.from_pylist(records), path)
    return path


def rows_of(path: Path) -> list[FileRow]:
    with open_rows(str(path), None, InputConfig()) as rows:
        assert rows.total is not None
        file_rows = list(rows)
        assert rows.position == len(file_rows)
        return file_rows


def test_rows_are_json_objects_of_the_columns(tmp_path: Path) -> None:
    record = {
        "id": "a",
        "question": "q",
        "answer": "a",
        "contexts": [{"text": "c", "score": 0.5}],
        "at": datetime(2026, 1, 2, tzinfo=UTC),
        "price": Decimal("1.50"),
        "nothing": None,
    }
    [row] = rows_of(write_parquet(tmp_path / "a.parquet", [record]))
    assert json.loads(row.value) == {**record, "at": "2026-01-02T00:00:00Z", "price": "1.50"}


def test_tables_with_the_columns_of_csv_are_read_like_csv(tmp_path: Path) -> None:
    record = {"Current User Question": "q", "Assistant Answer": "a", "Fragment Texts": r"1. x\n2. y", "ID": 5}
    path = write_parquet(tmp_path / "a.parquet", [record, {**record, "ID": None}])
    with open_rows(str(path), None, InputConfig()) as rows:
        assert rows.input.adapter == "csv"
        assert [row.nameless for row in rows] == [False, True]


def test_a_table_is_judged(tmp_path: Path) -> None:
    records = [{"question": "How many?", "answer": f"There are {n}.", "contexts": [{"text": "x"}]} for n in range(200)]
    request = EvaluateRequest(
        file=str(write_parquet(tmp_path / "a.parquet", records)), folder=tmp_path / "out", processes=1, limit=150
    )
    outcome = evaluate(Config(), request)
    assert (outcome.judged, outcome.failed, outcome.finished) == (150, 0, True)


def test_a_file_that_is_not_parquet_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="no pyarrow: pip install 'streamjury[parquet]'")
    (tmp_path / "a.parquet").write_bytes(b"id,question\n")
    with (
        pytest.raises(FileError, match="is not a Parquet file"),
        open_rows(str(tmp_path / "a.parquet"), None, InputConfig()),
    ):
        pass
