"""Reads a file of results of any size row by row, in the order of the judged rows."""

from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
from pydantic import BaseModel, ValidationError

from judges.criteria.problems import path_text
from sinks.reports.results_schema import SCHEMA, End, Row, Run

RESULTS_NAME = "results.jsonl"

# A file with more columns is not a table; the rest is still in the results.
MAX_COLUMNS = 1_000
# JSON numbers are exact up to this in any program.
_MAX_ROW = 2**53
# Row numbers this many times the count of rows are sparse, as in a small sample of a large file.
_SPARSE = 8

_Line = TypeVar("_Line", bound=BaseModel)


class ResultsError(ValueError):
    """A file of results that cannot be read, with the file, the line and the reason."""

    def __init__(self, path: Path, line: int | None, message: str) -> None:
        self.path = path
        self.line = line
        super().__init__(f"{path}: {message}" if line is None else f"{path}, line {line}: {message}")


class _Heading(msgspec.Struct):
    """The part of a line that the index needs; the rest is skipped."""

    kind: str
    row: Annotated[int, msgspec.Meta(ge=1, le=_MAX_ROW)] | None = None
    source: dict[str, msgspec.Raw] = {}


class Results:
    """A file of results: the run, its rows, and its end if it has finished.

    Only the places of the rows are in memory, 32 bytes each.
    """

    def __init__(self, path: Path, run: Run, end: End | None, index: "_Index") -> None:
        self.path = path
        self.run = run
        self.end = end
        """None if the run has not finished."""
        self._index = index
        self._places = index.places()

    def __len__(self) -> int:
        return len(self._places)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the run, then the other names in rows, in the order of the file."""
        names = sorted(self._index.names, key=self._index.names.__getitem__)
        return (*self.run.columns, *(name for name in names if name not in self.run.columns))

    @property
    def more_columns(self) -> bool:
        """Whether some names are not among the columns, because there are too many."""
        return self._index.more_names

    def rows(self) -> Iterator[Row]:
        """Yield every row once, by rising number. They may have finished in any order."""
        return self.rows_at(range(len(self)))

    def number_at(self, place: int) -> int:
        """Return the number of the row at this place of `rows`."""
        return self._index.numbers[self._places[place]]

    def rows_at(self, places: Iterable[int]) -> Iterator[Row]:
        """Yield the rows at these places of `rows`."""
        with self.path.open("rb") as file:
            for place in places:
                entry = self._places[place]
                file.seek(self._index.offsets[entry])
                line = file.readline()
                yield _validate(Row, line, self.path, self._index.lines[entry])


class _Index:
    """The start of each row, and the names in its source."""

    def __init__(self) -> None:
        self.numbers = array("q")
        self.offsets = array("q")
        self.lines = array("q")
        self.names: dict[str, tuple[int, int]] = {}
        """By name, the first row that has it and its position in the row."""
        self.more_names = False

    def add(self, heading: _Heading, offset: int, line: int) -> None:
        assert heading.row is not None
        self.numbers.append(heading.row)
        self.offsets.append(offset)
        self.lines.append(line)
        for position, name in enumerate(heading.source):
            place = (heading.row, position)
            earlier = self.names.get(name)
            if earlier is None and len(self.names) == MAX_COLUMNS:
                self.more_names = True
            elif earlier is None or place < earlier:
                self.names[name] = place

    def places(self) -> "array[int]":
        """Return the entries by row number; only the last one of a row that was judged twice."""
        most = max(self.numbers, default=0)
        if most > _SPARSE * len(self.numbers):
            latest = dict(zip(self.numbers, range(len(self.numbers)), strict=True))
            return array("q", (latest[number] for number in sorted(latest)))
        # If most numbers occur, an array indexed by number takes far less memory than sorting.
        entries = array("q", [-1]) * (most + 1)
        for entry, number in enumerate(self.numbers):
            entries[number] = entry
        return array("q", (entry for entry in entries if entry >= 0))


def read_results(path: Path) -> Results:
    """Read the results in a file, or in the folder that `streamjury evaluate` wrote; raises ResultsError.

    A truncated last line, as a crash leaves it, is ignored.
    """
    file_path = path / RESULTS_NAME if path.is_dir() else path
    try:
        return _scan(file_path)
    except OSError as error:
        raise ResultsError(file_path, None, f"cannot be read ({error.strerror})") from error


def _scan(path: Path) -> Results:
    index, end, offset = _Index(), None, 0
    decoder = msgspec.json.Decoder(_Heading)
    with path.open("rb") as file:
        first = file.readline()
        run = _run(first, path)
        offset = len(first)
        for number, line in enumerate(file, start=2):
            heading = _heading(decoder, line, path, number)
            if heading is not None and heading.kind == "row":
                index.add(heading, offset, number)
                end = None
            elif heading is not None:
                end = _validate(End, line, path, number)
            offset += len(line)
    return Results(path, run, end, index)


def _run(line: bytes, path: Path) -> Run:
    if not line.strip():
        raise ResultsError(path, None, "is empty")
    run = _validate(Run, line, path, 1)
    if run.schema_version != SCHEMA:
        raise ResultsError(path, 1, f"this file has version {run.schema_version}, but this program reads {SCHEMA}")
    return run


def _heading(decoder: "msgspec.json.Decoder[_Heading]", line: bytes, path: Path, number: int) -> _Heading | None:
    """Read the heading of a line; return None for a blank line, or one that a crash truncated."""
    if not line.strip():
        return None
    try:
        heading = decoder.decode(line)
        is_known = heading.kind == "end" or (heading.kind == "row" and heading.row is not None)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        if not line.endswith(b"\n"):
            return None
        raise ResultsError(path, number, f"is not a result ({error})") from error
    if not is_known:
        raise ResultsError(path, number, f"has kind {heading.kind!r}, expected a row or the end")
    return heading


def _validate(kind: type[_Line], line: bytes, path: Path, number: int) -> _Line:
    try:
        return kind.model_validate_json(line)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        place = path_text(problem["loc"])
        raise ResultsError(path, number, f"{place}: {problem['msg']}" if place else problem["msg"]) from error
