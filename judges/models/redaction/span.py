"""A sensitive span of a text, which must not leave the process, and the rules for where one can begin and end."""

from typing import NamedTuple

# Scripts from here on are written without spaces: a number next to their characters is still a separate word.
_UNSPACED = "\u2e80"


class SensitiveSpan(NamedTuple):
    """A value from `start` to `end`; different spellings of one value have the same `key`."""

    start: int
    end: int
    kind: str
    key: str


def can_begin(text: str, position: int) -> bool:
    """Return whether a value can begin here: not inside a word, except after the escape of a line break in JSON."""
    if position <= 0 or not _is_word_char(text[position - 1]):
        return True
    return position > 1 and text[position - 2] == "\\" and text[position - 1] in "nrt"


def can_end(text: str, position: int) -> bool:
    return position >= len(text) or not _is_word_char(text[position])


def _is_word_char(char: str) -> bool:
    return char.isalnum() and char < _UNSPACED
