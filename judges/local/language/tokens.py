"""Splits a sentence into words, numbers, dates, times and codes."""

import re
from collections.abc import Iterator

from judges.local.language.quantity import NumberToken
from judges.local.lexicon import Lexicon

# Every repetition has an upper bound, and words match as a whole or not at all (`+` after the bound): no input makes a
# search backtrack again and again.
_WORD = r"[^\W\d_]{1,64}+(?:['’][^\W\d_]{1,20}+)?+"
_PLAIN = (
    r"(?P<label>[A-ZА-ЯЁ]{1,10}+-\d[\w-]{0,40})"
    rf"|(?P<word>{_WORD}(?!\d))"
    r"|(?P<date>(?<!\d)(?:\d{4}-\d{2}-\d{2}|\d{1,2}[./]\d{1,2}[./]\d{4})(?![\d.]))"
    r"|(?P<time>(?<!\d)\d{1,2}:\d{2}(?!\d|:\d))"
    r"|(?P<code>[^\W\d_]{1,64}+\d[\w-]{0,40}|\d{1,9}(?:\.\d{1,9}){2,6})"
    r"|(?P<number>\d{1,3}(?:[,\u00a0\u202f ]\d{3}){1,5}(?!\d)(?:\.\d{1,9})?|\d{1,40}(?:[.,]\d{1,9})?)"
)
_ADDRESS = r"(?P<address>(?:https?://|www\.)[^\s<>\"]{1,300}|[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4})"
_MORE_THAN_WORDS = re.compile(r"[\d@]")
_QUICK_WORD = re.compile(_WORD)
_TOKEN = re.compile(rf"(?=\w)(?:{_PLAIN})")  # skips the characters between words without trying each kind
_TOKEN_OR_ADDRESS = re.compile(f"{_ADDRESS}|{_PLAIN}")
_CODES = frozenset({"address", "label"})


def plain_words(text: str) -> list[str] | None:
    """Return the words of a text without numbers, codes and addresses; None if it has any."""
    if _MORE_THAN_WORDS.search(text) or "://" in text or "www." in text:
        return None
    return _QUICK_WORD.findall(text)


def tokens_of(text: str, lexicon: Lexicon) -> list[NumberToken]:
    pattern = _TOKEN_OR_ADDRESS if "@" in text or "://" in text or "www." in text else _TOKEN
    examined, look_up, tokens = lexicon.examined, lexicon.look_up, []
    for match in pattern.finditer(text):
        kind, raw = match.lastgroup or "word", match[0]
        if kind in _CODES:
            kind, raw = "code", raw.rstrip(".,;:!?)")
        start, end = match.span()
        tokens.append(NumberToken(kind, raw, start, end, examined.get(raw) or look_up(raw)))
    return tokens


def months_of(raw: str) -> Iterator[str]:
    """Yield the month of a date in digits, as the sign of its name."""
    month = int(raw.replace("/", "-").replace(".", "-").split("-")[1])
    if 1 <= month <= 12:
        yield f"#month{month}"
