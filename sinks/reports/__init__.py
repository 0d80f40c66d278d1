"""Reports on an offline run: a CSV table, a Markdown document and an HTML page, made from its file of results.

- `results_schema`: the lines of a file of results
- `results_reader`: reads such a file row by row
- `summary`: the figures of a run, gathered row by row
- `contents`: the contents of a report, independent of its format
- `formatting`: numbers and names, the same in every format
- `csv_table`: the results as CSV
- `markdown`: the report as Markdown
- `html`: the report as one HTML file, from the templates in `templates/`
- `charts`: the figures behind the charts
- `sheet`: a titled table of text
- `sheet_rendering`: sheets drawn for the terminal, and written as Markdown and as HTML
"""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from heapq import heappush, heappushpop
from pathlib import Path
from typing import IO, NamedTuple

from sinks.reports.contents import Contents
from sinks.reports.csv_table import Formulas, Table
from sinks.reports.markdown import markdown
from sinks.reports.results_reader import Results, read_results
from sinks.reports.results_schema import Row
from sinks.reports.sheet import Sheet
from sinks.reports.summary import Summariser, Summary

TABLE_NAME = "results.csv"
MARKDOWN_NAME = "report.md"
PAGE_NAME = "report.html"

MAX_ENTRIES = 2_000
"""The most rows that the documents list one by one; beyond this, the worst."""

Progress = Callable[[int, int], None]
"""Called with the number of rows done, and their total."""


class Reports(NamedTuple):
    paths: list[Path]
    summary: Summary


def write_reports(results_path: Path, folder: Path, *, progress: Progress | None = None) -> list[Path]:
    """Write the reports on a file of results into a folder, and return their paths; raises ResultsError."""
    return make_reports(results_path, folder, progress=progress).paths


def make_reports(
    results_path: Path, folder: Path, *, corrections: Sheet | None = None, progress: Progress | None = None
) -> Reports:
    """Write the reports, and return their paths and figures.

    `corrections` are means corrected by labels of people. The rows are read one at a time, twice: all of them for the
    figures and the table, then the listed ones.
    """
    from sinks.reports.html import page  # noqa: PLC0415 - loads the template library only to write a page

    results = read_results(results_path)
    folder.mkdir(parents=True, exist_ok=True)
    summary, formulas, listed = _first_pass(results, folder / TABLE_NAME, progress or _ignore_progress)
    contents = Contents(
        run=results.run,
        end=results.end,
        summary=summary,
        formulas=formulas,
        listed=len(listed),
        more_columns=results.more_columns,
        corrections=corrections,
    )
    listed_numbers = {results.number_at(place) for place in listed}
    _write(folder / MARKDOWN_NAME, markdown(contents, results.rows_at(listed)))
    _write(folder / PAGE_NAME, page(contents, results.rows_at(listed), listed_numbers.__contains__))
    return Reports([folder / name for name in (TABLE_NAME, MARKDOWN_NAME, PAGE_NAME)], summary)


def _ignore_progress(_done: int, _total: int) -> None:
    """Do nothing: no caller wants progress."""


def _first_pass(results: Results, path: Path, progress: Progress) -> tuple[Summary, Formulas, list[int]]:
    """Write the table; return the figures, and the places of the rows to list."""
    summariser, worst = Summariser(results.run), _Worst(MAX_ENTRIES)
    criteria = [criterion.name for criterion in results.run.criteria]
    with _replacing(path) as file:
        table = Table(file, results.columns, criteria)
        for place, row in enumerate(results.rows()):
            summariser.add(row)
            table.add(row)
            worst.add(place, row)
            progress(place + 1, len(results))
    return summariser.result(), table.formulas, worst.places()


class _Worst:
    """The places of the rows with the lowest composites; rows without a composite come last."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._heap: list[tuple[float, int]] = []

    def add(self, place: int, row: Row) -> None:
        score = None if row.evaluation is None else row.evaluation.composite.score
        entry = (-2.0 if score is None else -score, -place)
        if len(self._heap) < self._limit:
            heappush(self._heap, entry)
        else:
            heappushpop(self._heap, entry)

    def places(self) -> list[int]:
        return sorted(-place for _score, place in self._heap)


def _write(path: Path, parts: Iterable[str]) -> None:
    with _replacing(path) as file:
        file.writelines(parts)


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[IO[str]]:
    """Open a file that gets its name when it is complete, so that readers never see half a report."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        # newline="": line ends inside cells are those of the input.
        with unfinished.open("w", encoding="utf-8", newline="") as file:
            yield file
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
