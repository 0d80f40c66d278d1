"""The project's pages as the tests see them: code blocks, links and anchors."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[3]

_FENCE = re.compile(
    r"^(?P<indent> *)(?P<fence>`{3,}|~{3,})(?P<language>[\w-]*)(?P<info>.*)\n"
    r"(?P<code>(?:.*\n)*?)(?P=indent)(?P=fence) *$",
    re.MULTILINE,
)
_TITLE = re.compile(r'title="([^"]*)"')
_CODE_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
_LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(<?([^)\s>]+)>?(?: \"[^\"]*\")?\)")
_REFERENCE = re.compile(r"^\[[^\]]+\]: +<?(\S+?)>?$", re.MULTILINE)
_HEADING = re.compile(r"^#{1,6} +(.+?)(?: +#+)?$", re.MULTILINE)
_LINK_TEXT = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")


class Block(NamedTuple):
    """A fenced code block and its position."""

    page: str
    line: int
    language: str
    title: str | None
    code: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


class Link(NamedTuple):
    """A link from a page to a file, an anchor or an address."""

    page: Path
    target: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}: {self.target}"


def pages() -> list[Path]:
    """Return all pages that people read: the site, the runbooks, and the files beside the code."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), *runbooks()]


def runbooks() -> list[Path]:
    return sorted((ROOT / "dashboards" / "runbooks").glob("*.md"))


def blocks(page: Path, *languages: str) -> list[Block]:
    """Return the code blocks of a page, optionally only those in the given languages."""
    all_blocks = list(_blocks(page))
    return [block for block in all_blocks if block.language in languages] if languages else all_blocks


def _blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for match in _FENCE.finditer(text):
        indent = match["indent"]
        code = "".join(line.removeprefix(indent) for line in match["code"].splitlines(keepends=True))
        title = _TITLE.search(match["info"])
        line = text.count("\n", 0, match.start()) + 1
        yield Block(str(page.relative_to(ROOT)), line, match["language"], title and title[1], code)


def prose(page: Path) -> str:
    """Return a page without its code blocks."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def code_spans(page: Path) -> list[str]:
    """Return the text of the single-line code spans (in backticks) of a page."""
    return [" ".join(match[2].split()) for match in _CODE_SPAN.finditer(prose(page))]


def links(page: Path) -> list[Link]:
    text = _CODE_SPAN.sub("", prose(page))
    return [Link(page, target) for pattern in (_LINK, _REFERENCE) for target in pattern.findall(text)]


def anchors(page: Path) -> set[str]:
    """Return the anchors that code hosts, and our site, give the headings of a page."""
    uses: Counter[str] = Counter()
    names = set()
    for heading in _HEADING.findall(prose(page)):
        name = _slug(_LINK_TEXT.sub(r"\1", heading))
        names.add(f"{name}-{uses[name]}" if uses[name] else name)
        uses[name] += 1
    return names


def _slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
