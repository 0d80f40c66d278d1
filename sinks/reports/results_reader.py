"""Reads a file of results row by row, in the order of the rows that were judged, however large it is."""

from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
from pydantic import BaseModel, ValidationError

from judges.criteria.problems import path_text
from sinks.reports.results_schema import SCHEMA, End, Row, Run

RESULTS_NAME = "results.jsonl"

# A file of more columns is no table; the rest is in the results all the same.
MAX_COLUMNS = 1_000
# What JSON numbers are exact to, in any program.
_MAX_ROW = 2**53
# So many times more numbers than rows make them sparse, as a small sample of a large file is.
_SPARSE = 8

_Line = TypeVar("_Line", bound=BaseModel)


class ResultsError(ValueError):
    """A file of results that cannot be read; says which file, which line, and why."""

    def __init__(self, path: Path, line: int | None, message: str) -> None:
        self.path = path
        self.line = line
        super().__init__(f"{path}: {message}" if line is None else f"{path}, line {line}: {message}")


class _Heading(msgspec.Struct):
    """The little of a line that its place in the index depends on; the rest is skipped."""

    kind: str
    row: Annotated[int, msgspec.Meta(ge=1, le=_MAX_ROW)] | None = None
    source: dict[str, msgspec.Raw] = {}


class Results:
    """What a file of results holds: the run, its rows, and its end if it came to one.

    Only where the rows are is kept in memory, 32 bytes for each.
    """

    def __init__(self, path: Path, run: Run, end: End | None, index: "_Index") -> None:
        self.path = path
        self.run = run
        self.end = end
        """None of a run that has not finished."""
        self._index = index
        self._places = index.places()

    def __len__(self) -> int:
        return len(self._places)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the run, then the other names that rows have, as they come up in the file."""
        found = sorted(self._index.names, key=self._index.names.__getitem__)
        return (*self.run.columns, *(name for name in found if name not in self.run.columns))

    @property
    def more_columns(self) -> bool:
        """Some names are not among the columns, because there are too many."""
        return self._index.more_names

    def rows(self) -> Iterator[Row]:
        """Every row once, by rising number. They may have finished in any order."""
        return self.rows_at(range(len(self)))

    def number_at(self, place: int) -> int:
        """The number of the row at this place of `rows`."""
        return self._index.numbers[self._places[place]]

    def rows_at(self, places: Iterable[int]) -> Iterator[Row]:
        """The rows at these places of `rows`."""
        with self.path.open("rb") as file:
            for place in places:
                entry = self._places[place]
                file.seek(self._index.offsets[entry])
                line = file.readline()
                yield _validated(Row, line, self.path, self._index.lines[entry])


class _Index:
    """Where each row begins, and which names its source has."""

    def __init__(self) -> None:
        self.numbers = array("q")
        self.offsets = array("q")
        self.lines = array("q")
        self.names: dict[str, tuple[int, int]] = {}
        """By name, the first row that has it and where in the row it stands."""
        self.more_names = False

    def add(self, heading: _Heading, offset: int, line: int) -> None:
        assert heading.row is not None
        self.numbers.append(heading.row)
        self.offsets.append(offset)
        self.lines.append(line)
        for at, name in enumerate(heading.source):
            place = (heading.row, at)
            known = self.names.get(name)
            if known is None and len(self.names) == MAX_COLUMNS:
                self.more_names = True
            elif known is None or place < known:
                self.names[name] = place

    def places(self) -> "array[int]":
        """The entries by row number; of a row that was judged twice only the last."""
        most = max(self.numbers, default=0)
        if most > _SPARSE * len(self.numbers):
            latest = dict(zip(self.numbers, range(len(self.numbers)), strict=True))
            return array("q", (latest[number] for number in sorted(latest)))
        # Where most numbers occur, a place for each takes far less memory than sorting them.
        entries = array("q", [-1]) * (most + 1)
        for entry, number in enumerate(self.numbers):
            entries[number] = entry
        return array("q", (entry for entry in entries if entry >= 0))


def read_results(path: Path) -> Results:
    """The results in a file, or in the folder that `streamjury evaluate` wrote; raises ResultsError.

    A last line that was cut off, as a crash leaves it, is as if it were not there.
    """
    file_path = path / RESULTS_NAME if path.is_dir() else path
    try:
        return _scanned(file_path)
    except OSError as error:
        raise ResultsError(file_path, None, f"cannot be read ({error.strerror})") from error


def _scanned(path: Path) -> Results:
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
                end = _validated(End, line, path, number)
            offset += len(line)
    return Results(path, run, end, index)


def _run(line: bytes, path: Path) -> Run:
    if not line.strip():
        raise ResultsError(path, None, "is empty")
    run = _validated(Run, line, path, 1)
    if run.schema_version != SCHEMA:
        raise ResultsError(path, 1, f"this file has version {run.schema_version}, but this program reads {SCHEMA}")
    return run


def _heading(decoder: "msgspec.json.Decoder[_Heading]", line: bytes, path: Path, number: int) -> _Heading | None:
    """None where there is nothing: a blank line, or one that a crash cut off."""
    if not line.strip():
        return None
    try:
        heading = decoder.decode(line)
        known = heading.kind == "end" or (heading.kind == "row" and heading.row is not None)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        if not line.endswith(b"\n"):
            return None
        raise ResultsError(path, number, f"is not a result ({error})") from error
    if not known:
        raise ResultsError(path, number, f"has kind {heading.kind!r}, expected a row or the end")
    return heading


def _validated(kind: type[_Line], line: bytes, path: Path, number: int) -> _Line:
    try:
        return kind.model_validate_json(line)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        place = path_text(problem["loc"])
        raise ResultsError(path, number, f"{place}: {problem['msg']}" if place else problem["msg"]) from error
