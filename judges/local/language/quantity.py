"""Numbers as facts: "1,000", "1 000" and "1000" are the same number, and "two weeks" is "14 days"."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from judges.local.language.number_words import WordNumber, add_half, read_number
from judges.local.lexicon import Lexicon, Unit, Word

# Longer digit strings are identifiers, not amounts, and floats could not distinguish them.
_MOST_DIGITS = 15

# Characters between a number and its unit: a space, a hyphen, a closing bracket.
_NEAR = 2

# Longest number in words, and the value from which a number in words without a unit is a claim.
_MOST_WORDS = 14
_EXACT = 10
_HALF = 0.5
_HALVES = frozenset({"and", "с"})

_SIGNS = "$€£₽"
_CLOCK = "o'clock"
_DAY = "day of the month"
_MERIDIEM = {"am": 0, "pm": 12}


class NumberToken(NamedTuple):
    kind: str
    """`word`, `number`, `time`, `date` or `code`."""

    raw: str
    start: int
    end: int
    word: Word


class Quantity(NamedTuple):
    value: str
    """The number alone, in one notation."""

    unit: str | None
    scaled: str
    """The number in the unit's base, so that weeks and days compare."""

    text: str
    """The number with its unit as written in the text."""

    soft: bool
    """Whether it is too vague to be a claim ("a week", "two of them"); it can still support one."""

    last: int = -1
    """The index of its last token; -1 for dates and times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantityFacts:
    """An index of the numbers in a text."""

    keyed: set[tuple[str | None, str]] = field(default_factory=set)
    bare: set[str] = field(default_factory=set)
    values: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, parts: Sequence["QuantityFacts"]) -> "QuantityFacts":
        return cls(
            keyed=set().union(*(part.keyed for part in parts)),
            bare=set().union(*(part.bare for part in parts)),
            values=set().union(*(part.values for part in parts)),
        )

    def add(self, quantities: Iterable[Quantity]) -> None:
        for quantity in quantities:
            self.keyed.add((quantity.unit, quantity.scaled))
            self.values.add(quantity.value)
            if quantity.unit is None:
                self.bare.add(quantity.value)

    def support(self, quantity: Quantity) -> bool:
        """Return whether the text has this number; if either has no unit, only the values are compared."""
        if quantity.unit is None:
            return quantity.value in self.values
        return (quantity.unit, quantity.scaled) in self.keyed or quantity.value in self.bare


def quantities(tokens: Sequence[NumberToken], text: str, lexicon: Lexicon) -> list[Quantity]:
    result: list[Quantity] = []
    words_end = 0
    for place, token in enumerate(tokens):
        if place < words_end or (token.kind == "word" and token.word.number is None):
            continue
        if token.kind == "number":
            quantity, words_end = _number(tokens, place, text, lexicon)
            result.append(quantity)
        elif token.kind == "time":
            result.extend(_clock(*token.raw.split(":")))
        elif token.kind == "date":
            result.extend(_date(token.raw))
        elif token.kind == "word":
            quantity, words_end = _number_words(tokens, place, text, lexicon)
            result.append(quantity)
    return result


def follows_number(tokens: Sequence[NumberToken], place: int, lexicon: Lexicon) -> bool:
    """Return whether the word follows a number, like its unit."""
    if place and tokens[place - 1].word.text in lexicon.between:
        place -= 1
    if not place:
        return False
    before = tokens[place - 1]
    return before.kind == "number" or before.word.number is not None or before.word.scale is not None


def canonical(raw: str) -> str:
    """Return a number in one notation: no group separators, a point for decimals, no trailing zeros."""
    compact = raw.replace(" ", "").replace("\u00a0", "").replace("\u202f", "")
    head, comma, tail = compact.rpartition(",")
    if comma:
        grouped = len(tail.partition(".")[0]) == 3 and head.lstrip("0") != "" and "." not in head
        compact = compact.replace(",", "") if grouped or "," in head else f"{head}.{tail}"
    if len(compact) > _MOST_DIGITS or compact.count(".") > 1:
        return compact
    return _short(float(compact))


def _short(value: float) -> str:
    return format(round(value, 6), ".15g")


def _number(tokens: Sequence[NumberToken], place: int, text: str, lexicon: Lexicon) -> tuple[Quantity, int]:
    """Return the number in digits at this place, and the index after the words that belong to it."""
    value = _sign(text, tokens[place].start) + canonical(tokens[place].raw)
    value, last = _scaled(value, tokens, place)
    return _with_unit(value, tokens, text, lexicon, first=place, place=last)._replace(last=last), last + 1


def _scaled(value: str, tokens: Sequence[NumberToken], place: int) -> tuple[str, int]:
    """Apply "and a half" and "million" after a number in digits; return the index of its last word, too."""
    after = _near(tokens, place + 1, tokens[place].end)
    if after is not None and after.word.text in _HALVES and value.isdigit():
        rest = tuple(item.word.text for item in tokens[place + 1 : place + 4])
        number = add_half(rest, WordNumber(float(value), place + 1))
        if number.end > place + 1:
            value, place = _short(number.value), number.end - 1
            after = _near(tokens, place + 1, tokens[place].end)
    if after is not None and after.word.scale is not None and len(value) <= _MOST_DIGITS:
        value, place = _short(float(value) * after.word.scale), place + 1
    return value, place


def _with_unit(
    value: str, tokens: Sequence[NumberToken], text: str, lexicon: Lexicon, *, first: int, place: int
) -> Quantity:
    """Return the number with its unit; it has the tokens from `first` to `place`."""
    token, end = tokens[first], tokens[place].end
    after = _near(tokens, place + 1, end)
    before = text[token.start - 1 : token.start]
    if before in _SIGNS and before:
        return _quantity(value, lexicon.units[before], text[token.start - 1 : end])
    sign = text[end : end + 2].strip()[:1]
    if sign in lexicon.units and not sign.isalpha():
        return _quantity(value, lexicon.units[sign], text[token.start : end + 2].rstrip(" .,;"))
    if after is not None and after.raw.lower() in _MERIDIEM and value.isdigit():
        hour = int(value) % 12 + _MERIDIEM[after.raw.lower()]
        return Quantity(str(hour), _CLOCK, str(hour), text[token.start : after.end], soft=False)
    month = _month_beside(tokens, place)
    if month is not None and value.isdigit():
        quotation = text[min(token.start, month.start) : max(end, month.end)]
        return Quantity(value, _DAY, value, quotation, soft=False)
    unit = _unit_after(tokens, place, lexicon)
    return _quantity(value, unit and unit.word.unit, text[token.start : unit.end if unit else end])


def _month_beside(tokens: Sequence[NumberToken], place: int) -> NumberToken | None:
    """Return the month of "25 December" and "December 25", but not of the year in "December 2025"."""
    if len(tokens[place].raw) > 2:
        return None
    for neighbour in (place - 1, place + 1):
        if 0 <= neighbour < len(tokens) and tokens[neighbour].word.stem.startswith("#month"):
            return tokens[neighbour]
    return None


def _sign(text: str, start: int) -> str:
    """Return a minus before the number, but not the hyphen of "10-15" or "A-4"."""
    minus = text[max(0, start - 1) : start] in ("-", "−")
    return "-" if minus and not text[max(0, start - 2) : start - 1].isalnum() else ""


def _unit_after(tokens: Sequence[NumberToken], place: int, lexicon: Lexicon) -> NumberToken | None:
    after = _near(tokens, place + 1, tokens[place].end)
    if after is not None and after.word.text in lexicon.between:
        after = _near(tokens, place + 2, after.end)
    return after if after is not None and after.word.unit is not None else None


def _number_words(tokens: Sequence[NumberToken], place: int, text: str, lexicon: Lexicon) -> tuple[Quantity, int]:
    """Return the number that begins here, and the index after its last word."""
    run = [tokens[place].word]
    for before, token in pairwise(tokens[place : place + _MOST_WORDS]):
        if token.kind != "word" or token.start - before.end > _NEAR:
            break
        run.append(token.word)
    number = read_number(run, 0)
    assert number is not None
    last = place + number.end - 1
    unit = _unit_after(tokens, last, lexicon)
    quotation = text[tokens[place].start : (unit or tokens[last]).end]
    quantity = _quantity(_short(number.value), unit and unit.word.unit, quotation)
    # "a day" and "one of them" are figures of speech; "three days" and "forty" are claims.
    is_small = quantity.unit is None and number.value < _EXACT and number.value != int(number.value) + _HALF
    return quantity._replace(soft=is_small or number.value == 1, last=last), last + 1


def _near(tokens: Sequence[NumberToken], place: int, end: int) -> NumberToken | None:
    if place >= len(tokens) or tokens[place].kind != "word" or tokens[place].start - end > _NEAR:
        return None
    return tokens[place]


def _quantity(value: str, unit: Unit | None, quotation: str) -> Quantity:
    if unit is None:
        return Quantity(value, None, value, quotation, soft=False)
    scaled = value if len(value) > _MOST_DIGITS or value.count(".") > 1 else _short(float(value) * unit.factor)
    return Quantity(value, unit.base, scaled, quotation, soft=False)


def _clock(hour: str, minute: str) -> list[Quantity]:
    """Return a time of day: "9:00" is the same as "9"."""
    value = str(int(hour)) if minute == "00" else f"{int(hour)}:{minute}"
    return [Quantity(value, _CLOCK, value, f"{hour}:{minute}", soft=False)]


def _date(raw: str) -> list[Quantity]:
    """Return day and year as numbers; the month is a word, so that "2024-03-01" matches "1 March 2024"."""
    parts = raw.replace("/", "-").replace(".", "-").split("-")
    day, year = (parts[2], parts[0]) if len(parts[0]) == 4 else (parts[0], parts[2])
    return [
        Quantity(str(int(day)), _DAY, str(int(day)), raw, soft=False),
        Quantity(str(int(year)), None, str(int(year)), raw, soft=False),
    ]
