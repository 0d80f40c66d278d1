"""The HTML report is one self-contained file that no judged text can break."""

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given, settings

from judges.values.evaluation import CompositeStatus, SafetyStatus
from sinks.reports.contents import Contents
from sinks.reports.formatting import visible
from sinks.reports.html import page
from sinks.reports.results_schema import Row
from tests.sinks.reports.invented import NASTY, contents_of, contents_saying, contents_with, hostile, row, run, saying

VOID = {"meta", "input", "br"}


class Reader(HTMLParser):
    """Parses a page: its elements in order, the text of each class, and whether all elements are closed."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, tuple[str, ...]]] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.texts: list[tuple[str, str]] = []
        self.others: list[str] = []
        self._open: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, tuple(name for name, _value in attrs)))
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self._open.append((tag, dict(attrs).get("class") or ""))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        if self._open:
            self.texts.append((self._open[-1][1], data))

    def handle_comment(self, data: str) -> None:
        self.others.append(data)

    def unknown_decl(self, data: str) -> None:
        self.others.append(data)

    def handle_pi(self, data: str) -> None:
        self.others.append(data)

    @property
    def text(self) -> str:
        return "".join(text for _classes, text in self.texts)

    @property
    def links(self) -> set[str]:
        return {value or "" for _tag, name, value in self.attributes if name == "href"}

    def of_class(self, name: str) -> list[str]:
        return [text for classes, text in self.texts if name in classes.split()]


def document(*rows: Row, **about: Any) -> str:
    return "".join(page(contents_of(run(**about), *rows), rows, lambda _row: True))


def render(contents: Contents, rows: Sequence[Row]) -> Reader:
    return Reader("".join(page(contents, rows, lambda _row: True)))


@settings(max_examples=40, deadline=None)
@given(hostile)
def test_no_judged_text_becomes_markup(text: str) -> None:
    padded = f"x{text}x"
    page, harmless = render(*contents_saying(padded)), render(*contents_saying("x"))
    assert page.elements == harmless.elements
    assert page.links == harmless.links
    assert not page.others
    assert set(page.of_class("text")) >= {visible(padded)}
    assert visible(padded) in page.of_class("said")


@pytest.mark.parametrize("text", NASTY)
def test_the_text_of_every_field_is_shown_as_it_is(text: str) -> None:
    """Each text appears character by character, except for characters that HTML cannot hold.

    It is neither escaped twice nor taken for a template. A list is shown as JSON, an explanation instead of a detail.
    """
    fields: dict[str, str] = {}

    def text_of(field: str) -> str:
        return fields.setdefault(field, f"({field}) {text} (end)")

    page_text = render(*contents_with(text_of)).text
    expected = fields | {"list": json.dumps(fields["list"], ensure_ascii=False), "detail": "(explanation)"}
    assert [field for field, words in expected.items() if visible(words) not in page_text] == []


@settings(max_examples=40, deadline=None)
@given(hostile)
def test_an_attribute_is_one_attribute(text: str) -> None:
    page = render(*contents_with(lambda field: text if field == "title" else "x"))
    labels = [value for tag, name, value in page.attributes if (tag, name) == ("svg", "aria-label")]
    assert f"{visible(text)}: mean 0.00, 95 % interval –" in labels


def test_nothing_is_fetched_and_no_script_but_its_own_is_run() -> None:
    text = document(saying("x"), row(2, 0.0, safety=SafetyStatus.UNSAFE, status=CompositeStatus.UNSAFE))
    page = Reader(text)
    assert not [
        attribute
        for attribute in page.attributes
        if attribute[1] in {"src", "style", "action", "srcset", "data", "poster"}
    ]
    assert not [attribute for attribute in page.attributes if attribute[1].startswith("on")]
    assert all(link.startswith("#") for link in page.links)
    assert not re.search(r"url\(|@import|https?://", text)
    [policy] = [value for _tag, name, value in page.attributes if name == "content" and "default-src" in (value or "")]
    assert policy is not None
    for tag in ("style", "script"):
        [inside] = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy


def test_every_link_leads_somewhere_and_every_name_is_there_once() -> None:
    page = Reader(document(*(saying("x", number=number) for number in (1, 2, 3))))
    names = [value for _tag, name, value in page.attributes if name == "id"]
    links = {link.removeprefix("#") for link in page.links}
    assert len(set(names)) == len(names)
    assert links <= set(names)
    assert "row-2" in links


def test_a_row_that_is_not_shown_is_not_linked() -> None:
    rows = [row(number, 0.0) for number in (1, 2)]
    text = "".join(page(contents_of(run(), *rows, listed=1), rows[:1], {1}.__contains__))
    links = Reader(text).links
    assert "#row-1" in links
    assert "#row-2" not in links


def test_pictures_have_words_and_tables_have_headers() -> None:
    page = Reader(document(saying("x")))
    pictures = [names for tag, names in page.elements if tag == "svg"]
    assert all("aria-label" in names or "aria-hidden" in names for names in pictures)
    assert len(pictures) >= 4
    assert all("scope" in names for tag, names in page.elements if tag == "th")
    labels = [value for _tag, name, value in page.attributes if name == "aria-label"]
    assert "Groundedness: mean 0.50, 95 % interval –" in labels
    assert "Quality bands: excellent 0 %, good 0 %, fair 0 %, poor 0 %, bad 100 %" in labels


@pytest.mark.parametrize("rows", [(), (row(1, None),), (Row(row=1, source={}),)])
def test_a_run_without_scores_is_a_page_too(rows: tuple[Row, ...]) -> None:
    Reader(document(*rows))


def test_entries_are_rendered_one_at_a_time() -> None:
    """A row is read after the one before it has been written, so memory does not grow with the number of rows."""
    rows = [row(number) for number in (1, 2, 3)]
    taken: list[int] = []

    def read() -> Iterator[Row]:
        for entry in rows:
            taken.append(entry.row)
            yield entry

    written: list[int] = []
    for chunk in page(contents_of(run(), *rows), read(), lambda _row: True):
        written += [int(number) for number in re.findall(r'id="row-(\d)"', chunk)]
        assert taken in ([], written)
    assert written == [1, 2, 3]
