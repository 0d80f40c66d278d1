"""Reads files of labels, CSV or one JSON object per line, and collects all their problems."""

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

_MAX_BYTES = 256 * 2**20
_LINES = (".jsonl", ".ndjson", ".json")
_DELIMITERS = ",;\t"
_MOST_PROBLEMS = 20

FileRecord = tuple[int, Mapping[str, str | float | None]]
"""A line number, and the values of that line by column."""


class LabelsError(ValueError):
    """A file of labels that cannot be used, with the file, the lines and the reasons."""

    def __init__(self, path: Path, problems: Sequence[str]) -> None:
        self.path = path
        self.problems = tuple(problems)
        more = [f"and {len(problems) - _MOST_PROBLEMS} more"] if len(problems) > _MOST_PROBLEMS else []
        super().__init__("\n".join([*(f"{path}: {problem}" for problem in problems[:_MOST_PROBLEMS]), *more]))


class FileProblems:
    """The problems of a file, collected to be raised together in the order of its lines."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._problems_by_line: list[tuple[int, str]] = []

    def __bool__(self) -> bool:
        return bool(self._problems_by_line)

    def about_file(self, problem: str) -> None:
        self._problems_by_line.append((0, problem))

    def at(self, line: int, problem: str, column: str | None = None) -> None:
        place = f"line {line}" if column is None else f"line {line}, {column}"
        self._problems_by_line.append((line, f"{place}: {problem}"))

    def raise_if_any(self) -> None:
        """Raise LabelsError if there are problems, each listed once, even if both sides have it."""
        if self._problems_by_line:
            ordered = sorted(self._problems_by_line, key=lambda item: item[0])
            raise LabelsError(self._path, list(dict.fromkeys(problem for _line, problem in ordered)))


def read_records(path: Path, problems: FileProblems) -> Iterator[FileRecord]:
    """Yield the records of a file; raise LabelsError if it cannot be read at all."""
    reader = _records_of_lines if path.suffix.lower() in _LINES else _records_of_table
    return reader(_text(path), problems)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise LabelsError(path, [f"cannot be read: {(error.strerror or 'unknown error').lower()}"]) from None
    if len(content) > _MAX_BYTES:
        raise LabelsError(path, [f"is larger than {_MAX_BYTES} bytes"])
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise LabelsError(path, [f"line {line}: not UTF-8 text"]) from None


def _records_of_table(text: str, problems: FileProblems) -> Iterator[FileRecord]:
    heading = text.partition("\n")[0]
    delimiter = max(_DELIMITERS, key=heading.count)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        columns = [column.strip() for column in next(rows, [])]
        twice = sorted({column for column in columns if column and columns.count(column) > 1})
        for column in twice:
            problems.at(1, f"the column {column!r} is listed twice")
        before = rows.line_num
        for cells in rows:
            line, before = before + 1, rows.line_num
            if len(cells) > len(columns):
                problems.at(line, f"has {len(cells)} cells, but the header has {len(columns)}")
            elif any(cell.strip() for cell in cells):
                yield line, dict(zip(columns, cells, strict=False))
    except csv.Error as error:
        problems.at(rows.line_num, f"is not valid CSV ({error}); the rest is not read")


def _records_of_lines(text: str, problems: FileProblems) -> Iterator[FileRecord]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            problems.at(number, f"is not valid JSON ({error})")
            continue
        if isinstance(record, dict):
            yield number, record
        else:
            problems.at(number, "is not a JSON object")
