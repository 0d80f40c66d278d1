"""Accounts and ids that mix digits and letters; the search starts at the first digit."""

import re
from collections.abc import Sequence
from functools import cache

from judges.models.redaction.checksums import (
    Check,
    iban_length,
    is_codice_fiscale,
    is_curp,
    is_dni,
    is_iban,
    is_pan,
)
from judges.models.redaction.labels import OTHER, label_before
from judges.models.redaction.span import SensitiveSpan, can_begin, can_end

_NINO = re.compile(
    r"(?!BG|GB|KN|NK|NT|TN|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z]([ -]?)[0-9]{2}\1[0-9]{2}\1[0-9]{2}\1[A-D]"
)
# The number of letters before the first digit, the form, and the check: Italy, Mexico, India.
_PERSONAL_CODES: Sequence[tuple[int, re.Pattern[str], Check]] = (
    (6, re.compile(r"[A-Z]{6}[0-9]{2}[A-Z][0-9]{2}[A-Z][0-9]{3}[A-Z]", re.IGNORECASE), is_codice_fiscale),
    (4, re.compile(r"[A-Z]{4}[0-9]{6}[HMX][A-Z]{5}[0-9A-Z][0-9]"), is_curp),
    (5, re.compile(r"[A-Z]{5}[0-9]{4}[A-Z]"), is_pan),
)
_SEPARATOR = re.compile(r"[ -]")
_DNI_END = re.compile(r"-?([A-Za-z])")


def may_follow_letters(text: str, digits: int) -> bool:
    """Return whether a letter is right before these digits, or a capital with a space or a hyphen between."""
    last = text[digits - 1 : digits]
    return last.isalpha() or (last in (" ", "-") and text[digits - 2 : digits - 1].isupper())


def find_lettered(text: str, digits: int) -> SensitiveSpan | None:
    """Return the value that begins with letters and has its first digit here."""
    span = _iban(text, digits - 2) or _nino(text, digits - 2) or _nino(text, digits - 3) or _nie(text, digits)
    return span or _personal_code(text, digits)


def _iban(text: str, start: int) -> SensitiveSpan | None:
    length = iban_length(text[start : start + 2].upper()) if start >= 0 else None
    match = _iban_form(length).match(text, start) if length else None
    if match is None or not can_begin(text, start) or not can_end(text, match.end()):
        return None
    compact = _SEPARATOR.sub("", match[0]).upper()
    return SensitiveSpan(*match.span(), "iban", compact) if is_iban(compact) else None


@cache
def _iban_form(length: int) -> re.Pattern[str]:
    return re.compile(rf"[A-Za-z]{{2}}[0-9]{{2}}(?:[ -]?[A-Za-z0-9]){{{length - 4}}}")


def _nino(text: str, start: int) -> SensitiveSpan | None:
    match = _NINO.match(text, start) if start >= 0 else None
    if match is None or not can_begin(text, start) or not can_end(text, match.end()):
        return None
    return SensitiveSpan(*match.span(), "nino", _SEPARATOR.sub("", match[0]))


def _personal_code(text: str, digits: int) -> SensitiveSpan | None:
    if not text[max(0, digits - 4) : digits].isalpha():
        return None
    for letters, form, check in _PERSONAL_CODES:
        start = digits - letters
        match = form.match(text, start) if start >= 0 else None
        if match is None or not can_begin(text, start) or not can_end(text, match.end()):
            continue
        if check(match[0].upper()) and label_before(text, start) != OTHER:
            return SensitiveSpan(*match.span(), "national_id", match[0].upper())
    return None


def _nie(text: str, digits: int) -> SensitiveSpan | None:
    start = digits - 1 - (text[digits - 1] == "-")
    if start < 0 or text[start] not in "XYZxyz" or not can_begin(text, start):
        return None
    return find_dni(text, start, text[start] + text[digits : digits + 7], digits + 7)


def find_dni(text: str, start: int, number: str, position: int) -> SensitiveSpan | None:
    """Return the Spanish id of this number if its letter is at this position."""
    letter = _DNI_END.match(text, position)
    if letter is None or len(number) != 8 or not number[1:].isdecimal() or not can_end(text, letter.end()):
        return None
    compact = (number + letter[1]).upper()
    return SensitiveSpan(start, letter.end(), "dni", compact) if is_dni(compact) else None
