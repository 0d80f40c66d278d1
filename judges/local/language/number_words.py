"""Reads numbers in words: "two hundred and fifty", "three million", "twelve and a half", «двадцать пять»."""

from collections.abc import Sequence
from typing import NamedTuple

from judges.local.lexicon import Word

_AND = frozenset({"and", "и"})
_ARTICLES = frozenset({"a", "an"})
_POINT = "point"
_HALF = 0.5

# "and a half", "and half", «с половиной»: the words that add a half to the number before them.
_AND_HALF = (("and", "a", "half"), ("and", "half"), ("с", "половиной"))


class WordNumber(NamedTuple):
    value: float
    end: int
    """The index after its last word."""


def read_number(words: Sequence[Word], start: int) -> WordNumber | None:
    """Return the number that begins with this word; None if it is no number, or an article without a scale."""
    first = words[start].number
    if first is None:
        return None
    if first == _HALF:
        return _half_of(words, start)
    total, current, place = 0.0, first, start + 1
    while place < len(words):
        word = words[place]
        if word.scale is not None and current:
            total, current = total + current * word.scale, 0.0
        elif word.number is not None and word.text not in _ARTICLES and _continues(current, total, word.number):
            current = current * word.number if word.number == 100 else current + word.number
        elif word.text in _AND and _adds(words, place, total + current):
            pass
        else:
            break
        place += 1
    return _with_fraction(words, WordNumber(total + current, place))


def _continues(current: float, total: float, number: float) -> bool:
    if number == 100:
        return 1 <= current < 20
    if not current:
        return total > 0
    return (20 <= current < 100 and current % 10 == 0 and 1 <= number < 10) or (
        current >= 100 and current % 100 == 0 and 1 <= number < 100
    )


def _adds(words: Sequence[Word], place: int, value: float) -> bool:
    """Return whether an "and" is inside a number: "two hundred and fifty", but not "twenty and ten"."""
    following = words[place + 1] if place + 1 < len(words) else None
    number = None if following is None or following.text in _ARTICLES else following.number
    return number is not None and number != _HALF and value >= 100 and value % 100 == 0 and number < 100


def _half_of(words: Sequence[Word], start: int) -> WordNumber:
    """Read "half a million" and "half an hour"."""
    place = start + 1
    if place < len(words) and words[place].text in _ARTICLES:
        place += 1
    if place < len(words) and words[place].scale is not None:
        return WordNumber(_HALF * (words[place].scale or 1.0), place + 1)
    return WordNumber(_HALF, place)


def _with_fraction(words: Sequence[Word], number: WordNumber) -> WordNumber:
    """Add "point five" or "and a half", which a scale may follow: "two and a half million"."""
    rest = tuple(word.text for word in words[number.end : number.end + 3])
    added = _with_decimals(words, number) if rest[:1] == (_POINT,) else add_half(rest, number)
    scale = words[added.end].scale if number.end < added.end < len(words) else None
    return added if scale is None else WordNumber(added.value * scale, added.end + 1)


def add_half(rest: tuple[str, ...], number: WordNumber) -> WordNumber:
    """Return the number with the half that the words after it add to it."""
    for half in _AND_HALF:
        if rest[: len(half)] == half:
            return WordNumber(number.value + _HALF, number.end + len(half))
    return number


def _with_decimals(words: Sequence[Word], number: WordNumber) -> WordNumber:
    digits, place = "", number.end + 1
    while place < len(words) and (value := words[place].number) is not None and 0 < value < 10:
        digits, place = digits + str(int(value)), place + 1
    return WordNumber(number.value + float(f"0.{digits}"), place) if digits else number
