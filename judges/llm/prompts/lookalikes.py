"""Reduces texts to what a reader sees: letters that look alike become one, and invisible characters are removed."""

import re
import unicodedata

from judges.runtime.recent import RecentResults

# Letters of other scripts that are drawn like these. It need not be complete to compare two texts, for both are folded
# alike; full width, mathematical and other forms of the same letter are folded before.
_DRAWN_ALIKE = {
    "a": "аАαΑɑ",
    "b": "вВβΒ",
    "c": "сСϲϹ",
    "d": "ԁԀ",
    "e": "еЕεΕ",
    "g": "ɡ",
    "h": "һҺнНΗ",
    "i": "іІιΙı",
    "j": "јЈ",
    "k": "кКκΚ",
    "l": "∣ǀ",
    "m": "мМΜ",
    "n": "Ν",
    "o": "оОοΟ",
    "p": "рРρΡ",
    "q": "ԛ",
    "s": "ѕЅ",
    "t": "тТτΤ",
    "u": "υ",
    "v": "ν",
    "w": "ԝ",
    "x": "хХχΧ",
    "y": "уУΥ",
    "z": "Ζ",
    "3": "З",
}
_LETTERS = {ord(other): ord(letter) for letter, others in _DRAWN_ALIKE.items() for other in others}
_DIGITS = {zero + digit: ord("0") + digit for zero in (0x660, 0x6F0, 0x966) for digit in range(10)}
# ASCII once more, which no font draws and many models read.
_TAGS = {0xE0000 + code: code for code in range(0x20, 0x7F)}
_ALIKE = {**_LETTERS, **_DIGITS, **_TAGS}

_UNSEEN = re.compile(
    "[\u00ad\u0300-\u036f\u061c\u115f\u1160\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff"
    "\U000e0000-\U000e001f\U000e007f\U000e0100-\U000e01ef]+"
)
# English and Russian have a byte for each letter here, and bytes are folded many times as fast.
_BYTES = "cp1251"
_OTHERS = re.compile(f"[^{re.escape(bytes(range(256)).decode(_BYTES, 'ignore'))}]+")
_UNSEEN_BYTES = "\u00ad".encode(_BYTES)


def _plain(text: str) -> str:
    """Without what cannot be seen, and without the marks on letters."""
    return _UNSEEN.sub("", unicodedata.normalize("NFKD", text)).translate(_ALIKE).casefold()


def _folded(byte: int) -> bytes:
    plain = _plain(bytes([byte]).decode(_BYTES, "replace"))
    return (plain.encode(_BYTES, "ignore") if plain.isalnum() and len(plain) == 1 else b"") or b" "


_FOLDED = b"".join(map(_folded, range(256)))


def skeleton(text: str) -> str:
    """The words of a text in small letters, with one space between them and none around them.

    Letters that have neither a byte nor a lookalike that has one are written as numbers, each a word of its own.
    """
    text = unicodedata.normalize("NFKC", text)
    try:
        encoded = text.encode(_BYTES)
    except UnicodeEncodeError:
        text = _OTHERS.sub(lambda found: _plain(found[0]), text)
        encoded = text.encode(_BYTES, "xmlcharrefreplace")
    return " ".join(encoded.translate(_FOLDED, _UNSEEN_BYTES).decode(_BYTES).split())


# The same texts are in the prompts of all criteria of a record, and often in those of other records.
_MOST_CHARS = 4_000_000
_recent_skeleton = RecentResults(skeleton, size=len, most=_MOST_CHARS)


def joint_skeleton(*texts: str) -> str:
    """The skeleton of several texts with line breaks between them: that of each, for no word reaches across a line."""
    return " ".join(filter(None, map(_recent_skeleton, texts)))


def squeezed(*texts: str) -> str:
    """The letters and digits of texts with nothing between them; letters that look like digits are digits."""
    return joint_skeleton(*texts).replace(" ", "").replace("o", "0").replace("l", "1").replace("i", "1")
