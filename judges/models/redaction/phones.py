"""Phone numbers: the forms in which countries write them, checked against the numbering plans of phonenumbers.

A form is a cheap pattern that picks candidates; the plan of the country decides. The plans are compiled here once:
parsing every candidate with the library, or searching with its matcher, would be ten to a hundred times slower.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

from phonenumbers import COUNTRY_CODE_TO_REGION_CODE, PhoneMetadata, PhoneNumberDesc

from judges.models.redaction.labels import OTHER, VERSION, is_list_gap
from judges.models.redaction.span import SensitiveSpan
from judges.models.redaction.window import GroupWindow

_MIN_INTERNATIONAL_DIGITS = 9
_MAX_INTERNATIONAL_DIGITS = 14
_MAX_LABELLED_DIGITS = 13
_MAX_CODE_DIGITS = 3
_DATES = ((2, 2, 4), (1, 2, 4), (1, 1, 4))


# Forms


class _Form(NamedTuple):
    pattern: re.Pattern[str]
    regions: tuple[str, ...]
    is_distinct: bool
    """Whether only phones have this form. Otherwise a word such as `order` before the number rules out a phone."""
    is_assigned: bool
    """Whether the number must be in an assigned range, because other numbers often have this form."""


def _form(pattern: str, regions: str, *, is_distinct: bool = False, is_assigned: bool = False) -> _Form:
    return _Form(re.compile(pattern), tuple(regions.split()), is_distinct, is_assigned)


# Countries that dial a zero before the area code, and whose numbers are all of about the same length.
_WITH_ZERO = "GB FR AU CN IN IT NL BE CH SE UA TR JP KR ZA IL"
_GROUPS = r"\d{3,4}[ -]\d{3,4}|\d{3}[ -]\d\d[ -]\d\d|\d{3} \d{3} \d\d|\d\d[ -]\d\d[ -]\d\d(?:[ -]\d\d)?"
_FORMS = (
    # 8 (495) 123-45-67, 7 916 123 45 67
    _form(r"(?P<trunk>[78])(?: ?\(|[ -])\d{3,5}(?:\) ?|[ -])\d{1,7}(?:[ -]\d{2,4}){0,3}", "RU", is_distinct=True),
    _form(r"(?P<trunk>[78])[ -]\d{10}", "RU", is_distinct=True),
    # (495) 123-45-67, (4012) 12-34-56
    _form(r"\(\d{3,5}\)[ -]?\d{1,7}(?:[ -]\d{2,4}){0,3}", "RU", is_distinct=True),
    # 495-123-45-67
    _form(r"\d{3}-\d{3}-\d\d-\d\d", "RU", is_distinct=True),
    # (212) 555-0123, 1 (212) 555-0123
    _form(r"(?:(?P<trunk>1)[ .-]?)?\(\d{3}\)[ .-]?\d{3}[ .-]?\d{4}", "US", is_distinct=True),
    # 212-555-0123, 1.212.555.0123; with spaces it may be a row of numbers.
    _form(r"(?:(?P<trunk>1)[.-])?\d{3}(?P<joint>[.-])\d{3}(?P=joint)\d{4}", "US"),
    # (11) 91234-5678, 11 91234-5678
    _form(r"(?:\(\d\d\) ?|\d\d )\d{4,5}-\d{4}", "BR", is_assigned=True),
    # (85) 9 9876-5432, 21 98765 4321
    _form(r"\(\d\d\) ?9 \d{4}-\d{4}|\d\d 9\d{4} \d{4}", "BR", is_assigned=True),
    # 138-0013-8000, 138 0013 8000, but not 138 1400 1500
    _form(r"1[3-9]\d(?P<gap>[ -])(?!\d\d00 \d\d00)\d{4}(?P=gap)\d{4}", "CN", is_assigned=True),
    # 1300 975 707
    _form(r"1[38]00 \d{3} (?!000)\d{3}", "AU"),
    # 030 / 2312 5148
    _form(r"(?P<trunk>0)[1-9]\d{1,3} ?/ ?\d{2,4}(?:[ -]\d{1,5}){1,3}", "DE AT", is_assigned=True),
    # 098765 43210
    _form(r"(?P<trunk>0)[6-9]\d{4}[ -]\d{5}", "IN", is_assigned=True),
    # 020 7946 0958, 0161 496 0123, 07700 900123: also the numbers reserved for films, which are in no assigned range.
    _form(r"(?P<trunk>0)(?:\d\d([ .-])\d{4}\2\d{4}|\d{3}([ .-])\d{3}\3\d{4})", "GB"),
    _form(r"(?P<trunk>0)[17]\d{3}([ .-])(?:\d{6}|\d{3}\2\d{3})", "GB"),
    # (030) 23125148, 0171/3920071, 0221 66969-301; with other groups, lengths vary so much that too many would match.
    _form(r"\(?(?P<trunk>0)[1-9]\d{1,3}(?:\)[ -]?|[ /-])(?:\d{6,8}|\d{4,5}-\d{1,4})", "DE AT", is_assigned=True),
    _form(r"(?P<trunk>0)1[567]\d{1,2}[ /-]\d{2,4}(?:[ -]\d{2,4}){1,3}", "DE", is_assigned=True),
    # (02) 5550 1234, 0412 345 678, 06 12 34 56 78: few other numbers in groups begin with a zero.
    _form(rf"\(?(?P<trunk>0)[1-9]\d{{0,2}}(?:\)[ -]?|[ /-])(?:{_GROUPS})", _WITH_ZERO, is_assigned=True),
    # 06-12345678, (010) 65529988
    _form(r"\(?(?P<trunk>0)[1-9]\d{0,2}(?:\)[ -]?|-)\d{7,8}", _WITH_ZERO, is_assigned=True),
    # 06.12.34.56.78
    _form(r"(?P<trunk>0)[1-9](?:(?:\.\d\d){4}|\d{0,2}\.\d{3,4}\.\d{3,4})", _WITH_ZERO, is_assigned=True),
)
# First characters of the forms whose groups are separated only by spaces.
_FIRST = "(0178"
_CHINESE = re.compile(r"[\u4e00-\u9fff]")
# Eleven digits in a row with these prefixes are most likely a mobile number.
_MOBILES = {"79": "RU", "89": "RU", **dict.fromkeys(("071", "073", "074", "075", "077", "078", "079"), "GB")}


def may_be_phone(sizes: tuple[int, ...]) -> bool:
    """Return whether groups of these sizes can be a phone: not too short, not too long, and not a date."""
    least = 7 if len(sizes) < 3 else 6
    return least <= sum(sizes) <= 15 and tuple(sorted(sizes)) not in _DATES


def may_be_national(digits: int) -> bool:
    """Return whether a number of this many digits can be a phone in the form of a country."""
    return 10 <= digits <= 12


def find_international(window: GroupWindow) -> Iterator[SensitiveSpan]:
    """Find a phone after a plus, or after a separate group of 00 and a country's code."""
    signed = window.text[window.opening] == "+"
    digits = window.digits
    if not signed and not (digits.startswith("00") and 3 <= len(window.groups[0]) <= 5 and window.separators):
        return
    number = digits if signed else digits[2:]
    # A round sum with a sign is not a phone.
    key = _international_key(number) if window.is_ended and not number.endswith("000000") else None
    if key:
        yield _phone(window, key)


