"""The rules of numbers without letters: by the lengths of their groups, by check digits, by the words before."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product

from judges.models.redaction.checksums import is_card, is_inn, is_pesel, is_snils, is_ssn, is_steuer_id
from judges.models.redaction.found import Found
from judges.models.redaction.labels import OTHER, VERSION
from judges.models.redaction.lettered import with_letter
from judges.models.redaction.window import Window

Rule = Callable[[Window], Iterator[Found]]
Shape = tuple[int, ...]
"""The lengths of the groups."""

_SPACED = (" ", "-")


def _card(window: Window) -> Iterator[Found]:
    whole = not window.separators
    if whole and (window.before[-1:] == "." or window.label == OTHER):
        return  # A fraction, or a number that somebody says is no card.
    if window.ended and window.uniform(_SPACED) and is_card(window.digits):
        yield window.found("card")


def _ipv4(window: Window) -> Iterator[Found]:
    if window.separators != [".", ".", "."] or "." in window.before + window.after or not window.ended:
        return
    if any(len(group) > 1 and group[0] == "0" for group in window.groups):
        return
    octets = [int(group) for group in window.groups]
    # Loopback, "any" and masks belong to nobody.
    if max(octets) > 255 or octets[0] in (0, 127, 255) or window.label == VERSION or _is_heading(window, octets):
        return
    yield window.found("ip", ".".join(window.groups))


def _is_heading(window: Window, octets: Sequence[int]) -> bool:
    """Whether it numbers a section: small numbers at the beginning of a line, with words after them."""
    text, start, end = window.text, window.start, window.end
    if (start > 0 and text[start - 1] != "\n") or not all(0 < octet < 20 for octet in octets):
        return False
    return text[end : end + 1] == " " and text[end + 1 : end + 2].isupper()


# National ids


def _ssn(window: Window) -> Iterator[Found]:
    sure = window.separators == ["-", "-"] and window.label not in (OTHER, VERSION)
    if (sure or window.label == "ssn") and window.alone and window.ended and is_ssn(window.digits):
        yield window.found("ssn")


def _snils(window: Window) -> Iterator[Found]:
    if window.ended and all(separator in _SPACED for separator in window.separators) and is_snils(window.digits):
        yield window.found("snils")


def _inn(window: Window) -> Iterator[Found]:
    """Of an organisation only after the word: one number of ten in ten has the right check digit."""
    sure = len(window.digits) == 12 and window.alone and window.label is None
    if (sure or window.label == "inn") and window.ended and is_inn(window.digits):
        yield window.found("inn")


def _steuer_id(window: Window) -> Iterator[Found]:
    if window.uniform(" ") and window.alone and window.ended and is_steuer_id(window.digits):
        yield window.found("steuer_id")


def _dni(window: Window) -> Iterator[Found]:
    found = with_letter(window.text, window.start, window.digits, window.end) if window.uniform(".") else None
    if found and window.before[-1:] != ".":
        yield found


_CHECKS = {"snils": is_snils, "steuer_id": is_steuer_id, "pesel": is_pesel}


def _eleven(window: Window) -> Iterator[Found]:
    """Eleven digits in a row, which are so much: what is said before decides, then the rarer form."""
    digits, label = window.digits, window.label
    if not window.ended or label in (OTHER, VERSION):
        return
    if label in _CHECKS and _CHECKS[label](digits):
        yield window.found(label)
    if not window.alone or label not in (None, "phone", "inn", *_CHECKS):
        return
    if label == "phone" or digits.startswith(("79", "89", "071", "073", "074", "075", "077", "078", "079")):
        yield window.found("phone", phone_key(digits))
    for kind in ("steuer_id", "pesel"):
        if _CHECKS[kind](digits):
            yield window.found(kind)


# Phones


def phone_key(digits: str) -> str:
    """One key for a number with 8, with +7 and with 007 before it."""
    digits = digits.removeprefix("00")
    return f"7{digits[1:]}" if len(digits) == 11 and digits[0] == "8" else digits


def _phone(window: Window) -> Found:
    return Found(window.opening, window.end, "phone", phone_key(window.digits))


def _russian(window: Window) -> Iterator[Found]:
    trunk, area = window.groups[0], window.groups[1]
    if trunk in "78" and area[0] in "34689" and window.alone and window.ended and not window.uniform("."):
        yield _phone(window)


def _american(window: Window) -> Iterator[Found]:
    """212-555-0123, with or without 1 before it; with spaces only after a word, else it may be a row of numbers."""
    area, exchange = window.groups[-3], window.groups[-2]
    if len(window.groups) == 4 and window.groups[0] != "1":
        return
    formed = window.uniform("-.") and window.label not in (OTHER, VERSION)
    if formed and area[0] in "23456789" and exchange[0] in "23456789" and window.alone and window.ended:
        yield _phone(window)


def _bracketed(window: Window) -> Iterator[Found]:
    """(495) 123-45-67; a year in brackets is no area."""
    area = window.groups[0]
    opened = window.text[window.start - 1 : window.start] == "(" and window.separators[0].startswith(")")
    if opened and window.alone and window.ended and not (len(area) == 4 and area[:2] in ("19", "20")):
        yield _phone(window)


def _dashed(window: Window) -> Iterator[Found]:
    if window.uniform("-") and window.groups[0][0] in "3489" and window.alone and window.ended:
        yield _phone(window)


def _with_zero(window: Window) -> Iterator[Found]:
    """020 7946 0958, 01 23 45 67 89: no other number that is written in groups begins with a zero."""
    first = window.groups[0]
    if first[0] == "0" and first[1] != "0" and window.uniform((" ", "-", ".")) and window.alone and window.ended:
        yield _phone(window)


def international(window: Window) -> Iterator[Found]:
    """After a plus, or 00 and a country in a group of their own."""
    signed = window.text[window.opening] == "+"
    digits = window.digits
    if not signed and not (digits.startswith("00") and 3 <= len(window.groups[0]) <= 5 and window.separators):
        return
    number = digits if signed else digits[2:]
    if window.ended and number[0] != "0" and _is_dialled(number):
        yield _phone(window)


def _is_dialled(number: str) -> bool:
    if number.endswith("000000"):
        return False  # A round sum with its sign.
    if number[0] in "17":
        return len(number) == 11 and number[1] not in "01"
    return 9 <= len(number) <= 14


def may_be_phone(shape: Shape) -> bool:
    """Not too short, not too long, and no date."""
    least = 7 if len(shape) < 3 else 6
    return least <= sum(shape) <= 15 and tuple(sorted(shape)) not in ((2, 2, 4), (1, 2, 4), (1, 1, 4))


def labelled_phone(window: Window) -> Iterator[Found]:
    """Any digits, once a word says that they are a phone's."""
    sizes = [len(group) for group in window.groups]
    thousands = sizes[0] <= 3 and set(sizes[1:]) == {3} and window.uniform((" ", ".")) and sum(sizes) < 9
    if window.ended and not thousands and sum(sizes) <= 13:
        yield _phone(window)


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
    (_russian, ((1, 10), (1, 3, 7), (1, 3, 3, 4), (1, 3, 3, 2, 2), (1, 3, 2, 2, 3), (1, 3, 2, 3, 2), (1, 3, 1, 3, 3))),
    (_russian, ((1, 4, 6), (1, 4, 2, 2, 2), (1, 4, 3, 3), (1, 5, 5), (1, 5, 1, 2, 2), (1, 5, 2, 3), (1, 5, 3, 2))),
    (_american, ((3, 3, 4), (1, 3, 3, 4))),
    (_bracketed, ((3, 7), (3, 3, 4), (3, 3, 2, 2), (4, 6), (4, 2, 2, 2), (4, 3, 3), (5, 5), (5, 1, 2, 2))),
    (_dashed, ((3, 3, 2, 2),)),
    (_with_zero, ((3, 4, 4), (5, 6), (4, 3, 4), (5, 3, 3), (4, 7), (2, 2, 2, 2, 2))),
)


def _by_shape() -> Mapping[Shape, Sequence[Rule]]:
    table: dict[Shape, list[Rule]] = defaultdict(list)
    for rule, shapes in _RULES:
        for shape in shapes:
            table[shape].append(rule)
    return dict(table)


RULES = _by_shape()
