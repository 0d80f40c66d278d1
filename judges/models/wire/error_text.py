"""Makes one short line of what a server wrote, fit for logs, headers and verdicts.

Servers quote in their errors what they were sent: the texts of users, and sometimes the key.
"""

import re
from collections.abc import Callable, Iterable

MAX_CHARS = 300
# More than is kept, so that a value is recognised before it is cut in two.
_MAX_CHARS_READ = 2000
# Of a word that is longer, as much is left out.
_LONGEST_SECRET = 1000
# What also stands in the prompt is quoted from there if it is longer than the name of a parameter: 16 letters of
# English, 8 of Russian, 6 of Chinese.
_MIN_QUOTED_BYTES = 16
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|([nrt])|([\"'\\/]))")
_WORD = re.compile(r"\w+")
_SEPARATORS = frozenset(" \t\r\n\"'{}[]()<>,;")
_OMITTED = "…"
_HIDDEN_KEY = "***"


def make_publishable(
    text: str, prompt: Iterable[str], redact: Callable[[str], str], *, api_key: str | None = None
) -> str:
    """Return the text without the key and what it quotes from the prompt, redacted, in one line of bounded length."""

    def hide_key(text: str) -> str:
        return text.replace(api_key, _HIDDEN_KEY) if api_key else text

    # A cut must not leave half of the key, so that the key is looked for before each: escaped it is found only later.
    start = _cut(hide_key(text), 2 * _MAX_CHARS_READ)
    line = _cut(hide_key(_one_line(_unescape(start))), _MAX_CHARS_READ)
    line = redact(_omit_quotations(line, _one_line("\n".join(prompt))))
    return line if len(line) <= MAX_CHARS else f"{line[:MAX_CHARS]}{_OMITTED}"


def _cut(text: str, length: int) -> str:
    """Return the start of the text without a word that goes on after it, which could be half of a secret."""
    if len(text) <= length:
        return text
    end, least = length, length - _LONGEST_SECRET
    while end > least and text[end] not in _SEPARATORS:
        end -= 1
    return text[:end]


def _one_line(text: str) -> str:
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def _unescape(text: str) -> str:
    """Return the text without the escapes of JSON, in which servers like to repeat what they were sent."""
    if "\\" not in text:
        return text
    plain = _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else " " if match[2] else match[3], text)
    # Two escapes may have been one character.
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _omit_quotations(line: str, prompt: str) -> str:
    kept: list[str] = []
    done = 0
    for word in _WORD.finditer(line):
        start = word.start()
        end = _end_of_quotation(line, start, prompt) if start >= done else start
        if end > start:
            kept += [line[done:start], _OMITTED]
            done = end
    return "".join([*kept, line[done:]])


def _end_of_quotation(line: str, start: int, prompt: str) -> int:
    """Where the longest passage ends that begins here and stands in the prompt; the start itself if that is short."""
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
