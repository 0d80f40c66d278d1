"""Users read plain English: no odd phrase in help, configuration, logs, errors, alerts, dashboards, reports and docs.

Each pattern has the words to write instead, which a failure prints. Every string literal with a space in it is checked,
docstrings are not; only the docstring of a command is, because it is the help of the command.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.parts.documents.pages import pages, prose

ROOT = Path(__file__).parents[2]
PACKAGES = ("judges", "sinks", "stream", "dashboards")
TEMPLATES = sorted((ROOT / "sinks/reports/templates").glob("*.j2"))

INSTEAD_OF = {
    r"(?:^|[.;:!] )What (?!to\b)[^?]*$": "start with a verb, a noun, or who does it",
    r"\b(?:tells?|told|telling)\b(?! (?:\w+ )?apart)": "report, log, list, print, notify",
    r"\blearns of\b": "sees, receives",
    r"\bso many\b|\bso long (?!as\b)|\bso far below\b": "N, this many, this long, at most N",
    r"\banew\b|\bafresh\b": "again, re-",
    r"\bsurely\b": "with 95 % confidence",
    r"\b[Nn]obody\b|(?:^|[.;] )(?:None|Nothing|No one) (?!of\b)": "no and a noun",
    r"\bgoes on\b|\bgo on\b": "continue, resume",
    r"\bis there already\b|\bthere is already\b|\bis there twice\b": "already exists, is listed twice",
    r"\bwhat became of\b|\bnothing comes of\b|\bof late\b": "outcome, no more scores, recently",
    r"(?<![Tt]here )\bis no (?!longer\b|evidence\b)\w": "is not a",
    r"\bwithout a word\b(?! such)|\bin vain\b": "no detail given, without a result",
    r"\bcome round\b|\bis at work\b": "no progress, started",
    r"\bhowever often one\b|\b[Ww]hoever\b|(?:^|[.;:,] )[Ww]ho (?:compares|changes|runs)\b": "if you, anyone who",
    r"\bwithout it, (?:all|as|at|now|one|with)\b": "(default: ...)",
    r"\btakes the place of\b|\bleave one of them out\b": "cannot be used together with, remove",
}

# Texts that match a pattern but are good English, or that cannot change, with the reason.
ALLOWED_PLACES = {
    "judges/llm/prompts": "prompts are part of an evaluator's fingerprint",
    "judges/local": "explanations belong to the version of the local judge",
    "stream/cli/demo": "simulated conversations",
}
ALLOWED_TEXTS: dict[str, str] = {}


class Text(NamedTuple):
    path: Path
    line: int
    words: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.words!r}"


# Texts of the code


def is_help(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef) and any(
        re.search(r"\b(command|group)\b", ast.unparse(decorator)) for decorator in node.decorator_list
    )


def docstrings(tree: ast.Module) -> set[int]:
    """Return the ids of docstring nodes, except for the help of commands."""
    return {
        id(statement.value)
        for node in ast.walk(tree)
        if isinstance(body := getattr(node, "body", None), list) and not is_help(node)
        for statement in body
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    }


def texts_of(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield string literals with their lines; the placeholders of an f-string are `{}`."""
    if isinstance(node, ast.JoinedStr):
        yield node.lineno, "".join(str(p.value) if isinstance(p, ast.Constant) else "{}" for p in node.values)
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                yield from texts_of(part.value)
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.lineno, node.value
    for child in ast.iter_child_nodes(node):
        yield from texts_of(child)


def without_docstrings(tree: ast.Module) -> ast.Module:
    hidden = docstrings(tree)
    for node in ast.walk(tree):
        if id(node) in hidden and isinstance(node, ast.Constant):
            node.value = None
    return tree


def code_texts(path: Path, source: str) -> Iterator[Text]:
    for line, words in texts_of(without_docstrings(ast.parse(source))):
        if " " in words.strip():
            yield Text(path, line, words)


def user_visible_texts() -> Iterator[Text]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if not str(path.relative_to(ROOT)).startswith(tuple(ALLOWED_PLACES)):
                yield from code_texts(path, path.read_text())
    for path in TEMPLATES:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            yield Text(path, number, re.sub(r"\{[%{#].*?[%}#]\}|<[^>]*>", " ", line).strip())


def odd_phrases(text: Text) -> Iterator[str]:
    if text.words in ALLOWED_TEXTS:
        return
    for pattern, better in INSTEAD_OF.items():
        for line in text.words.splitlines():
            if match := re.search(pattern, line):
                yield f"{text}: {match[0]!r}; write: {better}"


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ('help = "Stop after so many seconds."', "this many"),
        ('log.info(f"the {stage} goes on with {count} records")', "resume"),
        ('raise Error("What was judged is not known.")', "start with a verb"),
        ("@click.command()\ndef run():\n    '''It is told in the log.'''\n", "report"),
    ],
)
def test_an_odd_phrase_is_found(source: str, problem: str) -> None:
    [match] = [phrase for text in code_texts(ROOT / "x.py", source) for phrase in odd_phrases(text)]
    assert problem in match


def test_docstrings_and_single_words_are_not_user_visible() -> None:
    source = "'''What is told.'''\ndef told():\n    '''Nobody is told.'''\n    return 'told'\n"
    assert list(code_texts(ROOT / "x.py", source)) == []


def test_users_read_plain_english() -> None:
    texts = list(user_visible_texts())
    assert len(texts) > 1500
    assert [phrase for text in texts for phrase in odd_phrases(text)] == []
    assert ALLOWED_TEXTS.keys() <= {text.words for text in texts}, "an exception is no longer needed"


def test_every_excepted_place_exists() -> None:
    assert [place for place in ALLOWED_PLACES if not (ROOT / place).exists()] == []


# Pages


def page_texts(page: Path) -> Iterator[Text]:
    """Return the lines of a page without headings and code; a phrase wrapped over two lines is not seen."""
    for number, line in enumerate(prose(page).splitlines(), 1):
        if not line.startswith("#"):
            yield Text(page, number, re.sub(r"`[^`]*`", "`…`", line).strip(" |#*->"))


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_readers_of_a_page_read_plain_english(page: Path) -> None:
    assert [phrase for text in page_texts(page) for phrase in odd_phrases(text)] == []
