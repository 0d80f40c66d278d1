"""The two YAML parsers: the fast one reads no text differently, and the slow one has the errors."""

from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from judges.criteria import strict_yaml
from judges.criteria.problems import Loc
from judges.criteria.strict_yaml import UnreadableError, read_yaml, to_yaml

# Pieces of YAML in any order: most texts are invalid, and many of the others are odd.
PIECES = ["a", "b", "1", "~", ": ", ":", "- ", "-", "? ", ", ", "[", "]", "{", "}", '"', "'", "#", " #", "&x ", "*x"]
PIECES += [
    "!t ",
    "!!str ",
    "|\n",
    ">-\n",
    "\n",
    "\n  ",
    "\n    ",
    "%",
    "---\n",
    "...\n",
    "${A}",
    "é",
    "\u2028",
    "\\",
]

documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


class Reports(list[tuple[Loc, str]]):
    def report(self, loc: Loc, message: str) -> None:
        self.append((loc, message))

    report_unread = report


def read(text: str) -> tuple[Any, Reports]:
    reports = Reports()
    try:
        return read_yaml(text, (), reports), reports
    except UnreadableError as error:
        return (error.problem.path, error.problem.message), reports


def read_slowly(text: str) -> tuple[Any, Reports]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strict_yaml, "_FastLoader", strict_yaml._Loader)
        return read(text)


def test_the_fast_parser_is_in_c() -> None:
    assert issubclass(strict_yaml._FastLoader, yaml.CSafeLoader)


@given(documents)
def test_what_is_written_is_read_by_both(document: Any) -> None:
    text = to_yaml(document)
    assert read(text) == read_slowly(text)


@settings(max_examples=300)
@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
@example("[no, 12:30, 2026-01-01, 0o17, 017, 1e5, .inf, ~]\n")
@example("a: !!str 1\n")
@example("a: &b 1\nb: *b\n")
@example('a: "\\ud800"\n')
@example("%YAML 1.3\n---\na: 1\n")
@example("[" * 100_000)
def test_a_text_that_the_slow_parser_reads_is_read_the_same(text: str) -> None:
    """The fast one also reads some texts that the other refuses against the rules of YAML."""
    expected = repr(read_slowly(text))
    assert "is not valid YAML" in expected or repr(read(text)) == expected


def test_a_text_that_neither_reads_has_the_error_of_the_slow_parser() -> None:
    text = "a: 1\nb: [${A}]\n"
    assert read(text) == read_slowly(text)
    assert read(text)[0][0] == "line 2, column 6"


def test_a_tab_between_values_is_a_space() -> None:
    assert read("a:\t1\nb: [1,\t2] \t# two\n") == ({"a": 1, "b": [1, 2]}, [])
