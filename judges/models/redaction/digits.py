"""Finds values made of digits: cards, accounts, phones, IPv4 addresses and national ids, all in one pass over a text.

    NumberFinder ── a chunk: groups of digits with a few separators between them
                    └── a window: some neighbouring groups of it ── the rules for groups of these lengths

A chunk may contain several values in a row, or a value and more (a card, its date and its code), hence the windows.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from judges.models.redaction.lettered import find_lettered, may_follow_letters
from judges.models.redaction.numbers import RULES, Rule, Shape
from judges.models.redaction.phones import (
    find_international,
    find_labelled,
    find_national,
    may_be_national,
    may_be_phone,
)
from judges.models.redaction.span import SensitiveSpan, can_begin
from judges.models.redaction.window import Chunk, GroupWindow

_CHUNK = re.compile(r"[0-9]+(?:[ \-./()]{1,3}[0-9]+)*")
_GROUP = re.compile(r"[0-9]+")
_MAX_GROUPS = 7
_MAX_DIGITS = 19
_MIN_DIGITS = 6
_MIN_ADDRESS_DIGITS = 4
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_UUID_CHARS = 36


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberFinder:
    """Finds numbers of these kinds, and known numbers in any notation."""

    kinds: Collection[str]
    known_numbers: Mapping[str, SensitiveSpan]
    known_lengths: Collection[int]

    def find(self, text: str) -> Iterator[SensitiveSpan]:
        position, last = 0, None
        for match in _CHUNK.finditer(text):
            start, end = match.span()
            span = find_lettered(text, start) if start >= position and may_follow_letters(text, start) else None
            if span and span.kind in self.kinds:
                yield span
                position, last = span.end, span
            if end - start < _MIN_DIGITS or end <= position:
                continue
            groups = [group.span() for group in _GROUP.finditer(text, max(start, position), end)]
            for span in self._find_in_chunk(Chunk(text, groups, last)):
                yield span
                position, last = span.end, span

    def _find_in_chunk(self, chunk: Chunk) -> Iterator[SensitiveSpan]:
        sizes = tuple([end - start for start, end in chunk.groups])
        if len(sizes) <= _MAX_GROUPS and not self.known_numbers and not _is_promising(sizes):
            return
        first = 0 if can_begin(chunk.text, chunk.groups[0][0]) else 1
        while first < len(sizes):
            hit = self._find_at(chunk, first, _plan(sizes[first : first + _MAX_GROUPS]))
            first += 1
            if hit and not _is_in_uuid(chunk.text, hit[1]):
                first, chunk.last = hit[0].last + 1, hit[1]
                yield hit[1]

    def _find_at(self, chunk: Chunk, first: int, plan: "_WindowPlan") -> tuple[GroupWindow, SensitiveSpan] | None:
        """Return the value that begins with this group.

        In this order: a phone after a plus, an id, a phone in the form of a country, another phone.
        """
        start = chunk.groups[first][0]
        signed = _is_signed(chunk.text, start)
        hit = self._find_longest(find_international, chunk, first, plan.phones) if signed else None
        hit = hit or self._find_shortest(chunk, first, plan)
        hit = hit or self._find_longest(find_national, chunk, first, plan.national)
        if hit or not plan.phones or (first and not chunk.last):
            return hit
        if not first and chunk.text.startswith("00", start):
            hit = self._find_longest(find_international, chunk, first, plan.phones)
        if hit is None and GroupWindow(chunk, first, first).label == "phone":
            hit = self._find_longest(find_labelled, chunk, first, plan.phones)
        return hit

    def _find_shortest(self, chunk: Chunk, first: int, plan: "_WindowPlan") -> tuple[GroupWindow, SensitiveSpan] | None:
        for more, digits, rules in plan.windows if self.known_numbers else plan.ruled:
            if not rules and digits not in self.known_lengths:
                continue
            window = GroupWindow(chunk, first, first + more)
            for rule in rules:
                for span in rule(window):
                    if span.kind in self.kinds:
                        return window, span
            same = self.known_numbers.get(window.digits)
            if same and window.is_ended:
                return window, SensitiveSpan(window.opening, window.end, same.kind, same.key)
        return None

    def _find_longest(
        self, rule: Rule, chunk: Chunk, first: int, phones: Sequence[int]
    ) -> tuple[GroupWindow, SensitiveSpan] | None:
        """Return the phone of the most groups, because phones differ in length."""
        for more in phones if "phone" in self.kinds else ():
            window = GroupWindow(chunk, first, first + more)
            for span in rule(window):
                return window, span
        return None


class _WindowPlan(NamedTuple):
    """The windows from a group that are worth checking; each is given by its number of groups after the first."""

    windows: Sequence[tuple[int, int, Sequence[Rule]]]
    """All of them with their number of digits and their rules, the shortest first."""
    ruled: Sequence[tuple[int, int, Sequence[Rule]]]
    """Those with rules."""
    phones: Sequence[int]
    """Those that are as long as a phone, the longest first."""
    national: Sequence[int]
    """Those that are as long as a phone without its country's code."""


@lru_cache(maxsize=4096)
def _plan(sizes: Shape) -> _WindowPlan:
    windows: list[tuple[int, int, Sequence[Rule]]] = []
    phones: list[int] = []
    national: list[int] = []
    total = 0
    for more, size in enumerate(sizes):
        total += size
        if total > _MAX_DIGITS:
            break
        if total >= _MIN_ADDRESS_DIGITS:
            shape = sizes[: more + 1]
            windows.append((more, total, RULES.get(shape, ())))
            if total >= _MIN_DIGITS and may_be_phone(shape):
                phones.insert(0, more)
                if may_be_national(total):
                    national.insert(0, more)
    return _WindowPlan(windows, [window for window in windows if window[2]], phones, national)


@lru_cache(maxsize=4096)
def _is_promising(sizes: Shape) -> bool:
    """Return whether there is a window worth checking; dates and sums have none."""
    plans = [_plan(sizes[first:]) for first in range(len(sizes))]
    return any(plan.ruled or plan.phones for plan in plans)


def _is_signed(text: str, start: int) -> bool:
    return text[start - 1 : start] == "+" or text[max(0, start - 2) : start] == "+("


def _is_in_uuid(text: str, span: SensitiveSpan) -> bool:
    if text[span.start - 1 : span.start] != "-" and text[span.end : span.end + 1] != "-":
        return False
    uuids = _UUID.finditer(text, max(0, span.start - _UUID_CHARS), span.end + _UUID_CHARS)
    return any(uuid.start() < span.end and span.start < uuid.end() for uuid in uuids)
