"""Patterns of words, found in one pass however many there are.

A pattern is written as slots with spaces between them:

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
    """Which of the patterns matched, by its place in the list given."""


class _Slot(NamedTuple):
    number: int
    reach: int
    """How many words after the slot before it this one may stand."""


class _Pattern(NamedTuple):
    slots: tuple[_Slot, ...]
    anchor: int
    """The slot that is looked for first: the one whose words are rare."""

    numbers: frozenset[int]
    """Of its slots, all of which a text must have."""


class _Known(NamedTuple):
    """What one word can be."""

    anchors: tuple[int, ...]
    """The patterns it may anchor."""

    slots: frozenset[int]


class PhraseIndex:
    """Many patterns, ready to be looked for."""

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
        self._known: dict[str, _Known] = {}
        self._idle: set[str] = set()
        """Known words that anchor nothing, as most do: a text of such words alone holds no pattern."""

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
            # Common words are short, and numbers are everywhere.
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

    def _examine(self, word: str) -> _Known:
        found = set(self._exact.get(word, ()))
        for length in self._lengths:
            found.update(self._prefix.get(word[:length], ()))
        if self._digit and any(char.isdigit() for char in word):
            found.update(self._digit)
        if self._many and word.isdigit() and len(word) > 1:
            found.update(self._many)
        if len(self._known) >= _CACHED_WORDS:
            self._known.clear()
            self._idle.clear()
        anchors = sorted(self._anchored[slot] for slot in found if slot in self._anchored)
        known = self._known[word] = _Known(tuple(anchors), frozenset(found))
        if not anchors:
            self._idle.add(word)
        return known

    def find(self, words: Sequence[str]) -> list[PhraseMatch]:
        """Every match around a rare word of a pattern, as short as possible, in the order of the text."""
        if self._idle.issuperset(words):
            return []
        get = self._known.get
        known = [get(word) or self._examine(word) for word in words]
        present = frozenset().union(*[item.slots for item in known])
        anchors = [
            (number, place)
            for place, item in enumerate(known)
            for number in item.anchors
            if self._patterns[number].numbers <= present
        ]
        around = (self._around(number, place, known) for number, place in anchors)
        return sorted(match for match in around if match is not None)

    def matches(self, words: Sequence[str]) -> bool:
        return bool(self.find(words))

    def _around(self, number: int, place: int, words: Sequence[_Known]) -> PhraseMatch | None:
        slots, anchor, _ = self._patterns[number]
        starts = ends = {place}
        for index in range(anchor, 0, -1):
            reach, wanted = slots[index].reach, slots[index - 1].number
            near = {at for start in starts for at in range(max(0, start - reach), start)}
            starts = {at for at in near if wanted in words[at].slots}
            if not starts:
                return None
        for slot in slots[anchor + 1 :]:
            near = {at for end in ends for at in range(end + 1, min(len(words), end + slot.reach + 1))}
            ends = {at for at in near if slot.number in words[at].slots}
            if not ends:
                return None
        return PhraseMatch(max(starts), min(ends) + 1, number)
