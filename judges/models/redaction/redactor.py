"""Replaces personal data and secrets in texts by placeholders, so that a judge sees who is who but not who that is.

redact ── cut each text at what already looks like a placeholder
       ── find, in all pieces, until nothing more is found: a value that was found once is replaced everywhere
       ── number the values of each kind in the order of their first occurrence
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from judges.criteria.problems import check_number, unknown
from judges.models.base import ChatMessage
from judges.models.redaction.addresses import find_emails, find_ipv6
from judges.models.redaction.credentials import find_secrets
from judges.models.redaction.digits import NumberFinder
from judges.models.redaction.found import SensitiveSpan, begins, ends
from judges.models.redaction.phones import spellings
from judges.models.redaction.plain import views

VERSION = 4
"""Raised with every change of what is found, since it can change verdicts."""

NATIONAL_IDS = ("ssn", "snils", "inn", "nino", "dni", "pesel", "steuer_id", "national_id")
ALL_KINDS = ("email", "phone", "card", "iban", "ip", *NATIONAL_IDS, "secret")

HEAVY_SHARE = 0.5
"""Share of an answer above which a judge that sees the rest of it cannot tell whether it is safe."""

_NUMBERS = frozenset({"phone", "card", "iban", "ip", *NATIONAL_IDS})
_PLACEHOLDER = re.compile(r"\[([A-Z][A-Z0-9_]{0,39})_([0-9]{1,6})\]")
_NAME = re.compile(r"[A-Za-z](?:[A-Za-z0-9_]{0,38}[A-Za-z0-9])?")
# Records whose criteria are asked at the same time; each entry holds the texts of one.
_RECENT = 64
# No text needs that many; a pattern that looks at its surroundings could ask for more.
_MAX_ROUNDS = 16
# Shorter pieces between two values hold nothing; the shortest address is a@b.cd.
_MIN_PIECE_CHARS = 6
# Random characters this long are the same secret wherever they stand, also inside a word.
_MIN_UNBOUND_CHARS = 16
_PREFIX_CHARS = 3
# Shorter numbers mean too many other things.
_MIN_NUMBER_CHARS = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Redacted:
    """Texts in which placeholders stand for values; nothing here tells the values."""

    texts: tuple[str, ...] = field(repr=False)
    counts: Mapping[str, int]
    """How many different values of each kind were replaced, however often each of them occurs."""

    values: tuple[frozenset[int], ...] = field(default=(), repr=False)
    """The values in each text, as numbers that are the same in all of these texts."""

    kinds: tuple[str, ...] = field(default=(), repr=False)
    """The kind of each of these numbers."""

    shares: tuple[float, ...] = field(default=(), repr=False)
    """The share of each text's characters that was replaced."""

    def counts_in(self, texts: Iterable[int]) -> Mapping[str, int]:
        """Return how many different values of each kind were replaced in the texts with these numbers."""
        if not self.kinds:
            return {}
        numbers = frozenset[int]().union(*(self.values[text] for text in texts))
        return dict(sorted(Counter(self.kinds[number] for number in numbers).items()))


class _SeenValue(NamedTuple):
    kind: str
    key: str


_Parts = list[str | _SeenValue]
"""A text in turns: what may be searched, what may not (a value, or what looked like a placeholder), and so on."""