def find_national(window: GroupWindow) -> Iterator[SensitiveSpan]:
    """Find a phone in the form of a country, without the country's code."""
    if not window.is_ended or not window.is_alone:
        return
    written = window.text[window.opening : window.end].removeprefix("+")
    may_be_spaced = written[0] in _FIRST or [len(group) for group in window.groups] == [2, 5, 4]
    if not may_be_spaced and "-" not in written and "." not in written:
        return
    for form in _FORMS:
        match = form.pattern.fullmatch(written)
        if match and not _is_ruled_out(window, form):
            key = _national_key(window.digits, match.groupdict().get("trunk") or "", form)
            if key:
                yield _phone(window, key)


def find_labelled(window: GroupWindow) -> Iterator[SensitiveSpan]:
    """Find a phone of any digits after a word that announces a phone."""
    sizes = [len(group) for group in window.groups]
    thousands = sizes[0] <= 3 and set(sizes[1:]) == {3} and window.is_uniform((" ", ".")) and sum(sizes) < 9
    if window.is_ended and not thousands and sum(sizes) <= _MAX_LABELLED_DIGITS:
        yield _phone(window, mobile_key(window.digits) or window.digits)


def _is_ruled_out(window: GroupWindow, form: _Form) -> bool:
    """Return whether a word names another kind of number, or the window is inside a row of numbers."""
    if not form.is_distinct and window.label in (OTHER, VERSION):
        return True
    last = window.chunk.last
    return form.is_assigned and window.first > 0 and not (last and is_list_gap(window.text, last.end, window.opening))


