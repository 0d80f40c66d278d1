"""The offset note: the leases of one partition as a short text, which is committed with the partition's offset.

    sj1|h9z3k,8Fc.6Az,Kx02Pq=3D.3D|dG4,1Lk8.1Kzz

Version, then the windows with their numbers since 1970, oldest first: the leases of all apps together (whole and main,
in microdollars), then those of apps with their own budget, named by a short hash. Numbers have the base 64. Kafka
takes 4096 bytes of metadata with an offset; `longest` computes the bytes that a configuration can need.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from stream.worker.budget.limits import ALL_APPS, MICRODOLLAR, Caps, Limits, Span

MAX_BYTES = 4096

_VERSION = "sj1"
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_"
_VALUES = {digit: value for value, digit in enumerate(_DIGITS)}
_NAME_LENGTH = 6
_LETTERS = {Span.HOUR: "h", Span.DAY: "d"}
_SPANS = {letter: span for span, letter in _LETTERS.items()}
_WINDOW = re.compile(r"([hd])([0-9A-Za-z_-]{1,8})((?:,[^,]+)*)")
_LEASE = re.compile(r"(?:([0-9A-Za-z_-]{6})=)?([0-9A-Za-z_-]{1,12})\.([0-9A-Za-z_-]{1,12})")


class NoteError(ValueError):
    """The text is not one of our notes, or has a later version."""


class BudgetWindow(NamedTuple):
    """An hour or a day, by its number since 1970."""

    span: Span
    number: int


Leases = Mapping[BudgetWindow, Mapping[str, Caps]]
"""By window and short name; the short name of all apps together is empty."""


@lru_cache(maxsize=1024)
def short_name(scope: str) -> str:
    """Return the name of a scope in notes."""
    if scope == ALL_APPS:
        return ALL_APPS
    digest = hashlib.blake2b(scope.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return _number(int.from_bytes(digest, "big"))[-_NAME_LENGTH:].rjust(_NAME_LENGTH, "0")


def write(leases: Leases) -> str:
    parts = [_VERSION]
    for window, scopes in sorted(leases.items(), key=lambda item: (item[0].span.value, item[0].number)):
        listed = "".join(f",{_lease(name, caps)}" for name, caps in scopes.items() if any(caps))
        parts.append(f"{_LETTERS[window.span]}{_number(window.number)}{listed}")
    return "|".join(parts)


def read(text: str) -> Leases:
    """Read the leases in a note. An offset committed without a note has an empty text, which has no leases."""
    if not text:
        return {}
    version, *windows = text.split("|")
    if version != _VERSION:
        raise NoteError("a budget note in an unknown format")
    return dict(map(_window, windows))


def longest(limits: Limits) -> int:
    """Return the bytes of the longest note for these limits: around its edge a span has two open windows."""
    return len(
        write({BudgetWindow(span, 64**4 - 1 + edge): _longest(limits[span]) for span in limits for edge in (0, -1)})
    )


def _longest(scopes: Mapping[str, Caps]) -> Mapping[str, Caps]:
    # Twice the limit, because a lease can be above it when calls cost more than was reserved for them.
    return {short_name(scope): Caps(caps.whole * 2, max(caps.main, MICRODOLLAR) * 2) for scope, caps in scopes.items()}


def _lease(name: str, caps: Caps) -> str:
    amounts = ".".join(_number(-(-amount // MICRODOLLAR)) for amount in caps)
    return f"{name}={amounts}" if name else amounts


def _window(text: str) -> tuple[BudgetWindow, Mapping[str, Caps]]:
    match = _WINDOW.fullmatch(text)
    if match is None:
        raise NoteError("a budget note with an unreadable window")
    leases = [_LEASE.fullmatch(part) for part in match[3].split(",")[1:]]
    return BudgetWindow(_SPANS[match[1]], _value(match[2])), dict(_amounts(leases))


def _amounts(leases: Iterable[re.Match[str] | None]) -> Iterable[tuple[str, Caps]]:
    for lease in leases:
        if lease is None:
            raise NoteError("a budget note with an unreadable lease")
        yield lease[1] or ALL_APPS, Caps(_value(lease[2]) * MICRODOLLAR, _value(lease[3]) * MICRODOLLAR)


def _number(value: int) -> str:
    text = ""
    while True:
        value, digit = divmod(value, 64)
        text = _DIGITS[digit] + text
        if not value:
            return text


def _value(digits: str) -> int:
    value = 0
    for digit in digits:
        value = value * 64 + _VALUES[digit]
    return value
