"""Replaces personal data and secrets in texts by placeholders, which distinguish values without revealing them.

redact ── split each text at passages that already look like a placeholder
       ── search all pieces until no more values are found: a value that was found once is replaced everywhere
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
from judges.models.redaction.plain import count_letters, views
from judges.models.redaction.span import SensitiveSpan, can_begin, can_end

VERSION = 5
"""Increased with every change to the rules, because they can change verdicts."""

NATIONAL_IDS = ("ssn", "snils", "inn", "nino", "dni", "pesel", "steuer_id", "national_id")
ALL_KINDS = ("email", "phone", "card", "iban", "ip", *NATIONAL_IDS, "secret")

HEAVY_SHARE = 0.5
"""Redacted share of an answer's letters and digits above which a judge cannot decide whether it is safe."""

_NUMBERS = frozenset({"phone", "card", "iban", "ip", *NATIONAL_IDS})
_PLACEHOLDER = re.compile(r"\[([A-Z][A-Z0-9_]{0,39})_([0-9]{1,6})\]")
_NAME = re.compile(r"[A-Za-z](?:[A-Za-z0-9_]{0,38}[A-Za-z0-9])?")
# Records that are judged at the same time; each entry holds the texts of one.
_RECENT = 64
# No text needs this many; a pattern that depends on its surroundings could need more.
_MAX_ROUNDS = 16
# Shorter pieces between two values contain no value; the shortest address is a@b.cd.
_MIN_PIECE_CHARS = 6
# Random characters of this length are the same secret everywhere, even inside a word.
_MIN_UNBOUND_CHARS = 16
_PREFIX_CHARS = 3
# Shorter numbers have too many other meanings.
_MIN_NUMBER_CHARS = 7


class LetterCounts(NamedTuple):
    """The letters and digits of a text: spaces, invisible characters and rows of dots are no text to judge."""

    replaced: int
    shown: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Redacted:
    """Texts with placeholders for values; nothing here reveals the values."""

    texts: tuple[str, ...] = field(repr=False)
    counts: Mapping[str, int]
    """Number of different values replaced, by kind, however often each of them occurs."""

    values: tuple[frozenset[int], ...] = field(default=(), repr=False)
    """The values in each text, as numbers that are the same in all texts."""

    kinds: tuple[str, ...] = field(default=(), repr=False)
    """The kind of each of these numbers."""

    letters: tuple[LetterCounts, ...] = field(default=(), repr=False)
    """How many letters and digits of each text were replaced and are shown; empty if nothing was replaced."""

    def counts_in(self, texts: Iterable[int]) -> Mapping[str, int]:
        """Return the number of different values that were replaced in the texts with these numbers, by kind."""
        if not self.kinds:
            return {}
        numbers = frozenset[int]().union(*(self.values[text] for text in texts))
        return dict(sorted(Counter(self.kinds[number] for number in numbers).items()))


class _SeenValue(NamedTuple):
    kind: str
    key: str


_Parts = list[str | _SeenValue]
"""A text in parts that alternate: text to search, then a value or an existing placeholder, and so on."""


