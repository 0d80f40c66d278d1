"""Reduces texts to what a reader sees: letters that look alike become one, and invisible characters are removed."""

import re
import unicodedata

from judges.runtime.recent import RecentResults

# Letters of other scripts that look like these. The table need not be complete, because both texts of a comparison are
# folded. Full-width, mathematical and other forms of the same letter are folded before.
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
# Tag characters: an invisible copy of ASCII that many models read.
_TAGS = {0xE0000 + code: code for code in range(0x20, 0x7F)}
_ALIKE = {**_LETTERS, **_DIGITS, **_TAGS}

_UNSEEN = re.compile(
    "[\u00ad\u0300-\u036f\u061c\u115f\u1160\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff"
    "\U000e0000-\U000e001f\U000e007f\U000e0100-\U000e01ef]+"
)
# This encoding has one byte for each English and Russian letter, and folding bytes is many times faster.
_BYTES = "cp1251"
_OTHERS = re.compile(f"[^{re.escape(bytes(range(256)).decode(_BYTES, 'ignore'))}]+")
_UNSEEN_BYTES = "\u00ad".encode(_BYTES)


def _plain(text: str) -> str:
    """Return the text without invisible characters and without diacritics."""
    return _UNSEEN.sub("", unicodedata.normalize("NFKD", text)).translate(_ALIKE).casefold()


def _fold_byte(byte: int) -> bytes:
    plain = _plain(bytes([byte]).decode(_BYTES, "replace"))
    return (plain.encode(_BYTES, "ignore") if plain.isalnum() and len(plain) == 1 else b"") or b" "


_FOLDED = b"".join(map(_fold_byte, range(256)))


def skeleton(text: str) -> str:
    """Return the words of a text in lower case, separated by single spaces.

    A letter that has no byte in the encoding, and no lookalike with one, becomes a number that is a separate word.
    """
    text = unicodedata.normalize("NFKC", text)
    try:
        encoded = text.encode(_BYTES)
    except UnicodeEncodeError:
        text = _OTHERS.sub(lambda match: _plain(match[0]), text)
        encoded = text.encode(_BYTES, "xmlcharrefreplace")
    return " ".join(encoded.translate(_FOLDED, _UNSEEN_BYTES).decode(_BYTES).split())


# All criteria of a record show the same texts, and other records often do too.
_CACHE_CHARS = 4_000_000
_recent_skeleton = RecentResults(skeleton, size=len, most=_CACHE_CHARS)


def joint_skeleton(*texts: str) -> str:
    """Return the skeleton of several texts, joined by spaces: no word extends from one text to the next."""
    return " ".join(filter(None, map(_recent_skeleton, texts)))


def squeeze(*texts: str) -> str:
    """Return the letters and digits of texts without spaces; letters that look like digits become digits."""
    return joint_skeleton(*texts).replace(" ", "").replace("o", "0").replace("l", "1").replace("i", "1")
