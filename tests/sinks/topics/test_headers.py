"""Record headers: each is named once, in one module, and each name there is in use."""

import re
from pathlib import Path

from sinks.topics import headers

ROOT = Path(__file__).parents[3]
HOME = ROOT / "sinks" / "topics" / "headers.py"
SOURCES = {
    path: path.read_text(encoding="utf-8")
    for package in ("judges", "sinks", "stream")
    for path in (ROOT / package).rglob("*.py")
    if path != HOME
}
NAMES = {name: value for name, value in vars(headers).items() if isinstance(value, str) and value in headers.HEADERS}


def test_no_other_module_spells_a_header_out() -> None:
    spelled = re.compile(rf"[\"']{headers.PREFIX}[a-z]")
    assert [str(path.relative_to(ROOT)) for path, text in SOURCES.items() if spelled.search(text)] == []


def test_every_header_is_named_and_used() -> None:
    assert set(NAMES.values()) == set(headers.HEADERS)
    used = {word for text in SOURCES.values() for word in re.findall(r"\b[A-Z][A-Z_]+\b", text)}
    assert set(NAMES) - used == set()


def test_every_header_begins_with_our_prefix_and_is_explained() -> None:
    for name, header in headers.HEADERS.items():
        assert re.fullmatch(rf"{headers.PREFIX}[a-z-]*[a-z]", name)
        assert all(header), name
