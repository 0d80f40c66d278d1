"""Human labels of judged rows, read from a CSV or JSONL file, on the criteria's own scales."""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

from judges.criteria.scale import NOT_APPLICABLE_WORDS
from judges.values.evaluation import CompositeStatus, Status
from sinks.base import COMPOSITE
from stream.jobs.compare.scales import Scale
from stream.jobs.compare.sides import CriterionResult, Key, Side
from stream.jobs.label_file import FileProblems, FileRecord, LabelsError, read_records

PROBABILITY = "probability"
STATUSES = Scale(labels=tuple(CompositeStatus), values=(None,) * len(CompositeStatus))
SCORES = Scale(bounds=(0.0, 1.0))

# Labels that say whether an answer is good, for criteria on any scale with a direction.
YES_NO = {
    **dict.fromkeys(("yes", "true", "pass", "да"), 1.0),
    **dict.fromkeys(("no", "false", "fail", "нет"), 0.0),
}

# The similarity of a word with one wrong letter.
_ALIKE = 0.8
# Suffixes of the columns that `streamjury evaluate` adds.
_RESULTS = ("_score", "_level", "_option", "_label", "_status", "_explanation")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    line: int
    column: str
    """As spelled in the file."""

    said: str | float


_Cells = Mapping[str, Cell]
"""The labels of a row, by criterion."""


@dataclass(slots=True, kw_only=True)
class Labels:
    """Labels as in the file."""

    path: Path
    by: Literal["id", "row"]
    rows: dict[str | int, dict[str, Cell]] = field(default_factory=dict)
    """By id or number of the row, then by criterion."""

    probabilities: dict[str | int, float] = field(default_factory=dict)
    """Probabilities of being chosen for labelling, by id or number of the row."""

    ignored: tuple[str, ...] = ()
    """Columns that name no criterion."""

    @property
    def names(self) -> tuple[str, ...]:
        """The labelled criteria, in the order of appearance."""
        return tuple(dict.fromkeys(name for cells in self.rows.values() for name in cells))


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """The labels of one side's rows, on that side's scales."""

    scales: Mapping[str, Scale]
    """Scales of the labelled criteria; the composite is labelled by its scores or by its statuses."""

    rows: Mapping[Key, Mapping[str, CriterionResult]]
    unmatched: tuple[str, ...]
    """Labelled rows that were not judged."""

    probabilities: Mapping[Key, float] = field(default_factory=dict)
    """Probabilities of being chosen for labelling, of the rows for which the file has one."""


def read_labels(path: Path, criteria: Collection[str], sides: Sequence[Side] = ()) -> Labels:
    """Read the labels of these criteria and of the composite; raises LabelsError with all problems.

    These include labels off the scale of one of the sides, and labels that match none of its rows.
    """
    problems = FileProblems(path)
    return _Gatherer(path, (*criteria, COMPOSITE), problems).gather(list(read_records(path, problems)), sides)


def on_scales(labels: Labels, side: Side) -> Said:
    """Convert the labels to this side's scales; raises LabelsError with every label that is off its scale."""
    problems = FileProblems(labels.path)
    scales = _check_scales(side, labels.rows.values(), problems)
    problems.raise_if_any()
    findings = {row: _findings(cells, scales) for row, cells in labels.rows.items()}
    names = {key: key.id if labels.by == "id" else judged.number for key, judged in side.judged.items()}
    met = {key: row for key, row in names.items() if row in findings}
    if not met:
        raise LabelsError(labels.path, [_no_match(labels, side)])
    labelled = set(met.values())
    return Said(
        scales=scales,
        rows={key: findings[row] for key, row in met.items()},
        unmatched=tuple(str(row) for row in labels.rows if row not in labelled),
        probabilities={key: labels.probabilities[row] for key, row in met.items() if row in labels.probabilities},
    )


def _rows_of(side: Side, by: Literal["id", "row"]) -> Iterator[str | int]:
    return (key.id if by == "id" else judged.number for key, judged in side.judged.items())