class Redactor:
    """Finds values of these kinds, and what the custom patterns (name to regular expression) match.

    Within one call the same value has the same placeholder in all texts, also in another spelling: `[PHONE_1]`.
    Texts that already have such words keep them, and their numbers are not given to other values.
    """

    def __init__(
        self,
        kinds: Collection[str] = ALL_KINDS,
        custom: Mapping[str, str] | None = None,
        *,
        heavy_share: float = HEAVY_SHARE,
    ) -> None:
        check_number("heavy_share", heavy_share, least=0, most=1)
        self.heavy_share = heavy_share
        self._kinds = _checked_kinds(kinds)
        self._custom = {name.upper(): _checked_pattern(name, pattern) for name, pattern in (custom or {}).items()}
        if len(self._custom) < len(custom or {}):
            raise ValueError("custom: two names differ only in case")
        self._finders = tuple(self._plain_finders())
        # The criteria of one record come one after the other, and all judges of a panel share a redactor.
        self._redact_recent = lru_cache(maxsize=_RECENT)(self.redact)

    def __repr__(self) -> str:
        return f"Redactor({self.identity!r})"

    @property
    def identity(self) -> str:
        """Everything that can change what is replaced, in one line."""
        kinds = ",".join(kind for kind in ALL_KINDS if kind in self._kinds) or "none"
        rules = f"redaction/{VERSION} kinds={kinds} heavy_share={self.heavy_share:g}"
        if not self._custom:
            return rules
        patterns = repr(sorted((name, pattern.pattern) for name, pattern in self._custom.items()))
        return f"{rules} custom={hashlib.sha256(patterns.encode()).hexdigest()[:12]}"

    def redact(self, texts: Sequence[str]) -> Redacted:
        """The texts of one conversation, in order. A text without a value comes back as the same object."""
        if isinstance(texts, str):
            raise TypeError("texts must be a sequence of texts, not one text: write [text]")
        return self._redacted(texts, _taken(texts))

    def redact_once(self, texts: tuple[str, ...]) -> Redacted:
        """Like `redact`, and at once for texts that were redacted shortly before."""
        return self._redact_recent(texts)

    def redact_messages(self, messages: Sequence[ChatMessage]) -> tuple[list[ChatMessage], Mapping[str, int]]:
        """The messages of one conversation, and how many values of each kind were replaced in them.

        The model speaks of our placeholders, so that those in its own messages take no numbers: the same
        conversation keeps its numbers when it goes on with the model's reply.
        """
        taken = _taken(message.content for message in messages if message.role != "assistant")
        redacted = self._redacted([message.content for message in messages], taken)
        pairs = zip(messages, redacted.texts, strict=True)
        return [
            message if text is message.content else replace(message, content=text) for message, text in pairs
        ], redacted.counts

    def _redacted(self, texts: Sequence[str], taken: frozenset[str]) -> Redacted:
        cut = [_cut(text) for text in texts]
        found = self._search(cut)
        if not found:
            return Redacted(texts=tuple(texts), counts=MappingProxyType({}))
        names = _numbered(cut, taken)
        numbers = {value: number for number, value in enumerate(names)}
        counts = Counter(value.kind for value in names)
        return Redacted(
            texts=tuple(_written(text, parts, names) for text, parts in zip(texts, cut, strict=True)),
            counts=MappingProxyType(dict(sorted(counts.items()))),
            values=tuple(frozenset(numbers[part] for part in parts if isinstance(part, _SeenValue)) for parts in cut),
            kinds=tuple(value.kind for value in names),
            shares=tuple(_replaced_share(text, parts) for text, parts in zip(texts, cut, strict=True)),
        )

    def _search(self, cut: list[_Parts]) -> bool:
        """Puts values where they are found, until there are no more."""
        memory = _ConversationValues()
        for number in range(_MAX_ROUNDS):
            changed = [self._search_once(parts, memory) for parts in cut]
            if not any(changed):
                return number > 0
        return True

    def _search_once(self, parts: _Parts, memory: "_ConversationValues") -> bool:
        fresh: _Parts = []
        for part in parts:
            if isinstance(part, _SeenValue) or len(fresh) % 2:
                fresh.append(part)
            else:
                fresh += self._split(part, memory)
        changed = len(fresh) > len(parts)
        parts[:] = fresh
        return changed

    def _split(self, piece: str, memory: "_ConversationValues") -> _Parts:
        """The piece in turns: text, value, text."""
        if len(piece) < _MIN_PIECE_CHARS and not self._custom:
            return [piece]
        parts: _Parts = []
        at = 0
        for found in self._found(piece, memory):
            memory.add(found, piece[found.start : found.end])
            parts += [piece[at : found.start], _SeenValue(found.kind, found.key)]
            at = found.end
        return [*parts, piece[at:]]

    def _found(self, piece: str, memory: "_ConversationValues") -> Sequence[SensitiveSpan]:
        """What is in the piece, in order and without overlaps.

        A piece that was searched before can hold nothing but what was found elsewhere since.
        """
        found = list(memory.find(piece))
        is_searched = piece in memory.searched
        if is_searched and not memory.numbers:
            return _merged(piece, found)
        numbers = NumberFinder(kinds=self._kinds, known=memory.numbers, known_lengths=memory.lengths)
        for view in views(piece):
            for finder in (numbers.find,) if is_searched else (*self._finders, numbers.find):
                for hit in finder(view.text):
                    start, end = view.original(hit.start, hit.end)
                    found.append(SensitiveSpan(start, end, hit.kind, hit.key))
        if not found:
            memory.searched.add(piece)
        return _merged(piece, found)

    def _plain_finders(self) -> Iterator[Callable[[str], Iterable[SensitiveSpan]]]:
        """All but the one of numbers, which also asks for the numbers that are known."""
        for kind, find in (("email", find_emails), ("ip", find_ipv6), ("secret", find_secrets)):
            if kind in self._kinds:
                yield find
        for name, pattern in self._custom.items():
            yield _custom_finder(name, pattern)


