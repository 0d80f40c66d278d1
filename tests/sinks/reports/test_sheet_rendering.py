"""Tables on the terminal and in Markdown: no text is lost, and no text acts as markup."""

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from sinks.reports.sheet import Sheet
from sinks.reports.sheet_rendering import as_markdown, draw

NUMBERS = Sheet(
    title="Numbers",
    headings=("", "rows", "only\nA", "kappa", "interval"),
    rows=(("answer_relevance", "1,234,567", "12", "-0.123", "-1.277 to +0.777"),),
    notes=("a note",),
)
WORDS = Sheet(
    title="Words",
    headings=("row", "id", "question"),
    rows=(("12", "0123456789abcdef0123456789abcdef", "How long does the delivery of my shoes take?"),),
    words=frozenset({1, 2}),
)


def render(sheet: Sheet, width: int) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    draw([sheet], console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [10, 20, 40, 80, 200])
def test_numbers_and_names_are_never_cut_however_narrow_the_terminal_is(width: int) -> None:
    output = render(NUMBERS, width)
    for cell in NUMBERS.rows[0]:
        assert cell in output


@pytest.mark.parametrize("width", [10, 30, 40, 80, 200])
def test_words_are_folded_and_none_of_them_is_lost(width: int) -> None:
    output = render(WORDS, width)
    for word in ("delivery", "shoes", "take?"):
        assert word in output
    assert "".join(re.findall(r"\b[0-9a-f]{2,}\b", output)).removeprefix("12") == WORDS.rows[0][1]


def test_a_table_that_fits_is_no_wider_than_the_terminal() -> None:
    assert max(map(len, render(WORDS, 60).splitlines())) <= 60


hostile = st.text(st.characters(blacklist_categories=["Cs"]) | st.sampled_from("|<>`*_[]()\\\n\x1b#&"), max_size=30)


@given(cell=hostile)
def test_no_cell_makes_a_further_cell_or_line_in_markdown(cell: str) -> None:
    sheet = Sheet(title="T", headings=("", "text"), rows=(("a", cell), ("b", "last")), notes=(f"note {cell}",))
    lines = as_markdown("Title", [sheet]).split("\n")
    assert lines[:7] == ["# Title", "", "## T", "", "|  | text |", "| --- | ---: |", lines[6]]
    assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", lines[6])) == 3
    assert lines[7] == "| b | last |"
    assert len(lines) == 11
    assert not re.search(r"(?<!\\)(?:\\\\)*[<`*\[]", lines[6] + lines[9])


@given(cell=hostile)
def test_no_cell_steers_the_terminal(cell: str) -> None:
    sheet = Sheet(title="T", headings=("", "text"), rows=(("a", cell),), notes=(cell,), words=frozenset({0, 1}))
    assert "\x1b" not in render(sheet, 80)
