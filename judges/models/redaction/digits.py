"""Finds values made of digits: cards, accounts, phones, IPv4 addresses and national ids, all in one pass over a text.

    NumberFinder ── a chunk: groups of digits with a few separators between them
                    └── a window: some neighbouring groups of it ── the rules for groups of these lengths

A chunk may hold several values in a row, or a value and more (a card, its date and its code), hence the windows.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from judges.models.redaction.found import SensitiveSpan, begins
from judges.models.redaction.lettered import find_lettered, may_follow_letters
from judges.models.redaction.numbers import RULES, Rule, Shape
from judges.models.redaction.phones import international, labelled, may_be_national, may_be_phone, national
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
    """Finds numbers of these kinds, and numbers in any form that have the digits of a known one."""

    kinds: Collection[str]
    known: Mapping[str, SensitiveSpan]
    known_lengths: Collection[int]

    def find(self, text: str) -> Iterator[SensitiveSpan]:
        done, last = 0, None
        for match in _CHUNK.finditer(text):
            start, end = match.span()
            found = find_lettered(text, start) if start >= done and may_follow_letters(text, start) else None
            if found and found.kind in self.kinds:
                yield found
                done, last = found.end, found
            if end - start < _MIN_DIGITS or end <= done:
                continue
            groups = [group.span() for group in _GROUP.finditer(text, max(start, done), end)]
            for found in self._in_chunk(Chunk(text, groups, last)):
                yield found
                done, last = found.end, found

    def _in_chunk(self, chunk: Chunk) -> Iterator[SensitiveSpan]:
        sizes = tuple([end - start for start, end in chunk.groups])
        if len(sizes) <= _MAX_GROUPS and not self.known and not _is_promising(sizes):
            return
        first = 0 if begins(chunk.text, chunk.groups[0][0]) else 1
        while first < len(sizes):
            hit = self._hit(chunk, first, _plan(sizes[first : first + _MAX_GROUPS]))
            first += 1
            if hit and not _in_uuid(chunk.text, hit[1]):
                first, chunk.last = hit[0].last + 1, hit[1]
                yield hit[1]

    def _hit(self, chunk: Chunk, first: int, plan: "_WindowPlan") -> tuple[GroupWindow, SensitiveSpan] | None:
        """What begins with this group: a phone after a plus, an id, a phone in the form of a country, another phone."""
        at = chunk.groups[first][0]
        hit = self._longest(international, chunk, first, plan.phones) if _is_signed(chunk.text, at) else None
        hit = hit or self._shortest(chunk, first, plan) or self._longest(national, chunk, first, plan.national)
        if hit or not plan.phones or (first and not chunk.last):
            return hit
        if not first and chunk.text.startswith("00", at):
            hit = self._longest(international, chunk, first, plan.phones)
        if hit is None and GroupWindow(chunk, first, first).label == "phone":
            hit = self._longest(labelled, chunk, first, plan.phones)
        return hit

    def _shortest(self, chunk: Chunk, first: int, plan: "_WindowPlan") -> tuple[GroupWindow, SensitiveSpan] | None:
        for more, digits, rules in plan.windows if self.known else plan.ruled:
            if not rules and digits not in self.known_lengths:
                continue
            window = GroupWindow(chunk, first, first + more)
            for rule in rules:
                for found in rule(window):
                    if found.kind in self.kinds:
                        return window, found
            same = self.known.get(window.digits)
            if same and window.ended:
                return window, SensitiveSpan(window.opening, window.end, same.kind, same.key)
        return None

    def _longest(
        self, rule: Rule, chunk: Chunk, first: int, phones: Sequence[int]
    ) -> tuple[GroupWindow, SensitiveSpan] | None:
        """Phones differ in length: the most groups that can be one."""
        for more in phones if "phone" in self.kinds else ():
            window = GroupWindow(chunk, first, first + more)
            for found in rule(window):
                return window, found
        return None


class _WindowPlan(NamedTuple):
    """Which windows that begin with a group are worth a look; each by how many groups it has after the first."""

    windows: Sequence[tuple[int, int, Sequence[Rule]]]
    """With how many digits it has and the rules for it, the shortest first."""
    ruled: Sequence[tuple[int, int, Sequence[Rule]]]
    """Those for which there are rules."""
    phones: Sequence[int]
    """Those that are as long as a phone, the longest first."""
    national: Sequence[int]
    """Those of them that are as long as a phone without its country's code."""


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
    """Whether there is anything to look at; there is not in dates and sums."""
    plans = [_plan(sizes[first:]) for first in range(len(sizes))]
    return any(plan.ruled or plan.phones for plan in plans)


def _is_signed(text: str, at: int) -> bool:
    return text[at - 1 : at] == "+" or text[max(0, at - 2) : at] == "+("


def _in_uuid(text: str, found: SensitiveSpan) -> bool:
    if text[found.start - 1 : found.start] != "-" and text[found.end : found.end + 1] != "-":
        return False
    uuids = _UUID.finditer(text, max(0, found.start - _UUID_CHARS), found.end + _UUID_CHARS)
    return any(uuid.start() < found.end and found.start < uuid.end() for uuid in uuids)
