"""The formats of files with rows to judge.

- `csv`: tables as CSV
- `jsonl`: one JSON object per line
- `json_array`: one JSON document with an array of objects
- `parquet`: tables as Parquet, if pyarrow is installed

A new format is one module with a class of `Rows`, and its lines here.
"""

import io
import os
import select
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Literal, get_args

from stream.config.sections.input import InputConfig
from stream.jobs.evaluate.column_mapping import MappedRows
from stream.jobs.evaluate.formats.csv import CsvRows
from stream.jobs.evaluate.formats.json_array import JsonArrayRows
from stream.jobs.evaluate.formats.jsonl import JsonRows
from stream.jobs.evaluate.formats.parquet import ParquetRows
from stream.jobs.evaluate.rows import FileError, Opening, Rows

STDIN = "-"

Format = Literal["csv", "json", "jsonl", "parquet"]
FORMATS: tuple[Format, ...] = get_args(Format)

_OPENERS: Mapping[Format, Callable[[Opening], Rows]] = {
    "csv": CsvRows,
    "json": JsonArrayRows,
    "jsonl": JsonRows,
    "parquet": ParquetRows,
}
_SUFFIXES: Mapping[str, Format] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
}
# Between checks whether the input is still wanted.
_LOOK_SECONDS = 0.1


def format_of(file: str, chosen: Format | None) -> Format:
    """Return the chosen format, else the one of the file extension."""
    if file == STDIN and chosen == "parquet":
        raise FileError("cannot read Parquet from standard input; give a file")
    if chosen is not None:
        return chosen
    suffix = ".jsonl" if file == STDIN else Path(file).suffix.lower()
    if suffix not in _SUFFIXES and Path(file).is_dir():
        raise FileError(f"cannot read {file}: it is a directory; give a file")
    if suffix not in _SUFFIXES:
        raise FileError(f"{file}: unknown file extension; add --format csv, json, jsonl or parquet")
    return _SUFFIXES[suffix]


@contextmanager
def open_rows(
    file: str,
    chosen: Format | None,
    config: InputConfig,
    unwanted: Callable[[], bool] = lambda: False,
    mapping: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Rows]:
    """Open the rows of a file, or of standard input for `-`; slow input ends as soon as it is `unwanted`.

    `mapping` has columns with other names than the fields of an interaction, by field.

    Raises FileError if they cannot be read.
    """
    open_format = _OPENERS[format_of(file, chosen)]

    def opener(opening: Opening) -> Rows:
        rows = open_format(opening)
        return MappedRows(rows, opening.name, mapping) if mapping else rows

    if file == STDIN:
        raw = _InterruptibleInput(sys.stdin.fileno(), unwanted)
        yield opener(
            Opening(
                name="standard input", file=io.BufferedReader(raw), size=None, input=config, mapped=frozenset(mapping)
            )
        )
        return
    try:
        with Path(file).open("rb") as opened:
            status = os.fstat(opened.fileno())
            regular = stat.S_ISREG(status.st_mode)
            source = opened if regular else io.BufferedReader(_InterruptibleInput(opened.fileno(), unwanted))
            size = status.st_size if regular else None
            yield opener(Opening(name=file, file=source, size=size, input=config, mapped=frozenset(mapping)))
    except OSError as error:
        if error.filename != file:
            raise
        raise FileError(f"cannot read {file}: {error.strerror}") from None


class _InterruptibleInput(io.RawIOBase):
    """Waits for input in short steps: a thread that never returns from a read would keep the process alive."""

    def __init__(self, descriptor: int, unwanted: Callable[[], bool]) -> None:
        super().__init__()
        self._descriptor, self._unwanted = descriptor, unwanted

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        while not self._unwanted():
            if select.select([self._descriptor], [], [], _LOOK_SECONDS)[0]:
                return os.readv(self._descriptor, [buffer])
        return 0
