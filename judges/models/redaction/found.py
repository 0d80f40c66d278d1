"""A sensitive span of a text, which must not leave the process, and where such a span may begin and end."""

from typing import NamedTuple

# Scripts from here on are written without spaces: a number next to their characters stands alone.
_UNSPACED = "\u2e80"


class SensitiveSpan(NamedTuple):
    """What stands from `start` to `end`; two spellings of one value have one `key`."""

    start: int
    end: int
    kind: str
    key: str


def begins(text: str, at: int) -> bool:
    """Whether a value can begin here: not inside a word, save after the escape of a line break in JSON."""
    if at <= 0 or not _in_word(text[at - 1]):
        return True
    return at > 1 and text[at - 2] == "\\" and text[at - 1] in "nrt"


def ends(text: str, at: int) -> bool:
    return at >= len(text) or not _in_word(text[at])


def _in_word(char: str) -> bool:
    return char.isalnum() and char < _UNSPACED