def _no_match(labels: Labels, side: Side) -> str:
    first = next(iter(_rows_of(side, labels.by)), None)
    example = "" if first is None else f"; it has {labels.by} {str(first)!r}, for example"
    return f"no {labels.by} in it matches a row of {side.name}{example}"


def _scales(rows: Collection[_Cells], side: Side) -> dict[str, Scale]:
    """Return this side's scales of the labelled criteria.

    The composite is labelled by numbers or by statuses; the first label decides, and the others must match.
    """
    names = dict.fromkeys(name for cells in rows for name in cells)
    scales = {name: side.scales[name] for name in names if name in side.scales}
    if COMPOSITE in names and side.composite:
        first = next(cells[COMPOSITE] for cells in rows if COMPOSITE in cells)
        scales[COMPOSITE] = SCORES if _is_score(first.said) else STATUSES
    return scales


def _check_scales(side: Side, rows: Collection[_Cells], problems: "FileProblems") -> Mapping[str, Scale]:
    """Return the side's scales; report a label that is off its scale."""
    scales = _scales(rows, side)
    for cells in rows:
        for name, cell in cells.items():
            if name in scales and _finding(cell.said, scales[name]) is None:
                problem = f"{cell.said!r} is not on the scale: {_words(scales[name])}"
                problems.at(cell.line, problem, cell.column)
    return scales


def _words(scale: Scale) -> str:
    return scale.words() if scale.bounds is None else f"{scale.words()}; or yes and no"


def _findings(cells: _Cells, scales: Mapping[str, Scale]) -> Mapping[str, CriterionResult]:
    findings = {name: _finding(cell.said, scales[name]) for name, cell in cells.items() if name in scales}
    return {name: finding for name, finding in findings.items() if finding is not None}


def _finding(label: str | float, scale: Scale) -> CriterionResult | None:
    """Convert a label to the scale, or return None if it is not on it."""
    if isinstance(label, str) and label.casefold() in NOT_APPLICABLE_WORDS:
        return CriterionResult(Status.NOT_APPLICABLE)
    verdict = YES_NO.get(str(label).casefold())
    if verdict is not None and scale.bounds is not None and scale.place(option=str(label)) is None:
        return CriterionResult(Status.SCORED, verdict)
    number = _number(label)
    if not scale.labels:
        score = None if number is None else scale.score(number)
        return None if score is None else CriterionResult(Status.SCORED, score)
    named = scale.place(option=str(label))
    place = scale.place(value=number) if named is None and number is not None else named
    if place is None:
        return None
    value = scale.values[place]
    return CriterionResult(Status.SCORED, None if value is None else scale.score(value), place)


def _is_score(label: str | float) -> bool:
    """Return whether a label of the composite is a number, or yes or no, rather than a status."""
    return _number(label) is not None or str(label).casefold() in YES_NO


def _number(label: str | float) -> float | None:
    try:
        number = float(label)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