class _ConversationValues:
    """The values of a conversation as they were written: what is a secret here is one there."""

    def __init__(self) -> None:
        self.numbers: dict[str, SensitiveSpan] = {}
        self.lengths: set[int] = set()
        self.searched: set[str] = set()
        """Pieces of texts without a value of their own."""

        self._by_prefix: dict[str, dict[str, SensitiveSpan]] = {}
        self._lengths: dict[str, set[int]] = {}
        self._first_chars = ""
        self._places = re.compile(r"(?!)")

    def add(self, found: SensitiveSpan, written: str) -> None:
        for digits in spellings(found.key) if found.kind in _NUMBERS else ():
            if len(digits) >= _MIN_NUMBER_CHARS and digits.isdecimal():
                self.numbers[digits] = found
                self.lengths.add(len(digits))
        if len(written) < _PREFIX_CHARS:
            return
        self._by_prefix.setdefault(written[:_PREFIX_CHARS], {})[written] = found
        self._lengths.setdefault(written[:_PREFIX_CHARS], set()).add(len(written))
        if written[0] not in self._first_chars:
            self._first_chars += written[0]
            self._places = re.compile(f"[{re.escape(self._first_chars)}]")

    def find(self, text: str) -> Iterator[SensitiveSpan]:
        if not self._by_prefix:
            return
        done = 0
        for match in self._places.finditer(text):
            start = match.start()
            written = self._written_at(text, start) if start >= done else None
            if written:
                done = start + len(written)
                found = self._by_prefix[written[:_PREFIX_CHARS]][written]
                yield SensitiveSpan(start, done, found.kind, found.key)

    def _written_at(self, text: str, start: int) -> str | None:
        """The longest value that stands here."""
        prefix = text[start : start + _PREFIX_CHARS]
        if prefix not in self._by_prefix:
            return None
        same = self._by_prefix[prefix]
        for length in sorted(self._lengths[prefix], reverse=True):
            written = text[start : start + length]
            if written in same and _stands_alone(text, start, start + length, same[written].kind):
                return written
        return None


def _stands_alone(text: str, start: int, end: int, kind: str) -> bool:
    if kind == "secret" and end - start >= _MIN_UNBOUND_CHARS:
        return True
    return begins(text, start) and ends(text, end)


def _merged(text: str, found: Iterable[SensitiveSpan]) -> list[SensitiveSpan]:
    """Of values in one another the outer one; two that overlap become one, so that no rest of either is left."""
    merged: list[SensitiveSpan] = []
    for hit in sorted(found, key=lambda hit: (hit.start, -hit.end)):
        if hit.end <= hit.start:
            continue
        last = merged[-1] if merged else None
        if last is None or hit.start >= last.end:
            merged.append(hit)
        elif hit.end > last.end:
            kind = max(last, hit, key=lambda one: one.end - one.start).kind
            merged[-1] = SensitiveSpan(last.start, hit.end, kind, text[last.start : hit.end])
    return merged


# Placeholders


def _taken(texts: Iterable[str]) -> frozenset[str]:
    """What the texts already have that looks like a placeholder."""
    return frozenset(match[0] for text in texts if "[" in text for match in _PLACEHOLDER.finditer(text))


def _cut(text: str) -> _Parts:
    """A text in turns: text, what looks like a placeholder, text."""
    parts: _Parts = []
    at = 0
    for match in _PLACEHOLDER.finditer(text) if "[" in text else ():
        parts += [text[at : match.start()], match[0]]
        at = match.end()
    return [*parts, text[at:] if at else text]


def _numbered(cut: Iterable[_Parts], taken: Collection[str]) -> Mapping[_SeenValue, str]:
    names: dict[_SeenValue, str] = {}
    last: Counter[str] = Counter()
    for parts in cut:
        for part in parts:
            if not isinstance(part, _SeenValue) or part in names:
                continue
            last[part.kind] += 1
            while f"[{part.kind.upper()}_{last[part.kind]}]" in taken:
                last[part.kind] += 1
            names[part] = f"[{part.kind.upper()}_{last[part.kind]}]"
    return names


def _written(text: str, parts: _Parts, names: Mapping[_SeenValue, str]) -> str:
    if not any(isinstance(part, _SeenValue) for part in parts):
        return text
    return "".join(names[part] if isinstance(part, _SeenValue) else part for part in parts)


def _replaced_share(text: str, parts: _Parts) -> float:
    kept = sum(len(part) for part in parts if isinstance(part, str))
    return 1.0 - kept / len(text) if text else 0.0


# Settings


def _checked_kinds(kinds: Collection[str]) -> frozenset[str]:
    if isinstance(kinds, str):
        raise TypeError(f"kinds must be a collection of names, not text: write [{kinds!r}]")
    chosen = frozenset(kinds)
    for kind in sorted(chosen.difference(ALL_KINDS)):
        raise ValueError(f"kinds: {kind!r}: {unknown('kind', kind, ALL_KINDS)}")
    return chosen


def _checked_pattern(name: str, pattern: str) -> re.Pattern[str]:
    if not _NAME.fullmatch(name):
        raise ValueError(f"custom: {name!r} must be a name of at most 40 letters, digits and underscores")
    if name.lower() in ALL_KINDS:
        raise ValueError(f"custom.{name}: this name is reserved; choose another")
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"custom.{name}: not a valid regular expression: {error}") from None
    if compiled.search(""):
        raise ValueError(f"custom.{name}: matches the empty text; it must match at least one character")
    return compiled


def _custom_finder(name: str, pattern: re.Pattern[str]) -> Callable[[str], Iterator[SensitiveSpan]]:
    def find(text: str) -> Iterator[SensitiveSpan]:
        return (SensitiveSpan(*match.span(), name, match[0]) for match in pattern.finditer(text))

    return find
