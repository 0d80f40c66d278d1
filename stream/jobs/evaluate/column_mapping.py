"""Columns under other names: `--map question=prompt` reads the question from `prompt`."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from stream.config.sections.input import InputConfig
from stream.jobs.evaluate.rows import Fault, FileError, FileRow, Rows
from stream.records.adapters.base import BodyPath
from stream.records.adapters.csv import FIELDS, REQUIRED

MAPPABLE = FIELDS
"""The fields of an interaction that a column can be mapped to."""


class MappedRows:
    """Rows with the mapped fields added under their own names; the original columns stay as they are."""

    def __init__(self, rows: Rows, name: str, mapping: Mapping[str, str]) -> None:
        if rows.columns:
            missing = [column for column in mapping.values() if column not in rows.columns]
            if missing:
                existing = ", ".join(map(repr, rows.columns[:20]))
                raise FileError(f"{name} has no column {missing[0]!r}, which --map names; it has {existing}")
        self._rows, self._mapping = rows, mapping
        self._paths = {field: BodyPath.parse(column) for field, column in mapping.items()}
        self.columns = rows.columns
        self.input = InputConfig(adapter="csv", limits=rows.input.limits)

    @property
    def total(self) -> float | None:
        return self._rows.total

    @property
    def position(self) -> float:
        return self._rows.position

    def __iter__(self) -> Iterator[FileRow]:
        for row in self._rows:
            yield row if row.fault is not None else self._mapped(row)

    def _mapped(self, row: FileRow) -> FileRow:
        try:
            record = msgspec.json.decode(row.value)
        except (msgspec.DecodeError, RecursionError):
            return row  # reported when the row is read
        if not isinstance(record, dict):
            return row
        fields = {field: self._find(field, record) for field in self._mapping}
        absent = [field for field in REQUIRED if field in fields and fields[field] is None]
        if absent:
            message = f"{absent[0]}: nothing at {self._mapping[absent[0]]!r}, which --map names"
            return row._replace(fault=Fault("invalid_record", message))
        record |= {field: value for field, value in fields.items() if value is not None}
        return row._replace(value=msgspec.json.encode(record), nameless=record.get("id") in (None, ""))

    def _find(self, field: str, record: dict[str, Any]) -> Any:
        column = self._mapping[field]
        value = record[column] if column in record else self._paths[field].find(record)
        return str(value) if field == "id" and isinstance(value, int) else value
