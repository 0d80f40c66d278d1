"""Tables as Parquet, if pyarrow is installed; rows are JSON objects, read by the configured adapter or by column."""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import msgspec

from sinks.text import explain_extra
from stream.config.sections.input import InputConfig
from stream.errors import RecordError
from stream.jobs.evaluate.rows import Fault, FileError, FileRow, Opening
from stream.records.adapters import make_adapter
from stream.records.adapters.csv import COLUMNS, REQUIRED, fields_of

_BATCH_ROWS = 64


class ParquetRows:
    """Reads a few rows at a time; dates are written as RFC 3339, bytes as base64, decimals as text."""

    def __init__(self, opening: Opening) -> None:
        self._name = opening.name
        try:
            parquet: Any = import_module("pyarrow.parquet")
        except ImportError:
            advice = explain_extra("parquet")
            raise FileError(f"{self._name}: reading Parquet needs pyarrow, which is not installed; {advice}") from None
        try:
            self._table = parquet.ParquetFile(opening.file)
        except (OSError, ValueError) as error:  # pyarrow's own errors are among these
            raise FileError(f"{self._name} is not a Parquet file: {error}") from None
        self.columns: tuple[str, ...] = tuple(self._table.schema_arrow.names)
        self.total: float | None = self._table.metadata.num_rows
        self.position = 0.0
        self.input = self._choose_input(opening.input)
        self._names_rows = make_adapter(self.input).reads_id_key

    def __iter__(self) -> Iterator[FileRow]:
        number = 0
        for batch in self._batches():
            for record in batch:
                number += 1
                self.position = float(number)
                yield self._row(number, record)

    def _batches(self) -> Iterator[list[dict[str, Any]]]:
        try:
            for batch in self._table.iter_batches(batch_size=_BATCH_ROWS):
                yield batch.to_pylist()
        except (OSError, ValueError) as error:
            raise FileError(f"cannot read the rest of {self._name}: {error}") from None

    def _choose_input(self, config: InputConfig) -> InputConfig:
        if len(set(self.columns)) < len(self.columns):
            raise FileError(f"{self._name} has two columns with the same name")
        try:
            columns = fields_of(self.columns)
        except RecordError as error:
            raise FileError(f"{self._name}: {error}") from None
        named = all(columns.get(field, "").strip().casefold() == COLUMNS[field].casefold() for field in REQUIRED)
        self._id = columns.get("id", "id") if named else "id"
        return InputConfig(adapter="csv", limits=config.limits) if named else config

    def _row(self, number: int, record: dict[str, Any]) -> FileRow:
        nameless = self._names_rows and record.get(self._id) in (None, "")
        try:
            return FileRow(number, msgspec.json.encode(record), nameless=nameless)
        except (TypeError, ValueError, RecursionError) as error:
            return FileRow(number, b"{}", fault=Fault("bad_record", f"a value that JSON cannot represent: {error}"))
