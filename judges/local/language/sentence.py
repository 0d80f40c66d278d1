"""One sentence with its words, numbers, names and other properties, each computed once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import compress, zip_longest
from typing import NamedTuple

from judges.local.language.counts import BEFORE_ONE, find_counts
from judges.local.language.denial import find_denied
from judges.local.language.phrases import PhraseMatch
from judges.local.language.quantity import NumberToken, Quantity, follows_number, quantities
from judges.local.language.references import comparable
from judges.local.language.tokens import months_of, plain_words, tokens_of
from judges.local.lexicon import Lexicon, Word

# Number of cached sentences, and the maximum length of one: at most some 25 MB, if all were that long and full of
# numbers.
CACHED_SENTENCES = 2048
SHORT = 300

_ARTICLES = frozenset({"a", "an", "one"})
_WORDY = frozenset({"word", "code"})
_OPENING = "\"'«“„(:*_`"


class Name(NamedTuple):
    text: str
    stem: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Sentence:
    text: str
    lexicon: Lexicon
    bullet: bool
    """Whether it is an item of a list."""

    words: tuple[str, ...] = ()
    stems: tuple[str, ...] = ()
    """The stem of each word."""

    stem_set: frozenset[str] = frozenset()
    content: frozenset[str] = frozenset()
    """The stems that say something about the subject."""

    units: frozenset[str] = frozenset()
    """The stems that are units of numbers, and say nothing without them."""

    quantities: tuple[Quantity, ...] = ()
    tokens: tuple[NumberToken, ...] | None = None
    """None if the sentence consists of words only."""

    may_name: bool = False
    """Whether it has a word that looks like a name."""

    @cached_property
    def names(self) -> tuple[Name, ...]:
        """Words that need support by name: names, abbreviations, codes, addresses, months and days."""
        if not self.may_name:
            return ()
        text = comparable(self.text)
        return tuple(_names(text, self.tokens or tokens_of(text, self.lexicon)))

    @cached_property
    def counts(self) -> tuple[tuple[str, str], ...]:
        """The things that it counts: the number and the stem of the word for them ("two small moons")."""
        return tuple(find_counts(self.tokens, self.quantities)) if self.tokens else ()

    @cached_property
    def denied(self) -> list[str]:
        """The stems that a "not" applies to, which may also be part of a code ("NOT-5")."""
        codes = any(token.kind == "code" for token in self.tokens or ())
        if not codes and self.lexicon.negation.isdisjoint(self.words):
            return []
        return find_denied(self.text, self.lexicon)

    @cached_property
    def core(self) -> frozenset[str]:
        """The stems about the subject, including verbs that say little without it."""
        return self.content | (self.lexicon.predicates & self.stem_set)

    @cached_property
    def exclusive(self) -> tuple[frozenset[str], ...]:
        """The groups of mutually exclusive words ("weekly", "monthly") of which the sentence has one."""
        if self.lexicon.exclusive_stems.isdisjoint(self.stem_set):
            return ()
        return tuple(group for group in self.lexicon.exclusive if not group.isdisjoint(self.stem_set))

    @cached_property
    def negative(self) -> tuple[str, ...]:
        """The stems that begin with a negating prefix ("invalid")."""
        return tuple(stem for stem in self.content if stem.startswith(self.lexicon.negating_prefixes))

    @cached_property
    def states_figures(self) -> bool:
        return any(not quantity.soft for quantity in self.quantities)

    @cached_property
    def refuses(self) -> bool:
        return self.lexicon.refusal.matches(self.words)

    @cached_property
    def polite(self) -> bool:
        return self.lexicon.courtesy.matches(self.words)

    @cached_property
    def opens(self) -> bool:
        """Whether it is a conversational opening ("Sure, ...")."""
        return self.lexicon.opener.matches(self.words)

    @cached_property
    def filler(self) -> list[PhraseMatch]:
        return self.lexicon.filler.find(self.words)


def sentence_of(text: str, bullet: bool, lexicon: Lexicon) -> Sentence:
    return _read_cached(text, bullet, lexicon) if len(text) <= SHORT else _read(text, bullet, lexicon)


@lru_cache(maxsize=CACHED_SENTENCES)
def _read_cached(text: str, bullet: bool, lexicon: Lexicon) -> Sentence:
    """Cache the latest sentences: answers quote their sources and repeat the same courtesies."""
    return _read(text, bullet, lexicon)


def forget_sentences() -> None:
    """Clear the cache of sentences."""
    _read_cached.cache_clear()


def _read(text: str, bullet: bool, lexicon: Lexicon) -> Sentence:
    comparable_text = comparable(text)
    return _read_words(text, comparable_text, bullet, lexicon) or _read_tokens(text, comparable_text, bullet, lexicon)


def _read_words(text: str, comparable_text: str, bullet: bool, lexicon: Lexicon) -> Sentence | None:
    """Read a sentence without numbers, as most are; return None if it must be read token by token."""
    raw_words = plain_words(comparable_text)
    if raw_words is None:
        return None
    examined, look_up = lexicon.examined, lexicon.look_up
    lexicon_words = [examined.get(raw) or look_up(raw) for raw in raw_words]
    if not lexicon_words:
        return Sentence(text=text, lexicon=lexicon, bullet=bullet)
    words, stems, content, calendar, capital, special, numbers, _, _ = zip(*lexicon_words, strict=True)
    if numbers.count(None) < len(numbers) and _has_number(lexicon_words):
        return None
    return Sentence(
        text=text,
        lexicon=lexicon,
        bullet=bullet,
        words=words,
        stems=stems,
        stem_set=frozenset(stems),
        content=frozenset(compress(stems, content)),
        may_name=any(capital[1:]) or any(special) or any(calendar),
    )


def _has_number(words: Sequence[Word]) -> bool:
    """Return whether a word is a number; "a" is one only before a unit, and "one" also after "just"."""
    return any(
        word.number is not None
        and (word.text not in _ARTICLES or (following and following.unit) or (before and before.text in BEFORE_ONE))
        for before, word, following in zip_longest([None, *words[:-1]], words, words[1:])
    )


def _read_tokens(text: str, comparable_text: str, bullet: bool, lexicon: Lexicon) -> Sentence:
    tokens = tokens_of(comparable_text, lexicon)
    months = [lexicon.calendar_word(sign) for token in tokens if token.kind == "date" for sign in months_of(token.raw)]
    words = [token.word for token in tokens if token.kind in _WORDY] + months
    stems = tuple([word.stem for word in words])
    units = [
        token.word.stem
        for place, token in enumerate(tokens)
        if token.word.unit and follows_number(tokens, place, lexicon)
    ]
    return Sentence(
        text=text,
        lexicon=lexicon,
        bullet=bullet,
        words=tuple([word.text for word in words]),
        stems=stems,
        stem_set=frozenset(stems),
        content=frozenset([word.stem for word in words if word.content]),
        units=frozenset(units),
        quantities=tuple(quantities(tokens, comparable_text, lexicon)),
        tokens=tuple(tokens),
        may_name=True,
    )


def _names(text: str, tokens: Sequence[NumberToken]) -> Iterator[Name]:
    shouted = text.isupper() and len(tokens) > 2
    for place, token in enumerate(tokens):
        if token.kind == "code":
            yield Name(token.raw, token.word.stem)
        elif token.kind == "date":
            yield from (Name(token.raw, sign) for sign in months_of(token.raw))
        elif token.kind == "word" and not shouted and _is_name(tokens, place, text):
            yield Name(token.raw, token.word.stem)


def _is_name(tokens: Sequence[NumberToken], place: int, text: str) -> bool:
    word, start = tokens[place].word, tokens[place].start
    if word.calendar or word.special:
        return word.calendar or word.content
    if not word.content or not word.capital or place == 0:
        return False
    # The first word of a sentence or of a quotation has a capital anyway.
    return text[start - 1] not in _OPENING and text[start - 2 : start - 1] not in _OPENING
