"""The rules for numbers without letters: the lengths of their groups, check digits, and the words before them."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product

from judges.models.redaction.checksums import (
    NAMED_FORMS,
    SURE_FORMS,
    is_card,
    is_hetu,
    is_inn,
    is_pesel,
    is_pps,
    is_ric,
    is_rut,
    is_snils,
    is_ssn,
    is_steuer_id,
)
from judges.models.redaction.labels import OTHER, VERSION
from judges.models.redaction.lettered import find_dni
from judges.models.redaction.phones import chinese_mobile_key, mobile_key
from judges.models.redaction.span import SensitiveSpan, can_end
from judges.models.redaction.window import GroupWindow

Rule = Callable[[GroupWindow], Iterator[SensitiveSpan]]
Shape = tuple[int, ...]
"""The lengths of the groups."""

_SPACED = (" ", "-")
_NEAR_CHARS = 12


def _card(window: GroupWindow) -> Iterator[SensitiveSpan]:
    whole = not window.separators
    if whole and (window.before[-1:] == "." or window.label == OTHER):
        return  # A fraction, or a number that is called something else.
    if window.is_ended and window.is_uniform((*_SPACED, ".")) and is_card(window.digits):
        yield window.make_span("card")


def _ipv4(window: GroupWindow) -> Iterator[SensitiveSpan]:
    if window.separators != [".", ".", "."] or "." in window.before + window.after or not window.is_ended:
        return
    if any(len(group) > 1 and group[0] == "0" for group in window.groups):
        return
    octets = [int(group) for group in window.groups]
    # Loopback, "any" and masks are not personal.
    if max(octets) > 255 or octets[0] in (0, 127, 255) or window.label == VERSION or _is_heading(window, octets):
        return
    yield window.make_span("ip", ".".join(window.groups))


def _is_heading(window: GroupWindow, octets: Sequence[int]) -> bool:
    """Return whether it numbers a section: small numbers at the beginning of a line, with words after them."""
    text, start, end = window.text, window.start, window.end
    if (start > 0 and text[start - 1] != "\n") or not all(0 < octet < 20 for octet in octets):
        return False
    return text[end : end + 1] == " " and text[end + 1 : end + 2].isupper()


# National ids


def _is_in_row(window: GroupWindow) -> bool:
    return bool(window.before or window.after)


def _ssn(window: GroupWindow) -> Iterator[SensitiveSpan]:
    hyphenated = window.separators == ["-", "-"]
    # With spaces it may be a row of numbers; such a row usually has more groups, and round ones.
    spaced = window.separators == [" ", " "] and not _is_in_row(window) and not window.digits.endswith("000")
    sure = (hyphenated or spaced) and window.label not in (OTHER, VERSION)
    if (sure or window.label == "ssn") and window.is_alone and window.is_ended and is_ssn(window.digits):
        yield window.make_span("ssn")


def _snils(window: GroupWindow) -> Iterator[SensitiveSpan]:
    if window.is_ended and all(separator in _SPACED for separator in window.separators) and is_snils(window.digits):
        yield window.make_span("snils")


def _inn(window: GroupWindow) -> Iterator[SensitiveSpan]:
    """Find an ИНН; of an organisation only after the word, because one in ten numbers has the right check digit."""
    sure = len(window.digits) == 12 and window.is_alone and window.label is None
    if (sure or window.label == "inn") and window.is_ended and is_inn(window.digits):
        yield window.make_span("inn")


def _steuer_id(window: GroupWindow) -> Iterator[SensitiveSpan]:
    if window.is_uniform(" ") and window.is_alone and window.is_ended and is_steuer_id(window.digits):
        yield window.make_span("steuer_id")


def _dni(window: GroupWindow) -> Iterator[SensitiveSpan]:
    span = find_dni(window.text, window.start, window.digits, window.end) if window.is_uniform(".") else None
    if span and window.before[-1:] != ".":
        yield span


def _national_id(window: GroupWindow) -> Iterator[SensitiveSpan]:
    """Find an id in a form that only ids have, or after a word that names one."""
    if not window.is_ended or not window.is_alone or (" " in window.separators and _is_in_row(window)):
        return
    if _has_sure_form(window):
        is_id = window.label in (None, "national_id", "phone")
    else:
        checks = NAMED_FORMS.get(len(window.digits), ())
        is_id = bool(checks) and window.label == "national_id" and any(check(window.digits) for check in checks)
    if is_id:
        yield window.make_span("national_id")


def _has_sure_form(window: GroupWindow) -> bool:
    joined = "".join(window.separators)
    forms = SURE_FORMS.get(tuple([len(group) for group in window.groups]), ())
    return any(
        joined in (separators, separators * len(window.separators)) and check(window.digits)
        for separators, check in forms
    )


_HETU_END = re.compile(r"[-+A-FU-Y][0-9]{3}[0-9A-Z]")
_LAST_LETTERS = re.compile(r"-?([A-Wa-w][A-Ia-iWw]?|[KkXx])")


def _with_last_letter(window: GroupWindow) -> Iterator[SensitiveSpan]:
    """Find ids of Finland, Ireland, China and Chile, which end with a letter."""
    end = (_HETU_END if len(window.digits) == 6 else _LAST_LETTERS).match(window.text, window.end)
    if end is None or not can_end(window.text, end.end()) or window.label in (OTHER, VERSION):
        return
    compact = window.digits + end[0].removeprefix("-").upper()
    if len(window.digits) == 6:
        valid = is_hetu(window.digits + end[0])
    elif len(window.digits) == 17:
        valid = is_ric(compact)
    elif compact[-1] == "K" and end[0][0] == "-":
        valid = is_rut(compact)
    else:
        valid = window.label == "national_id" and is_pps(compact)
    if valid:
        yield SensitiveSpan(window.start, end.end(), "national_id", compact)


_CHECKS = {"snils": is_snils, "steuer_id": is_steuer_id, "pesel": is_pesel}


def _eleven(window: GroupWindow) -> Iterator[SensitiveSpan]:
    """Find the kind of eleven digits in a row, which many kinds have: the words before decide, then the rarer form."""
    digits, label = window.digits, window.label
    if not window.is_ended or label in (OTHER, VERSION):
        return
    if label in _CHECKS and _CHECKS[label](digits):
        yield window.make_span(label)
    if not window.is_alone or label not in (None, "phone", "inn", *_CHECKS):
        return
    around = window.text[max(0, window.start - _NEAR_CHARS) : window.end + _NEAR_CHARS]
    mobile = mobile_key(digits) or chinese_mobile_key(digits, around)
    if mobile or label == "phone":
        yield window.make_span("phone", mobile)
    for kind in ("steuer_id", "pesel"):
        if _CHECKS[kind](digits):
            yield window.make_span(kind)


_RULES: Sequence[tuple[Rule, Sequence[Shape]]] = (
    (_ipv4, tuple(product((1, 2, 3), repeat=4))),
    (_card, (*((length,) for length in range(14, 20)), (4, 4, 4, 4), (4, 4, 4, 4, 2), (4, 4, 4, 4, 3))),
    (_card, ((4, 6, 5), (4, 6, 4), (6, 13))),
    (_ssn, ((3, 2, 4), (9,))),
    (_snils, ((3, 3, 3, 2),)),
    (_inn, ((10,), (12,))),
    (_eleven, ((11,),)),
    (_steuer_id, ((2, 3, 3, 3),)),
    (_dni, ((8,), (2, 3, 3))),
    (_national_id, (*SURE_FORMS, *((digits,) for digits in NAMED_FORMS if (digits,) not in SURE_FORMS))),
    (_national_id, ((3, 3, 3), (3, 3, 4), (4, 6))),
    (_with_last_letter, ((6,), (7,), (17,), (8,), (1, 3, 3), (2, 3, 3))),
)


def _by_shape() -> Mapping[Shape, Sequence[Rule]]:
    table: dict[Shape, list[Rule]] = defaultdict(list)
    for rule, shapes in _RULES:
        for shape in shapes:
            table[shape].append(rule)
    return dict(table)


RULES = _by_shape()
