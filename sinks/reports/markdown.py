"""The report as Markdown. Judged texts are escaped, whatever they contain."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from judges.values.evaluation import Dimension, Evaluation, JudgeVerdict
from sinks.reports import contents as parts
from sinks.reports.contents import Contents, Grid
from sinks.reports.formatting import (
    DEVIATION_NOTE,
    INTERVAL_NOTE,
    ISSUE_RULES,
    ISSUE_TITLES,
    MAX_TEXT_CHARS,
    NOTHING,
    ShownRow,
    entry_of,
    finding,
    number,
    status_name,
    truncate,
    verdict_texts,
    visible,
)
from sinks.reports.results_schema import CriterionInfo, Row
from sinks.reports.summary import Issue

# A backslash before any of these makes it a plain character. No untrusted text begins a line, so characters that are
# special only there need none.
_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~&$]|:(?=//)|(?<=www)\.)")
_BAR_CELLS = 30


def markdown(contents: Contents, entries: Iterable[Row]) -> Iterator[str]:
    """Yield the report in parts, to be written one after the other."""
    summary = contents.summary
    yield f"# Evaluation of {inline(contents.run.name)}\n\n{inline(contents.lede())}\n\n"
    yield from (f"> **Note:** {inline(note)}\n\n" for note in contents.notes())
    yield _section("Overall", parts.overall(contents))
    yield f"{inline(INTERVAL_NOTE)} {inline(DEVIATION_NOTE)}\n\n"
    yield _section("Quality", _with_bars(parts.bands(summary)), _with_bars(parts.histogram(summary)))
    yield _section("Dimensions", parts.dimensions(summary), parts.choices(summary), parts.corrections(contents))
    yield from (f"{inline(note)}\n\n" for note in parts.correction_notes(contents))
    yield "## Issues\n\n"
    yield from map(_issue, summary.issues)
    failures = parts.statuses(summary), parts.missing(summary), parts.failures(summary)
    yield _section("Coverage and failures", *failures)
    yield _section("Judges and cost", parts.judges(summary), parts.agreement(contents))
    yield _section("The run", parts.criteria(contents.run), parts.parameters(contents))
    yield f"## Entries\n\n{inline(contents.which_entries())}\n\n"
    criteria = {criterion.name: criterion for criterion in contents.run.criteria}
    for row in entries:
        yield from _entry(row, criteria)


# Escaping


def inline(text: str) -> str:
    """Escape text within a line, a heading or a cell."""
    return _SPECIAL.sub(r"\\\1", " ".join(visible(text).split()))


def fence(text: str) -> str:
    """Put text in a code block, with a fence that is longer than any in it."""
    clean = visible(text)
    longest = max((len(run) for run in re.findall(r"`+", clean)), default=0)
    marks = "`" * max(3, longest + 1)
    return f"{marks}text\n{clean}\n{marks}\n\n"


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: int = 0) -> str:
    """Write a table with escaped cells; the last `numbers` columns are aligned right."""
    rule = ["---"] * (len(header) - numbers) + ["---:"] * numbers
    lines = [[inline(cell) or NOTHING for cell in cells] for cells in (header, *rows)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (lines[0], rule, *lines[1:])) + "\n"


# The parts


def _section(title: str, *grids: Grid) -> str:
    """Write a section; several tables have their own titles, and empty ones are left out."""
    filled = [grid for grid in grids if grid.rows]
    body = (f"### {grid.title}\n\n{_grid(grid)}" if len(filled) > 1 else _grid(grid) for grid in filled)
    return f"## {title}\n\n{''.join(body)}"


def _grid(grid: Grid) -> str:
    return table(grid.header, grid.rows, numbers=grid.numbers)


def _with_bars(grid: Grid) -> Grid:
    """Add a bar for the count in the column "Rows" to each row."""
    column = grid.header.index("Rows")
    counts = [int(row[column].replace(",", "")) for row in grid.rows]
    most = max(counts, default=0)
    rows = [(*row, _bar(count, most)) for row, count in zip(grid.rows, counts, strict=True)]
    return Grid(title=grid.title, header=(*grid.header, "Bar"), rows=rows)


def _bar(part: int, whole: int) -> str:
    return "█" * max(1, round(_BAR_CELLS * part / whole)) if part else ""


def _issue(issue: Issue) -> str:
    head = f"### {inline(ISSUE_TITLES[issue.kind])}: {issue.count:,}\n\n{inline(ISSUE_RULES[issue.kind])}\n\n"
    if not issue.count:
        return head
    rows = [(str(mention.row), mention.id, number(mention.score)) for mention in issue.rows]
    rest = parts.mentions(issue)
    return head + table(("Row", "Id", "Score"), [*rows, *([("…", rest, "")] if rest else [])], numbers=1)


def _entry(row: Row, criteria: Mapping[str, CriterionInfo]) -> Iterator[str]:
    entry, evaluation = entry_of(row), row.evaluation
    yield f"### Row {row.row}: {_verdict(row)}\n\n"
    if entry.id is not None:
        yield f"Id {inline(entry.id)}\n\n"
    for name, text in (("Question", entry.question), ("Answer", entry.answer)):
        if text is not None:
            yield f"**{name}**\n\n{fence(text)}"
    yield from _other_fields(entry)
    if evaluation is not None and evaluation.truncated:
        yield f"Truncated before judging: {inline(', '.join(evaluation.truncated))}\n\n"
    if evaluation is not None:
        yield _findings(evaluation, criteria)
    elif row.error is not None:
        yield f"**Not judged** ({inline(row.error.kind)})\n\n{fence(truncate(row.error.message, MAX_TEXT_CHARS))}"


def _other_fields(entry: ShownRow) -> Iterator[str]:
    """Yield the other fields of a row, such as history and contexts; each name follows a word of ours."""
    for name, text in entry.fields:
        yield f"Field {inline(name)}\n\n{fence(text)}"
    if entry.fields_left_out:
        yield f"{entry.fields_left_out:,} more fields are in results.jsonl.\n\n"


def _verdict(row: Row) -> str:
    if row.evaluation is None:
        return "not judged"
    composite = row.evaluation.composite
    return f"{number(composite.score)}, {inline(status_name(composite.status))}"


def _findings(evaluation: Evaluation, criteria: Mapping[str, CriterionInfo]) -> str:
    header = ("Dimension", "Score", "Found", "Explanation")
    rows = [
        cells
        for name, dimension in evaluation.dimensions.items()
        for cells in _finding_rows(name, dimension, criteria.get(name))
    ]
    return table(header, rows)


def _finding_rows(name: str, dimension: Dimension, criterion: CriterionInfo | None) -> Iterator[Sequence[str]]:
    """Yield one row for a single judge; for several, one for the panel and one for each judge."""
    title = name if criterion is None else criterion.title
    if len(dimension.judges) == 1:
        verdict = dimension.judges[0]
        yield title, number(dimension.score), finding(criterion, dimension), _words(verdict)
        return
    yield title, number(dimension.score), finding(criterion, dimension), dimension.detail or ""
    for verdict in dimension.judges:
        yield f"{title}, {verdict.judge}", number(verdict.score), finding(criterion, verdict), _words(verdict)


def _words(verdict: JudgeVerdict) -> str:
    return " ".join(f"{name}: {text}" if name else text for name, text in verdict_texts(verdict))
