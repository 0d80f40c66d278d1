"""The results as a CSV table: the columns of the judged file, then the findings on each row."""

import csv
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pydantic import JsonValue

from judges.values.evaluation import Dimension, Evaluation
from sinks.reports.results_schema import Row

NOT_JUDGED = "not_judged"
"""The status of a row that has no evaluation."""

MAX_FORMULA_ROWS = 20

# A spreadsheet program takes a cell that begins with one of these for a formula.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
_SUFFIX = "_streamjury"

# Columns of every dimension, and of the whole row after them.
_OF_DIMENSION = ("score", "level", "option", "label", "status", "explanation")
_OF_ROW = ("composite", "coverage", "truncated", "status")


class _Writable(Protocol):
    def write(self, text: str, /) -> object: ...


@dataclass(slots=True, kw_only=True)
class Formulas:
    """Cells that a spreadsheet program might run. They are written unchanged, so that the table reads back the same."""

    count: int = 0
    rows: list[int] = field(default_factory=list)
    """The first rows with such cells."""

    def check(self, row: int, cells: Iterable[str]) -> None:
        formulas = sum(cell.startswith(_FORMULA_STARTS) and not _is_number(cell) for cell in cells)
        self.count += formulas
        if formulas and len(self.rows) < MAX_FORMULA_ROWS:
            self.rows.append(row)


class Table:
    """Writes rows one by one, below a header."""

    def __init__(self, file: _Writable, columns: Sequence[str], dimensions: Sequence[str]) -> None:
        """Write the header. The file must not translate line ends (`newline=""`): those in cells are the input's."""
        self.formulas = Formulas()
        self._columns = columns
        self._dimensions = dimensions
        # With this line end, every version of the writer quotes cells that contain either of its characters.
        self._writer = csv.writer(file, lineterminator="\r\n")
        self._writer.writerow([*columns, *name_added_columns(columns, dimensions)])

    def add(self, row: Row) -> None:
        cells = [_cell(row.source.get(name)) for name in self._columns]
        self.formulas.check(row.row, cells)
        self._writer.writerow([*cells, *self._finding_cells(row.evaluation)])

    def _finding_cells(self, evaluation: Evaluation | None) -> list[str]:
        if evaluation is None:
            return [*([""] * (len(_OF_DIMENSION) * len(self._dimensions) + len(_OF_ROW) - 1)), NOT_JUDGED]
        cells = [cell for name in self._dimensions for cell in _dimension_cells(evaluation.dimensions.get(name))]
        composite = evaluation.composite
        truncated = ", ".join(evaluation.truncated)
        return [*cells, _score(composite.score), _score(composite.coverage), truncated, composite.status.value]


def _dimension_cells(dimension: Dimension | None) -> Sequence[str]:
    if dimension is None:
        return [""] * len(_OF_DIMENSION)
    level = "" if dimension.level is None else str(dimension.level)
    option, label = dimension.option or "", dimension.label or ""
    return _score(dimension.score), level, option, label, dimension.status.value, _explain(dimension)


def _explain(dimension: Dimension) -> str:
    """Return the judges' explanations, each after the name of its judge if there are several."""
    explained = [(verdict.judge, verdict.explanation or verdict.detail or "") for verdict in dimension.judges]
    texts = [(judge, text) for judge, text in explained if text]
    return texts[0][1] if len(explained) == 1 and texts else "\n".join(f"{judge}: {text}" for judge, text in texts)


def name_added_columns(columns: Sequence[str], dimensions: Sequence[str]) -> list[str]:
    """Return the names of the added columns, changed if the file has such a column in any case."""
    names = [f"{name}_{what}" for name in dimensions for what in _OF_DIMENSION]
    taken = {name.strip().casefold() for name in columns}
    added = []
    for name in (*names, *_OF_ROW):
        free = _free(name, taken)
        taken.add(free)
        added.append(free)
    return added


def _free(name: str, taken: set[str]) -> str:
    free, number = name, 1
    while free in taken:
        free = name + _SUFFIX + (f"_{number}" if number > 1 else "")
        number += 1
    return free


def _score(score: float | None) -> str:
    """Format a score with nine digits, without rounding noise."""
    return "" if score is None else f"{round(score, 9):.9g}"


def _cell(value: JsonValue) -> str:
    """Return text unchanged, null as an empty cell, and anything else as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
