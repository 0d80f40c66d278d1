"""The project's pages as the tests see them: their blocks of code, their links and their anchors."""

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
    """A fenced block of code, and where it begins."""

    page: str
    line: int
    language: str
    title: str | None
    code: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


class Link(NamedTuple):
    """A link of a page to a file, an anchor or an address."""

    page: Path
    target: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}: {self.target}"


def pages() -> list[Path]:
    """All that people read: the site, the runbooks, and what lies beside the code."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), *runbooks()]


def runbooks() -> list[Path]:
    return sorted((ROOT / "dashboards" / "runbooks").glob("*.md"))


def blocks(page: Path, *languages: str) -> list[Block]:
    """The blocks of a page, or those in these languages."""
    found = list(_blocks(page))
    return [block for block in found if block.language in languages] if languages else found


def _blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for match in _FENCE.finditer(text):
        indent = match["indent"]
        code = "".join(line.removeprefix(indent) for line in match["code"].splitlines(keepends=True))
        title = _TITLE.search(match["info"])
        line = text.count("\n", 0, match.start()) + 1
        yield Block(str(page.relative_to(ROOT)), line, match["language"], title and title[1], code)


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def code_spans(page: Path) -> list[str]:
    """What stands in backticks within the text, on one line."""
    return [" ".join(match[2].split()) for match in _CODE_SPAN.finditer(prose(page))]


def links(page: Path) -> list[Link]:
    text = _CODE_SPAN.sub("", prose(page))
    return [Link(page, target) for pattern in (_LINK, _REFERENCE) for target in pattern.findall(text)]


def anchors(page: Path) -> set[str]:
    """The names by which code hosts, and our site, know the headings of a page."""
    seen: Counter[str] = Counter()
    found = set()
    for heading in _HEADING.findall(prose(page)):
        name = _slug(_LINK_TEXT.sub(r"\1", heading))
        found.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return found


def _slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