class Redactor:
    """Replaces values of these kinds, and matches of the custom patterns (name to regular expression).

    Within one call the same value has the same placeholder in all texts, even in another spelling: `[PHONE_1]`.
    Texts that already contain such placeholders keep them, and no other value gets their numbers.
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
        self._kinds = _check_kinds(kinds)
        self._custom = {name.upper(): _compile_custom(name, pattern) for name, pattern in (custom or {}).items()}
        if len(self._custom) < len(custom or {}):
            raise ValueError("custom: two names differ only in case")
        self._finders = tuple(self._plain_finders())
        # The criteria of one record are judged one after the other, and all judges of a panel share a redactor.
        self._redact_recent = lru_cache(maxsize=_RECENT)(self.redact)

    def __repr__(self) -> str:
        return f"Redactor({self.identity!r})"

    @property
    def identity(self) -> str:
        """Everything that can change the redaction, in one line."""
        kinds = ",".join(kind for kind in ALL_KINDS if kind in self._kinds) or "none"
        rules = f"redaction/{VERSION} kinds={kinds} heavy_share={self.heavy_share:g}"
        if not self._custom:
            return rules
        patterns = repr(sorted((name, pattern.pattern) for name, pattern in self._custom.items()))
        return f"{rules} custom={hashlib.sha256(patterns.encode()).hexdigest()[:12]}"

    def redact(self, texts: Sequence[str]) -> Redacted:
        """Redact the texts of one conversation, in order. A text without a value is returned as the same object."""
        if isinstance(texts, str):
            raise TypeError("texts must be a sequence of texts, not one text: write [text]")
        return self._redact(texts, _placeholders_in(texts))

    def redact_once(self, texts: tuple[str, ...]) -> Redacted:
        """Return the same as `redact`, from a cache if the texts were redacted recently."""
        return self._redact_recent(texts)

    def redact_messages(self, messages: Sequence[ChatMessage]) -> tuple[list[ChatMessage], Mapping[str, int]]:
        """Redact the messages of one conversation; also return the number of replaced values, by kind.

        Placeholders in the messages of the model are ours, so they do not reserve their numbers: a conversation keeps
        its numbers when it continues after a reply.
        """
        taken = _placeholders_in(message.content for message in messages if message.role != "assistant")
        redacted = self._redact([message.content for message in messages], taken)
        pairs = zip(messages, redacted.texts, strict=True)
        return [
            message if text is message.content else replace(message, content=text) for message, text in pairs
        ], redacted.counts

    def _redact(self, texts: Sequence[str], taken: frozenset[str]) -> Redacted:
        all_parts = [_split_at_placeholders(text) for text in texts]
        if not self._search(all_parts):
            return Redacted(texts=tuple(texts), counts=MappingProxyType({}))
        names = _name_values(all_parts, taken)
        numbers = {value: number for number, value in enumerate(names)}
        counts = Counter(value.kind for value in names)
        return Redacted(
            texts=tuple(_join(text, parts, names) for text, parts in zip(texts, all_parts, strict=True)),
            counts=MappingProxyType(dict(sorted(counts.items()))),
            values=tuple(
                frozenset(numbers[part] for part in parts if isinstance(part, _SeenValue)) for parts in all_parts
            ),
            kinds=tuple(value.kind for value in names),
            letters=tuple(_count_letters(text, parts) for text, parts in zip(texts, all_parts, strict=True)),
        )

    def _search(self, all_parts: list[_Parts]) -> bool:
        """Split the texts at their values until no more are found; return whether there were any."""
        memory = _ConversationValues()
        for number in range(_MAX_ROUNDS):
            changed = [self._search_once(parts, memory) for parts in all_parts]
            if not any(changed):
                return number > 0
        return True

    def _search_once(self, parts: _Parts, memory: "_ConversationValues") -> bool:
        new_parts: _Parts = []
        for part in parts:
            if isinstance(part, _SeenValue) or len(new_parts) % 2:
                new_parts.append(part)
            else:
                new_parts += self._split_at_values(part, memory)
        changed = len(new_parts) > len(parts)
        parts[:] = new_parts
        return changed

    def _split_at_values(self, piece: str, memory: "_ConversationValues") -> _Parts:
        """Return the piece as text, value, text and so on."""
        if len(piece) < _MIN_PIECE_CHARS and not self._custom:
            return [piece]
        parts: _Parts = []
        position = 0
        for span in self._find_spans(piece, memory):
            memory.add(span, piece[span.start : span.end])
            parts += [piece[position : span.start], _SeenValue(span.kind, span.key)]
            position = span.end
        return [*parts, piece[position:]]

    def _find_spans(self, piece: str, memory: "_ConversationValues") -> Sequence[SensitiveSpan]:
        """Return the values in the piece, in order and without overlaps.

        A piece that was searched before can only contain values that were found elsewhere since.
        """
        spans = list(memory.find(piece))
        is_searched = piece in memory.searched
        if is_searched and not memory.numbers:
            return _merge(piece, spans)
        from judges.models.redaction.digits import NumberFinder  # noqa: PLC0415 - most programs redact nothing

        numbers = NumberFinder(kinds=self._kinds, known_numbers=memory.numbers, known_lengths=memory.lengths)
        for view in views(piece):
            for finder in (numbers.find,) if is_searched else (*self._finders, numbers.find):
                for span in finder(view.text):
                    start, end = view.original(span.start, span.end)
                    spans.append(SensitiveSpan(start, end, span.kind, span.key))
        if not spans:
            memory.searched.add(piece)
        return _merge(piece, spans)

    def _plain_finders(self) -> Iterator[Callable[[str], Iterable[SensitiveSpan]]]:
        """Yield all finders except that for numbers, which also needs the known numbers."""
        for kind, find in (("email", find_emails), ("ip", find_ipv6), ("secret", find_secrets)):
            if kind in self._kinds:
                yield find
        for name, pattern in self._custom.items():
            yield _custom_finder(name, pattern)


class _ConversationValues:
    """The values of a conversation in their notations: a secret in one place is a secret everywhere."""

    def __init__(self) -> None:
        self.numbers: dict[str, SensitiveSpan] = {}
        self.lengths: set[int] = set()
        self.searched: set[str] = set()
        """Pieces in which a search found no value."""

        self._by_prefix: dict[str, dict[str, SensitiveSpan]] = {}
        self._lengths: dict[str, set[int]] = {}
        self._first_chars = ""
        self._starts = re.compile(r"(?!)")

    def add(self, span: SensitiveSpan, spelling: str) -> None:
        from judges.models.redaction.phones import spellings  # noqa: PLC0415 - as above

        for digits in spellings(span.key) if span.kind in _NUMBERS else ():
            if len(digits) >= _MIN_NUMBER_CHARS and digits.isdecimal():
                self.numbers[digits] = span
                self.lengths.add(len(digits))
        if len(spelling) < _PREFIX_CHARS:
            return
        self._by_prefix.setdefault(spelling[:_PREFIX_CHARS], {})[spelling] = span
        self._lengths.setdefault(spelling[:_PREFIX_CHARS], set()).add(len(spelling))
        if spelling[0] not in self._first_chars:
            self._first_chars += spelling[0]
            self._starts = re.compile(f"[{re.escape(self._first_chars)}]")

    def find(self, text: str) -> Iterator[SensitiveSpan]:
        if not self._by_prefix:
            return
        position = 0
        for match in self._starts.finditer(text):
            start = match.start()
            spelling = self._longest_at(text, start) if start >= position else None
            if spelling:
                position = start + len(spelling)
                span = self._by_prefix[spelling[:_PREFIX_CHARS]][spelling]
                yield SensitiveSpan(start, position, span.kind, span.key)

    def _longest_at(self, text: str, start: int) -> str | None:
        """Return the longest value that begins here."""
        prefix = text[start : start + _PREFIX_CHARS]
        if prefix not in self._by_prefix:
            return None
        same_prefix = self._by_prefix[prefix]
        for length in sorted(self._lengths[prefix], reverse=True):
            spelling = text[start : start + length]
            if spelling in same_prefix and _stands_alone(text, start, start + length, same_prefix[spelling].kind):
                return spelling
        return None


def _stands_alone(text: str, start: int, end: int, kind: str) -> bool:
    if kind == "secret" and end - start >= _MIN_UNBOUND_CHARS:
        return True
    return can_begin(text, start) and can_end(text, end)


def _merge(text: str, spans: Iterable[SensitiveSpan]) -> list[SensitiveSpan]:
    """Keep the outer one of nested spans, and merge spans that overlap, so that no part of either stays in the text."""
    merged: list[SensitiveSpan] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if span.end <= span.start:
            continue
        last = merged[-1] if merged else None
        if last is None or span.start >= last.end:
            merged.append(span)
        elif span.end > last.end:
            kind = max(last, span, key=lambda one: one.end - one.start).kind
            merged[-1] = SensitiveSpan(last.start, span.end, kind, text[last.start : span.end])
    return merged


# Placeholders


def _placeholders_in(texts: Iterable[str]) -> frozenset[str]:
    """Return the passages of the texts that already look like a placeholder."""
    return frozenset(match[0] for text in texts if "[" in text for match in _PLACEHOLDER.finditer(text))


def _split_at_placeholders(text: str) -> _Parts:
    """Return a text as text, existing placeholder, text and so on."""
    parts: _Parts = []
    position = 0
    for match in _PLACEHOLDER.finditer(text) if "[" in text else ():
        parts += [text[position : match.start()], match[0]]
        position = match.end()
    return [*parts, text[position:] if position else text]


def _name_values(all_parts: Iterable[_Parts], taken: Collection[str]) -> Mapping[_SeenValue, str]:
    names: dict[_SeenValue, str] = {}
    last: Counter[str] = Counter()
    for parts in all_parts:
        for part in parts:
            if not isinstance(part, _SeenValue) or part in names:
                continue
            last[part.kind] += 1
            while f"[{part.kind.upper()}_{last[part.kind]}]" in taken:
                last[part.kind] += 1
            names[part] = f"[{part.kind.upper()}_{last[part.kind]}]"
    return names


def _join(text: str, parts: _Parts, names: Mapping[_SeenValue, str]) -> str:
    if not any(isinstance(part, _SeenValue) for part in parts):
        return text
    return "".join(names[part] if isinstance(part, _SeenValue) else part for part in parts)


def _count_letters(text: str, parts: _Parts) -> LetterCounts:
    shown = sum(count_letters(part) for part in parts if isinstance(part, str))
    is_redacted = any(isinstance(part, _SeenValue) for part in parts)
    # A value of a custom pattern may have no letters, and be all of a text.
    return LetterCounts(max(count_letters(text) - shown, 1) if is_redacted else 0, shown)


# Settings


def _check_kinds(kinds: Collection[str]) -> frozenset[str]:
    if isinstance(kinds, str):
        raise TypeError(f"kinds must be a collection of names, not text: write [{kinds!r}]")
    chosen = frozenset(kinds)
    for kind in sorted(chosen.difference(ALL_KINDS)):
        raise ValueError(f"kinds: {kind!r}: {unknown('kind', kind, ALL_KINDS)}")
    return chosen


def _compile_custom(name: str, pattern: str) -> re.Pattern[str]:
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
