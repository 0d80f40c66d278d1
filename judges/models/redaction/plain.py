"""Texts as a reader sees them: wide and foreign digits as plain ones, without characters that cannot be seen."""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

# Digits and letters of all scripts that have a plain double stand below this code.
_LAST_CODE = 0x1FC00
_TAGS = range(0xE0000, 0xE0200)
# Seen as nothing, although not of the category of formats: variation selectors, fillers, the box around a digit.
_UNSEEN = frozenset(range(0xFE00, 0xFE10)) | {0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x20E3, 0x3164, 0xFFA0}
# Long dashes are left as they are: they part words.
_HYPHENS = frozenset({0x2010, 0x2011, 0x2012, 0x2013, 0x2212, 0xFE58, 0xFE63, 0xFF0D})
_CAPITAL_I_WITH_DOT = 0x0130
_BREAK = "\0"
_LAST_OF_PLANE, _NEXT_PLANES = "\uffff", "\U00010000-\U0010ffff"


@dataclass(frozen=True, slots=True)
class PlainText:
    """A text in plain characters, of which each can be traced to its place in the original."""

    text: str
    removed: Sequence[int] = ()
    """For every character that was left out, where it would stand in `text`, in order."""

    def original(self, start: int, end: int) -> tuple[int, int]:
        if not self.removed:
            return start, end
        last = end - 1
        return start + bisect_right(self.removed, start), last + bisect_right(self.removed, last) + 1


def views(text: str) -> list[PlainText]:
    """The text as it is read; with unseen characters in it, once without them, once as if they parted words."""
    if text.isascii() or not _odd().search(text):
        return [PlainText(text)]
    table = _table()
    joined = _odd().sub(lambda match: table.get(match[0], match[0]), text)
    if len(joined) == len(text):
        return [PlainText(joined)]
    parting = _odd().sub(lambda match: table.get(match[0], match[0]) or _BREAK, text)
    unseen = [match.start() for match in _odd().finditer(text) if not table.get(match[0], match[0])]
    return [PlainText(joined, [at - before for before, at in enumerate(unseen)]), PlainText(parting)]


@cache
def _table() -> Mapping[str, str]:
    """Characters that stand for a plain one, or for nothing."""
    pairs = ((chr(code), _plain(code)) for code in (*range(0x80, _LAST_CODE), *_TAGS))
    return {char: plain for char, plain in pairs if plain is not None}


@cache
def _odd() -> re.Pattern[str]:
    # Characters beyond the first plane in one range: a set of single ones would be gone through one by one.
    return re.compile(f"[{''.join(char for char in _table() if char <= _LAST_OF_PLANE)}{_NEXT_PLANES}]")


def _plain(code: int) -> str | None:
    char = chr(code)
    category = unicodedata.category(char)
    if category == "Cf" or code in _UNSEEN or code in _TAGS:
        return ""
    if category == "Zs":
        return " "
    if code in _HYPHENS:
        return "-"
    if code == _CAPITAL_I_WITH_DOT:
        return "I"  # The only character that is two in lower case, which would shift all that follows.
    if char.isdecimal():
        return str(unicodedata.decimal(char))
    # Superscripts and the like are no digits of a number: 10² is not 102.
    folded = unicodedata.normalize("NFKC", char) if category != "No" else ""
    return folded if len(folded) == 1 and folded.isascii() and folded.isprintable() else None
