"""Sheets drawn for the terminal, and written as Markdown and as HTML."""

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sinks.reports.markdown import inline
from sinks.reports.sheet import Sheet
from sinks.text import printable

# Wide enough for the widest table if there is no terminal.
_PLAIN_WIDTH = 200
_WORDS_WIDTH = 12
_GAP = 2

_STYLE = (
    ":root{color-scheme:light dark}"
    "body{font:15px/1.5 system-ui,sans-serif;max-width:75rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse;display:block;overflow-x:auto}"
    "th,td{text-align:left;vertical-align:top;padding:.3rem .8rem .3rem 0;border-bottom:1px solid #8884}"
    ".number{text-align:right;font-variant-numeric:tabular-nums}p{color:GrayText}"
)


def draw(sheets: Iterable[Sheet], console: Console) -> None:
    """Draw one table after the other; words are folded to fit, and numbers are never cut on a narrow terminal."""
    screen = console.width if console.is_terminal else _PLAIN_WIDTH
    for number, sheet in enumerate(sheets):
        console.width = max(screen, _least_width(sheet))
        if number:
            console.print()
        console.print(Text(printable(sheet.title), style="bold"))
        if sheet.rows:
            console.print(_table(sheet))
        console.width = screen
        for note in sheet.notes:
            console.print(Text(printable(note), style="dim"))


def _table(sheet: Sheet) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False, header_style="dim")
    for place, heading in enumerate(sheet.headings):
        justify: Literal["left", "right"] = "left" if place in sheet.words else "right"
        # Untrusted text: neither the library's markup nor control characters may affect the terminal.
        title = Text("\n".join(map(printable, heading.split("\n"))))
        least, firm = _least(sheet, place), not _foldable(sheet, place)
        table.add_column(title, justify=justify, overflow="fold", min_width=least, no_wrap=firm)
    for row in sheet.rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    return table


def _foldable(sheet: Sheet, place: int) -> bool:
    """Return whether a column holds words, and is not the first column."""
    return place in sheet.words and place > 0


def _least(sheet: Sheet, place: int) -> int:
    """Return the least width of a column: words may be folded, other columns keep their width."""
    widths = [cell_len(row[place]) for row in sheet.rows]
    longest = max([*widths, *map(cell_len, sheet.headings[place].split("\n"))])
    return min(longest, _WORDS_WIDTH) if _foldable(sheet, place) else longest


def _least_width(sheet: Sheet) -> int:
    return sum(_least(sheet, place) + _GAP for place in range(len(sheet.headings)))


def as_markdown(title: str, sheets: Iterable[Sheet]) -> str:
    return "\n".join([f"# {inline(title)}", *(line for sheet in sheets for line in _section(sheet))]) + "\n"


def as_html(title: str, sheets: Iterable[Sheet]) -> str:
    """Return one page that needs nothing else: no network, no font, no script. All texts are escaped."""
    heading = _escape(title)
    return "\n".join(
        (
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            """<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">""",
            f"<title>{heading}</title>",
            f"<style>{_STYLE}</style>",
            "</head>",
            "<body>",
            f"<h1>{heading}</h1>",
            *(line for sheet in sheets for line in _html_section(sheet)),
            "</body>",
            "</html>",
            "",
        )
    )


def _html_section(sheet: Sheet) -> Iterator[str]:
    yield f"<h2>{_escape(sheet.title)}</h2>"
    if sheet.rows:
        yield "<table>"
        yield f"<thead><tr>{''.join(_html_cells('th', sheet.headings, sheet))}</tr></thead>"
        yield "<tbody>"
        yield from (f"<tr>{''.join(_html_cells('td', row, sheet))}</tr>" for row in sheet.rows)
        yield "</tbody>"
        yield "</table>"
    yield from (f"<p>{_escape(note)}</p>" for note in sheet.notes)


def _html_cells(tag: str, cells: Sequence[str], sheet: Sheet) -> Iterator[str]:
    for place, cell in enumerate(cells):
        kind = "" if place in sheet.words else ' class="number"'
        yield f"<{tag}{kind}>{_escape(cell)}</{tag}>"


def _escape(text: str) -> str:
    return escape(printable(text))


def _section(sheet: Sheet) -> Iterator[str]:
    yield ""
    yield f"## {inline(sheet.title)}"
    if sheet.rows:
        yield ""
        yield _line(sheet.headings)
        yield (
            "| " + " | ".join("---" if place in sheet.words else "---:" for place in range(len(sheet.headings))) + " |"
        )
        yield from map(_line, sheet.rows)
    for note in sheet.notes:
        yield ""
        yield inline(note)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(map(inline, cells)) + " |"
