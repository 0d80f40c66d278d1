"""Texts as a reader sees them: wide and foreign digits as plain ones, without invisible characters."""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

# Digits and letters of all scripts that have a plain equivalent are below this code.
_LAST_CODE = 0x1FC00
_TAGS = range(0xE0000, 0xE0200)
# Invisible, although not in the category of formats: variation selectors, fillers, the box around a digit.
_INVISIBLE = frozenset(range(0xFE00, 0xFE10)) | {0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x20E3, 0x3164, 0xFFA0}
# Long dashes stay as they are: they separate words.
_HYPHENS = frozenset({0x2010, 0x2011, 0x2012, 0x2013, 0x2212, 0xFE58, 0xFE63, 0xFF0D})
_CAPITAL_I_WITH_DOT = 0x0130
_VISIBLE_LETTERS = re.compile(f"[^\\W_{''.join(map(chr, sorted(_INVISIBLE)))}]+")
_BREAK = "\0"
_LAST_OF_PLANE, _NEXT_PLANES = "\uffff", "\U00010000-\U0010ffff"


@dataclass(frozen=True, slots=True)
class PlainText:
    """A text in plain characters; each of them can be traced to its position in the original."""

    text: str
    removed: Sequence[int] = ()
    """For every removed character, its position in `text`, in order."""

    def original(self, start: int, end: int) -> tuple[int, int]:
        if not self.removed:
            return start, end
        last = end - 1
        return start + bisect_right(self.removed, start), last + bisect_right(self.removed, last) + 1


def views(text: str) -> list[PlainText]:
    """Return the text as a reader sees it; with invisible characters, once without them and once split at them."""
    if text.isascii() or not _unplain().search(text):
        return [PlainText(text)]
    table = _table()
    joined = _unplain().sub(lambda match: table.get(match[0], match[0]), text)
    if len(joined) == len(text):
        return [PlainText(joined)]
    split = _unplain().sub(lambda match: table.get(match[0], match[0]) or _BREAK, text)
    invisible = [match.start() for match in _unplain().finditer(text) if not table.get(match[0], match[0])]
    return [PlainText(joined, [position - before for before, position in enumerate(invisible)]), PlainText(split)]


def count_letters(text: str) -> int:
    """Return how many letters and digits a reader sees."""
    return sum(map(len, _VISIBLE_LETTERS.findall(text)))


@cache
def _table() -> Mapping[str, str]:
    """Return the plain equivalents of characters; an invisible one has an empty text."""
    pairs = ((chr(code), _plain(code)) for code in (*range(0x80, _LAST_CODE), *_TAGS))
    return {char: plain for char, plain in pairs if plain is not None}


@cache
def _unplain() -> re.Pattern[str]:
    # Characters beyond the first plane are one range: single ones would be compared one by one.
    return re.compile(f"[{''.join(char for char in _table() if char <= _LAST_OF_PLANE)}{_NEXT_PLANES}]")


def _plain(code: int) -> str | None:
    char = chr(code)
    category = unicodedata.category(char)
    if category == "Cf" or code in _INVISIBLE or code in _TAGS:
        return ""
    if category == "Zs":
        return " "
    if code in _HYPHENS:
        return "-"
    if code == _CAPITAL_I_WITH_DOT:
        return "I"  # The only character with two characters in lower case, which would shift all that follow.
    if char.isdecimal():
        return str(unicodedata.decimal(char))
    # Superscripts and the like are not digits of a number: 10² is not 102.
    folded = unicodedata.normalize("NFKC", char) if category != "No" else ""
    return folded if len(folded) == 1 and folded.isascii() and folded.isprintable() else None
