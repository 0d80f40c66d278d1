"""The Markdown report keeps its shape whatever the judged texts hold."""

from typing import Any

from hypothesis import given, settings
from markdown_it import MarkdownIt
from markdown_it.token import Token

from judges.values.evaluation import CompositeStatus
from sinks.reports.formatting import MAX_FIELDS, visible
from sinks.reports.markdown import fence, inline, markdown, table
from sinks.reports.results_schema import Row
from tests.sinks.reports.invented import contents_of, contents_saying, hostile, row, run, saying

PARSER = MarkdownIt("commonmark").enable("table").enable("strikethrough")


def document(*rows: Row, **about: Any) -> str:
    return "".join(markdown(contents_of(run(**about), *rows), rows))


def shape(text: str) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return the structure of a document: its blocks, and the kinds of their inline parts."""
    tokens = PARSER.parse(text)
    return [(token.type, token.tag, tuple(child.type for child in token.children or ())) for token in tokens]


def of_type(text: str, kind: str) -> list[Token]:
    return [token for token in PARSER.parse(text) if token.type == kind]


@settings(max_examples=40, deadline=None)
@given(hostile)
def test_no_judged_text_changes_the_structure(text: str) -> None:
    # Empty texts are left out of a report.
    padded = f"x{text}x"
    assert shape("".join(markdown(*contents_saying(padded)))) == shape("".join(markdown(*contents_saying("x"))))


@given(hostile)
def test_a_fenced_text_is_one_block_that_holds_it(text: str) -> None:
    [block] = PARSER.parse(fence(text))
    assert block.type == "fence"
    assert block.content == visible(text) + "\n"


@given(hostile)
def test_an_inline_text_is_plain_text(text: str) -> None:
    [heading] = of_type(f"# a {inline(text)} b", "inline")
    assert heading.children is not None
    assert {child.type for child in heading.children} == {"text"}
    assert "".join(child.content for child in heading.children).split() == f"a {visible(text)} b".split()


@given(hostile, hostile)
def test_a_cell_stays_in_its_column(one: str, other: str) -> None:
    cells = [token.content for token in of_type(table(("a", "b"), [(one, other)]), "inline")]
    assert len(cells) == 4


def test_it_reports_the_results() -> None:
    text = document(saying("because"), row(2, None), row(3, 0.0, status=CompositeStatus.UNSAFE), finished=False)
    for expected in (
        "# Evaluation of file.csv",
        "| Mean ± deviation | 0.125 ± 0.125 |",
        "| bad | below 0.3 | 2 | 100 % | ██████████████████████████████ |",
        "### Incomplete answers: 1",
        "### Composite below 0.3: 2",
        "| safety\\_unknown | no safety verdict: the composite is withheld | 1 |",
        "| seed | 1 |",
        "### Row 1: 0.25, scored",
        "| Completeness | 0.00 | 0 of 2, none | because Advice: because |",
        "| Groundedness, two | – | insufficient | because Advice: because |",
        "> **Note:** This run has not finished",
    ):
        assert expected in text, expected


def test_it_shows_history_and_contexts_like_the_page() -> None:
    source = {
        "Current User Question": "And for children?",
        "Conversation History": "user: What is the price?\\nassistant: Ten euros.",
        "Assistant Answer": "Half price.",
        "contexts": [{"text": "Children pay half."}],
        "empty": "",
    }
    text = document(row(1, source=source))
    assert "Field Conversation History\n\n```text\nuser: What is the price?\nassistant: Ten euros.\n```\n" in text
    assert '"text": "Children pay half."' in text
    assert "Field empty" not in text
    assert text.index("**Answer**") < text.index("Field Conversation History") < text.index("Field contexts")


def test_with_many_fields_it_says_where_the_rest_is() -> None:
    text = document(row(1, source={f"field {number}": "x" for number in range(MAX_FIELDS + 2)}))
    assert text.count("\nField ") == MAX_FIELDS
    assert "2 more fields are in results.jsonl." in text


def test_with_many_rows_it_says_where_the_rest_is() -> None:
    rows = [row(number) for number in range(1, 6)]
    text = "".join(markdown(contents_of(run(), *rows, listed=2), rows[:2]))
    assert "The 2 of 5 rows with the lowest composites" in text
    assert "results.csv" in text


def test_no_rows_are_a_report_too() -> None:
    assert "There are no rows in these results." in document()