class _Gatherer:
    """Turns records into labels, and reports their problems."""

    def __init__(self, path: Path, criteria: Collection[str], problems: FileProblems) -> None:
        self._path = path
        self._criteria = {name.casefold(): name for name in criteria}
        self._problems = problems
        self._lines: dict[str | int, int] = {}

    def gather(self, records: Sequence[FileRecord], sides: Sequence[Side]) -> Labels:
        if not records and not self._problems:
            self._problems.about_file("contains no labels")
        columns = tuple(dict.fromkeys(column for _, record in records for column in record))
        by = self._key_of(columns) if records else None
        labels = Labels(path=self._path, by=by or "id", ignored=self._find_ignored(columns))
        cells = [self._cells(line, record) for line, record in records]
        if by is not None:
            for (line, record), row_cells in zip(records, cells, strict=True):
                self._add(labels, line, record, row_cells)
        for side in sides:
            _check_scales(side, cells, self._problems)
        if labels.rows:
            self._check_rows(labels, sides)
        if not self._problems and not labels.names:
            names = ", ".join(self._criteria.values())
            self._problems.about_file(f"has no labels; labels go in a column named {names}")
        self._problems.raise_if_any()
        return labels

    def _check_rows(self, labels: Labels, sides: Iterable[Side]) -> None:
        for side in sides:
            if not any(row in labels.rows for row in _rows_of(side, labels.by)):
                self._problems.about_file(_no_match(labels, side))

    def _key_of(self, columns: Collection[str]) -> Literal["id", "row"] | None:
        folded = {_fold(column) for column in columns}
        if "id" in folded:
            return "id"
        if "row" in folded:
            return "row"
        self._problems.about_file("needs a column `id` or `row` to identify the labelled row")
        return None

    def _find_ignored(self, columns: Collection[str]) -> tuple[str, ...]:
        """Return the columns that are no labels; report those that were probably meant to be."""
        others = [column for column in columns if _fold(column) not in (*self._criteria, "id", "row", PROBABILITY)]
        for column in others:
            if _fold(column).endswith(_RESULTS):
                continue
            near = get_close_matches(_fold(column), self._criteria, n=1, cutoff=_ALIKE)
            if near:
                meant = self._criteria[near[0]]
                self._problems.about_file(f"the column {column!r} names no criterion; did you mean {meant!r}?")
        results = [column for column in others if _fold(column).endswith(_RESULTS) and self._is_result(column)]
        if results and COMPOSITE in map(_fold, columns):
            self._problems.about_file(
                f"contains the judges' results ({results[0]!r}), so its `composite` is theirs, not a human label: "
                "remove that column, or keep the labels in a file without results"
            )
        return tuple(column for column in others if column)

    def _is_result(self, column: str) -> bool:
        return _fold(column).rpartition("_")[0] in self._criteria

    def _cells(self, line: int, record: Mapping[str, object]) -> dict[str, Cell]:
        cells = {}
        for column, value in record.items():
            name = self._criteria.get(_fold(column))
            label = None if name is None else self._read_label(value, line, column)
            if name is not None and label is not None:
                cells[name] = Cell(line=line, column=column, said=label)
        return cells

    def _add(self, labels: Labels, line: int, record: Mapping[str, object], cells: dict[str, Cell]) -> None:
        key = self._key(record, line, labels.by)
        if key in self._lines:
            self._problems.at(line, f"{labels.by} {key!r} was already labelled in line {self._lines[key]}")
        elif key is not None:
            self._lines[key] = line
            labels.rows[key] = cells
            probability = self._probability(record, line)
            if probability is not None:
                labels.probabilities[key] = probability

    def _key(self, record: Mapping[str, object], line: int, by: str) -> str | int | None:
        cell = next((value for column, value in record.items() if _fold(column) == by), None)
        text = "" if cell is None else str(cell).strip()
        if not text:
            self._problems.at(line, f"has no {by}")
            return None
        if by == "id":
            return text
        try:
            return int(text)
        except ValueError:
            self._problems.at(line, f"the row {text!r} is not a whole number")
            return None

    def _probability(self, record: Mapping[str, object], line: int) -> float | None:
        """Read the probability of being chosen for labelling, or return None if the row has none."""
        cell = next((value for column, value in record.items() if _fold(column) == PROBABILITY), None)
        if cell is None or not str(cell).strip() or PROBABILITY in self._criteria:
            return None
        number = None if isinstance(cell, bool) else _number(str(cell))
        if number is None or not 0.0 < number <= 1.0:
            self._problems.at(line, f"{cell!r} is not a probability above 0 and at most 1", PROBABILITY)
            return None
        return number

    def _read_label(self, value: object, line: int, column: str) -> str | float | None:
        """Read a label, or return None if the cell has none."""
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, str) or value is None:
            return (value or "").strip() or None
        if isinstance(value, int | float):
            return value
        self._problems.at(line, f"{value!r} is neither a number nor a text", column)
        return None


def _fold(column: str) -> str:
    return column.strip().casefold()
