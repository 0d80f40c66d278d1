"""Shortens an error of a server to one line that is safe in logs, headers and verdicts.

Servers quote their input in errors: the texts of users, and sometimes the key.
"""

import html
import json
import re
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    # Without redaction, the numbering plans need not be loaded.
    from judges.models.redaction import Redactor

MAX_CHARS = 300
# More than the final length, so that a secret is recognised before it is cut in two.
_MAX_CHARS_READ = 2000
# A cut drops at most this many characters of a word that continues after it.
_LONGEST_SECRET = 1000
# A passage counts as a quotation from this length: 11 letters of English, 6 of Russian, 4 of Chinese. Shorter ones are
# too often in the prompt by chance, as "the answer" and "JSON object" are.
_MIN_QUOTED_BYTES = 11
# Gateways quote the errors of other servers, which quote their input. Without a limit, the time would be quadratic.
_MAX_NESTING = 4
# The bytes of a text, a character by its number, a line break or tab, and a character that stands for itself.
_ESCAPE = re.compile(
    r"((?:\\x[0-9a-fA-F]{2}|\\[0-3][0-7]{2})+)"
    r"|\\(?:u([0-9a-fA-F]{4})|u\{([0-9a-fA-F]{1,6})\}|U([0-9a-fA-F]{8})|([nrt])|([\"'\\/]))"
)
_BYTE = re.compile(r"\\(?:x(..)|(...))")
# `html.unescape` refuses thousands of digits, and also resolves the start of a word, as in "&notes".
_ENTITY = re.compile(r"&(?:#(?:[0-9]{1,8}|[xX][0-9a-fA-F]{1,8});?|[a-zA-Z][a-zA-Z0-9]{1,31};)")
_WORD = re.compile(r"[^\W_]+")
_NO_LETTERS = re.compile(r"[\W_]+")
_SEPARATORS = frozenset(" \t\r\n\"'{}[]()<>,;")
_OMITTED = "…"
_UNREADABLE = "\N{REPLACEMENT CHARACTER}"
_HIDDEN_KEY = "***"


def make_publishable(
    text: str, prompt: Iterable[str], redact: Callable[[str], str], *, api_key: str | None = None
) -> str:
    """Return the text as one redacted line of bounded length, without the key and quotations from the prompt."""

    # A cut must not leave half of the key, so the key is hidden before each cut. A key with other escapes than those
    # that JSON requires is found only after unescaping.
    start = _cut_between_words(hide_key(text, api_key), 2 * _MAX_CHARS_READ)
    line = _cut_between_words(_one_line(_decode(start, api_key)), _MAX_CHARS_READ)
    line = redact(_omit_quotations(line, _letters(_decode("\n".join(prompt)))))
    return line if len(line) <= MAX_CHARS else f"{line[:MAX_CHARS]}{_OMITTED}"


def redact_by_default(line: str) -> str:
    """Return the line without personal data, where no redaction is configured."""
    return _default_redactor().redact([line]).texts[0]


@cache
def _default_redactor() -> "Redactor":
    from judges.models.redaction import Redactor  # noqa: PLC0415 - loaded with the first error only

    return Redactor()


def hide_key(text: str, api_key: str | None) -> str:
    """Replace the key, as it is and as JSON writes it."""
    if not api_key:
        return text
    # In JSON, the plain key may be the end of the escaped one; replaced first, it would leave half an escape.
    return text.replace(json.dumps(api_key)[1:-1], _HIDDEN_KEY).replace(api_key, _HIDDEN_KEY)


def _cut_between_words(text: str, length: int) -> str:
    """Return the start of the text, cut between words: a part of a word could be half of a secret."""
    if len(text) <= length:
        return text
    end, least = length, length - _LONGEST_SECRET
    while end > least and text[end] not in _SEPARATORS:
        end -= 1
    return text[:end]


def _one_line(text: str) -> str:
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def _decode(text: str, api_key: str | None = None) -> str:
    """Resolve the escapes of JSON, programs, HTML and URLs, in which servers quote their input, also in each other.

    The key is hidden at every step, because it may contain what looks like an escape.
    """
    for _ in range(_MAX_NESTING):
        encoded = text
        for decode in (_unescape, _resolve_entities, unquote):
            text = hide_key(decode(text), api_key)
        if text == encoded:
            break
    return text


def _letters(text: str) -> str:
    """Return the letters and digits in lower case: case, spaces and punctuation do not make another text."""
    return _NO_LETTERS.sub("", text.casefold())


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    # Two escapes may be one character, as a surrogate pair.
    return _ESCAPE.sub(_plain, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _plain(match: re.Match[str]) -> str:
    escaped_bytes, *numbers, space, char = match.groups()
    if escaped_bytes:
        return _read_bytes(bytes(int(x, 16) if x else int(octal, 8) for x, octal in _BYTE.findall(escaped_bytes)))
    number = next((int(number, 16) for number in numbers if number), None)
    if number is not None:
        return chr(number) if number <= sys.maxunicode else _UNREADABLE
    return " " if space else char


def _read_bytes(data: bytes) -> str:
    """Read a passage that may be cut off; bytes without any UTF-8 are Python's escapes of characters such as "é"."""
    text = data.decode("utf-8", "replace")
    return text if text.strip(_UNREADABLE) else data.decode("latin-1")


def _resolve_entities(text: str) -> str:
    return _ENTITY.sub(lambda match: html.unescape(match[0]), text) if "&" in text else text


def _omit_quotations(line: str, prompt: str) -> str:
    """Return the line without the passages whose letters are a passage of those of the prompt."""
    # A character may have several letters, as "ß" has.
    places = [place for place, char in enumerate(line) for _ in _letters(char)]
    letters = _letters(line)
    parts: list[str] = []
    position = 0
    for word in _WORD.finditer(line):
        if word.start() < position:
            continue
        start = bisect_left(places, word.start())
        end = _end_of_quotation(letters, start, prompt)
        if end > start:
            parts += [line[position : word.start()], _OMITTED]
            position = places[end - 1] + 1
    return "".join([*parts, line[position:]])


def _end_of_quotation(line: str, start: int, prompt: str) -> int:
    """Return the end of the longest passage from `start` that is also in the prompt, or `start` if it is too short."""
    end = start + 1
    while end <= len(line) and len(line[start:end].encode("utf-8", "replace")) < _MIN_QUOTED_BYTES:
        end += 1
    if end > len(line) or line[start:end] not in prompt:
        return start
    place = prompt.find(line[start:end])
    while place >= 0:
        while end < len(line) and prompt.startswith(line[start : end + 1], place):
            end += 1
        if end == len(line):
            return end
        place = prompt.find(line[start : end + 1], place)
    return end
