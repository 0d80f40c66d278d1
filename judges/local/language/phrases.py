"""Patterns of words, all found in one pass.

A pattern consists of slots with spaces between them:

    make|build ... bomb*      "build" within six words before "bomb", "bombs", "bomber"
    i|we can't help           three words next to each other
    home address is ... @digit     `@digit` is any word with a digit in it, `@many` any number of two digits or more

`|` separates alternatives, `*` at the end of one stands for any ending, and `...` allows up to `GAP` words in between.
Words are compared in lower case with е for ё.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

# Words that `...` may skip: a verb and its object are rarely further apart in one clause.
GAP = 5

_CACHED_WORDS = 50_000


class PhraseMatch(NamedTuple):
    start: int
    end: int
    """The index after the last matched word."""

    tag: int
    """The index of the pattern that matched."""


class _Slot(NamedTuple):
    number: int
    reach: int
    """Maximum distance from the slot before it, in words."""


class _Pattern(NamedTuple):
    slots: tuple[_Slot, ...]
    anchor: int
    """The slot that is searched first: the one whose words are rare."""

    numbers: frozenset[int]
    """The numbers of all its slots; a text must have words for all of them."""


class _IndexedWord(NamedTuple):
    """The roles that one word can have in the patterns."""

    anchors: tuple[int, ...]
    """The patterns that it may anchor."""

    slots: frozenset[int]


class PhraseIndex:
    """An index of many patterns."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._patterns: list[_Pattern] = []
        self._anchored: dict[int, int] = {}
        self._exact: dict[str, list[int]] = defaultdict(list)
        self._prefix: dict[str, list[int]] = defaultdict(list)
        self._digit: list[int] = []
        self._many: list[int] = []
        self._slot_count = 0
        for pattern in patterns:
            self._add(pattern)
        self._lengths = tuple(sorted({len(prefix) for prefix in self._prefix}))
        self._examined: dict[str, _IndexedWord] = {}
        self._idle: set[str] = set()
        """Examined words that anchor no pattern, as most words: a text of only such words contains no pattern."""

    def _add(self, pattern: str) -> None:
        slots: list[_Slot] = []
        rarity: list[int] = []
        reach = 1
        for part in pattern.split():
            if part == "...":
                reach = GAP + 1
                continue
            words = part.split("|")
            slots.append(_Slot(self._slot_count, reach))
            # Common words are short, and numbers are frequent.
            rarity.append(min(0 if word.startswith("@") else len(word) for word in words))
            for word in words:
                self._index(word, self._slot_count)
            self._slot_count += 1
            reach = 1
        if not slots or reach != 1 or pattern.startswith("..."):
            raise ValueError(f"pattern {pattern!r} must begin and end with a word")
        anchor = rarity.index(max(rarity))
        self._anchored[slots[anchor].number] = len(self._patterns)
        self._patterns.append(_Pattern(tuple(slots), anchor, frozenset(slot.number for slot in slots)))

    def _index(self, word: str, slot: int) -> None:
        if not word:
            raise ValueError("a pattern has an empty alternative")
        if word == "@digit":
            self._digit.append(slot)
        elif word == "@many":
            self._many.append(slot)
        elif word.endswith("*"):
            self._prefix[word[:-1]].append(slot)
        else:
            self._exact[word].append(slot)

    def _examine(self, word: str) -> _IndexedWord:
        slots = set(self._exact.get(word, ()))
        for length in self._lengths:
            slots.update(self._prefix.get(word[:length], ()))
        if self._digit and any(char.isdigit() for char in word):
            slots.update(self._digit)
        if self._many and word.isdigit() and len(word) > 1:
            slots.update(self._many)
        if len(self._examined) >= _CACHED_WORDS:
            self._examined.clear()
            self._idle.clear()
        anchors = sorted(self._anchored[slot] for slot in slots if slot in self._anchored)
        indexed_word = self._examined[word] = _IndexedWord(tuple(anchors), frozenset(slots))
        if not anchors:
            self._idle.add(word)
        return indexed_word

    def find(self, words: Sequence[str]) -> list[PhraseMatch]:
        """Return the shortest match around each rare word of a pattern, in the order of the text."""
        if self._idle.issuperset(words):
            return []
        get = self._examined.get
        indexed_words = [get(word) or self._examine(word) for word in words]
        present = frozenset().union(*[word.slots for word in indexed_words])
        anchors = [
            (number, place)
            for place, word in enumerate(indexed_words)
            for number in word.anchors
            if self._patterns[number].numbers <= present
        ]
        matches = (self._match_around(number, place, indexed_words) for number, place in anchors)
        return sorted(match for match in matches if match is not None)

    def matches(self, words: Sequence[str]) -> bool:
        return bool(self.find(words))

    def _match_around(self, number: int, place: int, words: Sequence[_IndexedWord]) -> PhraseMatch | None:
        slots, anchor, _ = self._patterns[number]
        starts = ends = {place}
        for index in range(anchor, 0, -1):
            reach, previous = slots[index].reach, slots[index - 1].number
            near = {near_place for start in starts for near_place in range(max(0, start - reach), start)}
            starts = {near_place for near_place in near if previous in words[near_place].slots}
            if not starts:
                return None
        for slot in slots[anchor + 1 :]:
            near = {near_place for end in ends for near_place in range(end + 1, min(len(words), end + slot.reach + 1))}
            ends = {near_place for near_place in near if slot.number in words[near_place].slots}
            if not ends:
                return None
        return PhraseMatch(max(starts), min(ends) + 1, number)
