"""Labels: what people say of rows that were judged, from a CSV or JSONL file, on the criteria's own scales."""

import csv
import io
import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

from judges.evaluation import CompositeStatus, Status
from judges.scale import NOT_APPLICABLE_WORDS
from stream.comparison.scales import Scale
from stream.comparison.sides import Finding, Key, Side

COMPOSITE = "composite"
STATUSES = Scale(labels=tuple(CompositeStatus), values=(None,) * len(CompositeStatus))
SCORES = Scale(bounds=(0.0, 1.0))

_MAX_BYTES = 256 * 2**20
_LINES = (".jsonl", ".ndjson", ".json")
_DELIMITERS = ",;\t"
# As alike as a word with one letter wrong is to the right one.
_ALIKE = 0.8
_TOLD = 20
# The columns that `streamjury evaluate` writes beside the original ones end so.
_RESULTS = ("_score", "_status")


class LabelsError(ValueError):
    """A file of labels that cannot be used; says which file, which lines, and why."""

    def __init__(self, path: Path, problems: Sequence[str]) -> None:
        self.path = path
        self.problems = tuple(problems)
        more = [f"and {len(problems) - _TOLD} more"] if len(problems) > _TOLD else []
        super().__init__("\n".join([*(f"{path}: {each}" for each in problems[:_TOLD]), *more]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    line: int
    column: str
    """As the file spells it."""

    said: str | float


@dataclass(slots=True, kw_only=True)
class Labels:
    """As they stand in the file."""

    path: Path
    by: Literal["id", "row"]
    rows: dict[str | int, dict[str, Cell]] = field(default_factory=dict)
    """By id or number of the row, then by criterion."""

    ignored: tuple[str, ...] = ()
    """Columns that name no criterion."""

    @property
    def names(self) -> tuple[str, ...]:
        """What is labelled, in the order in which it comes up."""
        return tuple(dict.fromkeys(name for cells in self.rows.values() for name in cells))


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """The labels of one side's rows, on that side's scales."""

    scales: Mapping[str, Scale]
    """Of all that is labelled; the composite is labelled by its scores or by its statuses."""

    rows: Mapping[Key, Mapping[str, Finding]]
    unmatched: tuple[str, ...]
    """Labelled rows that were not judged."""


def read_labels(path: Path, criteria: Collection[str]) -> Labels:
    """The labels of these criteria, and of the composite; raises LabelsError."""
    text = _text(path)
    reader = _records_of_lines if path.suffix.lower() in _LINES else _records_of_table
    return _Gatherer(path, (*criteria, COMPOSITE)).gather(list(reader(path, text)))


def on_scales(labels: Labels, side: Side) -> Said:
    """What the labels say of the rows of this side; raises LabelsError with every label that is off its scale."""
    scales = {name: side.scales[name] for name in labels.names if name in side.scales}
    if COMPOSITE in labels.names and side.composite:
        scales[COMPOSITE] = _composite_scale(labels)
    findings, problems = _findings(labels, scales)
    if problems:
        raise LabelsError(labels.path, problems)
    rows = {}
    met = set()
    for key, judged in side.judged.items():
        row = key.id if labels.by == "id" else judged.number
        if row in findings:
            rows[key] = findings[row]
            met.add(row)
    if not rows:
        raise LabelsError(labels.path, [_no_match(labels, side)])
    return Said(scales=scales, rows=rows, unmatched=tuple(str(row) for row in labels.rows if row not in met))


def _no_match(labels: Labels, side: Side) -> str:
    known = [key.id if labels.by == "id" else str(judged.number) for key, judged in side.judged.items()]
    example = f"; it has {labels.by} {known[0]!r}, for example" if known else ""
    return f"no {labels.by} in it is that of a row of {side.name}{example}"


def _composite_scale(labels: Labels) -> Scale:
    """Numbers or statuses; the first label decides, and the others are held against it."""
    first = next(cells[COMPOSITE] for cells in labels.rows.values() if COMPOSITE in cells)
    return STATUSES if _number(first.said) is None else SCORES


def _findings(
    labels: Labels, scales: Mapping[str, Scale]
) -> tuple[dict[str | int, Mapping[str, Finding]], Sequence[str]]:
    found: dict[str | int, Mapping[str, Finding]] = {}
    problems = []
    for row, cells in labels.rows.items():
        wanted = {name: cell for name, cell in cells.items() if name in scales}
        findings = {name: _finding(cell.said, scales[name]) for name, cell in wanted.items()}
        problems += [_off_scale(wanted[name], scales[name]) for name, each in findings.items() if each is None]
        found[row] = {name: each for name, each in findings.items() if each is not None}
    return found, problems


def _finding(said: str | float, scale: Scale) -> Finding | None:
    """None for what is not on the scale."""
    if isinstance(said, str) and said.casefold() in NOT_APPLICABLE_WORDS:
        return Finding(Status.NOT_APPLICABLE)
    number = _number(said)
    if not scale.labels:
        score = None if number is None else scale.score(number)
        return None if score is None else Finding(Status.SCORED, score)
    named = scale.place(option=str(said))
    place = scale.place(value=number) if named is None and number is not None else named
    if place is None:
        return None
    value = scale.values[place]
    return Finding(Status.SCORED, None if value is None else scale.score(value), place)


def _off_scale(cell: Cell, scale: Scale) -> str:
    return f"line {cell.line}, {cell.column}: {cell.said!r} is not on its scale: {scale.words()}"


def _number(said: str | float) -> float | None:
    try:
        number = float(said)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


# Reading the file

_Record = tuple[int, Mapping[str, str | float | None]]


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
        raise LabelsError(path, [f"line {line}: is not UTF-8 text"]) from None


def _records_of_table(path: Path, text: str) -> Iterator[_Record]:
    heading = text.partition("\n")[0]
    delimiter = max(_DELIMITERS, key=heading.count)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        columns = [column.strip() for column in next(rows, [])]
        twice = sorted({column for column in columns if column and columns.count(column) > 1})
        if twice:
            raise LabelsError(path, [f"line 1: the column {twice[0]!r} is there twice"])
        before = rows.line_num
        for cells in rows:
            line, before = before + 1, rows.line_num
            if len(cells) > len(columns):
                raise LabelsError(path, [f"line {line}: has {len(cells)} cells, and the heading {len(columns)}"])
            if any(cell.strip() for cell in cells):
                yield line, dict(zip(columns, cells, strict=False))
    except csv.Error as error:
        raise LabelsError(path, [f"line {rows.line_num}: is no CSV ({error})"]) from None


def _records_of_lines(path: Path, text: str) -> Iterator[_Record]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise LabelsError(path, [f"line {number}: is no JSON ({error})"]) from None
        if not isinstance(record, dict):
            raise LabelsError(path, [f"line {number}: is no JSON object"])
        yield number, record


class _Gatherer:
    """Makes labels of records, and collects what is wrong with them."""

    def __init__(self, path: Path, known: Collection[str]) -> None:
        self._path = path
        self._known = {name.casefold(): name for name in known}
        self._problems: list[str] = []
        self._lines: dict[str | int, int] = {}

    def gather(self, records: Sequence[_Record]) -> Labels:
        if not records:
            raise LabelsError(self._path, ["has no labels in it"])
        columns = tuple(dict.fromkeys(column for _, record in records for column in record))
        labels = Labels(path=self._path, by=self._key_of(columns), ignored=self._ignored(columns))
        for line, record in records:
            self._add(labels, line, record)
        if self._problems:
            raise LabelsError(self._path, self._problems)
        if not labels.names:
            known = ", ".join(self._known.values())
            raise LabelsError(self._path, [f"labels nothing; a label stands in a column named {known}"])
        return labels

    def _key_of(self, columns: Collection[str]) -> Literal["id", "row"]:
        folded = {_folded(column) for column in columns}
        if "id" in folded:
            return "id"
        if "row" in folded:
            return "row"
        raise LabelsError(self._path, ["has neither a column `id` nor a column `row`, which say what is labelled"])

    def _ignored(self, columns: Collection[str]) -> tuple[str, ...]:
        """Other columns may stand beside labels, but not those that were meant to be labels."""
        others = [column for column in columns if _folded(column) not in (*self._known, "id", "row")]
        for column in others:
            if _folded(column).endswith(_RESULTS):
                continue
            near = get_close_matches(_folded(column), self._known, n=1, cutoff=_ALIKE)
            if near:
                meant = self._known[near[0]]
                self._problems.append(f"the column {column!r} names no criterion; did you mean {meant!r}?")
        results = [column for column in others if _folded(column).endswith(_RESULTS) and self._is_result(column)]
        if results and COMPOSITE in map(_folded, columns):
            self._problems.append(
                f"has the judges' results in it ({results[0]!r}), and so its `composite` is theirs, not people's: "
                "take that column out, or keep people's own in a file without results"
            )
        return tuple(column for column in others if column)

    def _is_result(self, column: str) -> bool:
        return _folded(column).rpartition("_")[0] in self._known

    def _add(self, labels: Labels, line: int, record: Mapping[str, object]) -> None:
        cells = {}
        for column, value in record.items():
            name = self._known.get(_folded(column))
            said = None if name is None else self._said(value, line, column)
            if name is not None and said is not None:
                cells[name] = Cell(line=line, column=column, said=said)
        key = self._key(record, line, labels.by)
        if key in self._lines:
            self._problems.append(f"line {line}: {labels.by} {key!r} was labelled in line {self._lines[key]} already")
        elif key is not None:
            self._lines[key] = line
            labels.rows[key] = cells

    def _key(self, record: Mapping[str, object], line: int, by: str) -> str | int | None:
        said = next((value for column, value in record.items() if _folded(column) == by), None)
        text = "" if said is None else str(said).strip()
        if not text:
            self._problems.append(f"line {line}: has no {by}")
            return None
        if by == "id":
            return text
        try:
            return int(text)
        except ValueError:
            self._problems.append(f"line {line}: the row {text!r} is no whole number")
            return None

    def _said(self, value: object, line: int, column: str) -> str | float | None:
        """None where there is no label."""
        if isinstance(value, str) or value is None:
            return (value or "").strip() or None
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value
        self._problems.append(f"line {line}, {column}: {value!r} is neither a number nor a text")
        return None


def _folded(column: str) -> str:
    return column.strip().casefold()
