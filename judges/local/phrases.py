"""Patterns of words, found in one pass however many there are.

A pattern is written as slots with spaces between them:

    make|build ... bomb*      "build" within six words before "bomb", "bombs", "bomber"
    i|we can't help           three words next to each other
    home address is ... #     `#` is any word with a digit in it

`|` separates alternatives, `*` at the end of one stands for any ending, and `...` allows up to `GAP` words in between.
Words are compared in lower case with е for ё.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

# Words that `...` may skip: a verb and its object are rarely further apart in one clause.
GAP = 5

_CACHED_WORDS = 50_000


class Match(NamedTuple):
    start: int
    end: int
    """The index after the last matched word."""

    tag: int
    """Which of the patterns matched, by its place in the list given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slot:
    pattern: int
    reach: int
    """How many words after the slot before it this one may stand."""


class Phrases:
    """Many patterns, ready to be looked for."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._slots: list[_Slot] = []
        self._patterns: list[tuple[int, ...]] = []
        self._exact: dict[str, list[int]] = defaultdict(list)
        self._prefix: dict[str, list[int]] = defaultdict(list)
        self._digit: list[int] = []
        for pattern in patterns:
            self._add(pattern)
        self._lengths = tuple(sorted({len(prefix) for prefix in self._prefix}))
        self._known: dict[str, tuple[int, ...]] = {}

    def _add(self, pattern: str) -> None:
        number, slots, reach = len(self._patterns), [], 1
        for part in pattern.split():
            if part == "...":
                reach = GAP + 1
                continue
            slot = len(self._slots)
            self._slots.append(_Slot(pattern=number, reach=reach))
            slots.append(slot)
            reach = 1
            for word in part.split("|"):
                self._index(word, slot)
        if not slots or reach != 1:
            raise ValueError(f"pattern {pattern!r} must begin and end with a word")
        self._patterns.append(tuple(slots))

    def _index(self, word: str, slot: int) -> None:
        if not word:
            raise ValueError("a pattern has an empty alternative")
        if word == "#":
            self._digit.append(slot)
        elif word.endswith("*"):
            self._prefix[word[:-1]].append(slot)
        else:
            self._exact[word].append(slot)

    def _slots_of(self, word: str) -> tuple[int, ...]:
        known = self._known.get(word)
        if known is None:
            found = set(self._exact.get(word, ()))
            for length in self._lengths:
                found.update(self._prefix.get(word[:length], ()))
            if self._digit and any(char.isdigit() for char in word):
                found.update(self._digit)
            if len(self._known) >= _CACHED_WORDS:
                self._known.clear()
            known = self._known[word] = tuple(sorted(found))
        return known

    def find(self, words: Sequence[str]) -> list[Match]:
        """Every place where a pattern begins, in the order of the text, with its shortest end."""
        positions: dict[int, list[int]] = {}
        for place, word in enumerate(words):
            for slot in self._slots_of(word):
                positions.setdefault(slot, []).append(place)
        if not positions:
            return []
        candidates = {self._slots[slot].pattern for slot in positions}
        found = [
            match
            for number in candidates
            if all(slot in positions for slot in self._patterns[number])
            for match in self._chains(number, positions)
        ]
        return sorted(found)

    def matches(self, words: Sequence[str]) -> bool:
        return bool(self.find(words))

    def _chains(self, number: int, positions: dict[int, list[int]]) -> Iterable[Match]:
        first, *rest = self._patterns[number]
        for start in positions[first]:
            ends = [start]
            for slot in rest:
                ends = _reachable(ends, positions[slot], self._slots[slot].reach)
            if ends:
                yield Match(start, ends[0] + 1, number)


def _reachable(ends: list[int], places: list[int], reach: int) -> list[int]:
    found = set()
    for end in ends:
        for index in range(bisect_right(places, end), len(places)):
            if places[index] > end + reach:
                break
            found.add(places[index])
    return sorted(found)
