"""The rules of numbers without letters: by the lengths of their groups, by check digits, by the words before."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product

from judges.models.redaction.checksums import is_card, is_inn, is_pesel, is_snils, is_ssn, is_steuer_id
from judges.models.redaction.found import SensitiveSpan
from judges.models.redaction.labels import OTHER, VERSION
from judges.models.redaction.lettered import with_letter
from judges.models.redaction.phones import mobile_key
from judges.models.redaction.window import GroupWindow

Rule = Callable[[GroupWindow], Iterator[SensitiveSpan]]
Shape = tuple[int, ...]
"""The lengths of the groups."""

_SPACED = (" ", "-")


def _card(window: GroupWindow) -> Iterator[SensitiveSpan]:
    whole = not window.separators
    if whole and (window.before[-1:] == "." or window.label == OTHER):
        return  # A fraction, or a number that somebody says is no card.
    if window.ended and window.uniform((*_SPACED, ".")) and is_card(window.digits):
        yield window.found("card")


def _ipv4(window: GroupWindow) -> Iterator[SensitiveSpan]:
    if window.separators != [".", ".", "."] or "." in window.before + window.after or not window.ended:
        return
    if any(len(group) > 1 and group[0] == "0" for group in window.groups):
        return
    octets = [int(group) for group in window.groups]
    # Loopback, "any" and masks belong to nobody.
    if max(octets) > 255 or octets[0] in (0, 127, 255) or window.label == VERSION or _is_heading(window, octets):
        return
    yield window.found("ip", ".".join(window.groups))


def _is_heading(window: GroupWindow, octets: Sequence[int]) -> bool:
    """Whether it numbers a section: small numbers at the beginning of a line, with words after them."""
    text, start, end = window.text, window.start, window.end
    if (start > 0 and text[start - 1] != "\n") or not all(0 < octet < 20 for octet in octets):
        return False
    return text[end : end + 1] == " " and text[end + 1 : end + 2].isupper()


# National ids


def _ssn(window: GroupWindow) -> Iterator[SensitiveSpan]:
    sure = window.separators == ["-", "-"] and window.label not in (OTHER, VERSION)
    if (sure or window.label == "ssn") and window.alone and window.ended and is_ssn(window.digits):
        yield window.found("ssn")


def _snils(window: GroupWindow) -> Iterator[SensitiveSpan]:
    if window.ended and all(separator in _SPACED for separator in window.separators) and is_snils(window.digits):
        yield window.found("snils")


def _inn(window: GroupWindow) -> Iterator[SensitiveSpan]:
    """Of an organisation only after the word: one number of ten in ten has the right check digit."""
    sure = len(window.digits) == 12 and window.alone and window.label is None
    if (sure or window.label == "inn") and window.ended and is_inn(window.digits):
        yield window.found("inn")


def _steuer_id(window: GroupWindow) -> Iterator[SensitiveSpan]:
    if window.uniform(" ") and window.alone and window.ended and is_steuer_id(window.digits):
        yield window.found("steuer_id")


def _dni(window: GroupWindow) -> Iterator[SensitiveSpan]:
    found = with_letter(window.text, window.start, window.digits, window.end) if window.uniform(".") else None
    if found and window.before[-1:] != ".":
        yield found


_CHECKS = {"snils": is_snils, "steuer_id": is_steuer_id, "pesel": is_pesel}


def _eleven(window: GroupWindow) -> Iterator[SensitiveSpan]:
    """Eleven digits in a row, which are so much: what is said before decides, then the rarer form."""
    digits, label = window.digits, window.label
    if not window.ended or label in (OTHER, VERSION):
        return
    if label in _CHECKS and _CHECKS[label](digits):
        yield window.found(label)
    if not window.alone or label not in (None, "phone", "inn", *_CHECKS):
        return
    mobile = mobile_key(digits)
    if mobile or label == "phone":
        yield window.found("phone", mobile)
    for kind in ("steuer_id", "pesel"):
        if _CHECKS[kind](digits):
            yield window.found(kind)


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
)


def _by_shape() -> Mapping[Shape, Sequence[Rule]]:
    table: dict[Shape, list[Rule]] = defaultdict(list)
    for rule, shapes in _RULES:
        for shape in shapes:
            table[shape].append(rule)
    return dict(table)


RULES = _by_shape()