def _phone(window: GroupWindow, key: str) -> SensitiveSpan:
    return SensitiveSpan(window.opening, window.end, "phone", key)


# Keys: a plus, the country's code and the number


def mobile_key(digits: str) -> str | None:
    """Return the key of a mobile number without spaces, if its first digits identify its country."""
    region = _MOBILES.get(digits[:2]) or _MOBILES.get(digits[:3]) if len(digits) == 11 else None
    plan = _plan(region) if region else None
    return f"+{plan.code}{digits[1:]}" if plan and plan.possible.fullmatch(digits[1:]) else None


def chinese_mobile_key(digits: str, around: str) -> str | None:
    """Return the key of a Chinese mobile number without spaces in a Chinese text; elsewhere it may be anything."""
    plan = _plan("CN") if _CHINESE.search(around) and digits[0] == "1" else None
    return f"+{plan.code}{digits}" if plan and plan.assigned.fullmatch(digits) else None


def spellings(key: str) -> Iterable[str]:
    """Return the notations of this number in digits: with its country's code, and as dialled inside the country."""
    if not key.startswith("+"):
        return (key,)
    digits = key[1:]
    plan = _plan_of(digits)
    return (digits, f"00{digits}", f"{plan.trunk}{digits[len(plan.code) :]}") if plan else (digits,)


def _international_key(digits: str) -> str | None:
    plan = _plan_of(digits) if _MIN_INTERNATIONAL_DIGITS <= len(digits) <= _MAX_INTERNATIONAL_DIGITS else None
    if plan is None:
        return None
    number = digits[len(plan.code) :]
    # +44 (0)20 7946 0958
    for inside in (number, number.removeprefix(plan.trunk)):
        if plan.possible.fullmatch(inside):
            return f"+{plan.code}{inside}"
    return None


def _national_key(digits: str, trunk: str, form: _Form) -> str | None:
    for region in form.regions:
        plan = _plan(region)
        # In Italy the zero is dialled, but it is part of the number.
        inside = digits.removeprefix(trunk) if plan.trunk else digits
        if plan.possible.fullmatch(inside) and (not form.is_assigned or plan.assigned.fullmatch(inside)):
            return f"+{plan.code}{inside}"
    return None


# Numbering plans


class _NumberingPlan(NamedTuple):
    code: str
    trunk: str
    """The prefix dialled before a number inside the country."""
    possible: re.Pattern[str]
    """Matches any number of the country, without the code and the trunk prefix."""
    assigned: re.Pattern[str]
    """Matches numbers in assigned ranges: fixed lines, mobiles, and free of charge."""


@cache
def _plan(region: str) -> _NumberingPlan:
    return _compile_plan(PhoneMetadata.metadata_for_region(region))


@cache
def _plan_by_code(code: int) -> _NumberingPlan:
    [region, *_] = COUNTRY_CODE_TO_REGION_CODE[code]
    return _compile_plan(PhoneMetadata.metadata_for_region_or_calling_code(code, region))


def _plan_of(digits: str) -> _NumberingPlan | None:
    """Return the plan of the country whose code these digits begin with; no code is a prefix of another."""
    if digits.startswith("0"):
        return None
    codes = (int(digits[:size]) for size in range(1, _MAX_CODE_DIGITS + 1))
    return next((_plan_by_code(code) for code in codes if code in COUNTRY_CODE_TO_REGION_CODE), None)


def _compile_plan(metadata: PhoneMetadata | None) -> _NumberingPlan:
    assert metadata is not None
    return _NumberingPlan(
        code=str(metadata.country_code),
        trunk=metadata.national_prefix or "",
        possible=_compile(metadata.general_desc),
        assigned=_compile(metadata.fixed_line, metadata.mobile, metadata.toll_free),
    )


def _compile(*descriptions: PhoneNumberDesc | None) -> re.Pattern[str]:
    patterns = [description.national_number_pattern for description in descriptions if description]
    return re.compile("|".join(pattern for pattern in patterns if pattern) or "(?!)")
