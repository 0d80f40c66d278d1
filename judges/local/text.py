"""Reading a text: cleaned of tricks, cut into sentences, each with its words, numbers and names."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

from judges.local.lexicon import Lexicon, Word
from judges.local.quantity import Facts, Quantity, Token, follows_number, quantities

# Normalising sorts the marks of a run in quadratic time, so that a hostile text must come in small pieces.
_NORMALISED_AT_ONCE = 256

# Every repetition has an upper bound, and words are matched whole or not at all (`+` after the bound): no input makes
# a search start over and over.
_WORD = r"[^\W\d_]{1,64}+(?:['’][^\W\d_]{1,20}+)?+"
_PLAIN = (
    r"(?P<label>[A-ZА-ЯЁ]{1,10}+-\d[\w-]{0,40})"
    rf"|(?P<word>{_WORD}(?!\d))"
    r"|(?P<date>(?<!\d)(?:\d{4}-\d{2}-\d{2}|\d{1,2}[./]\d{1,2}[./]\d{4})(?![\d.]))"
    r"|(?P<time>(?<!\d)\d{1,2}:\d{2}(?!\d|:\d))"
    r"|(?P<code>[^\W\d_]{1,64}+\d[\w-]{0,40}|\d{1,9}(?:\.\d{1,9}){2,6})"
    r"|(?P<number>\d{1,3}(?:[,\u00a0\u202f ]\d{3}){1,5}(?!\d)(?:\.\d{1,9})?|\d{1,40}(?:[.,]\d{1,9})?)"
)
_ADDRESS = r"(?P<address>(?:https?://|www\.)[^\s<>\"]{1,300}|[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4})"
_NOT_QUICK = re.compile(r"\d|@|://|www\.")
_QUICK_WORD = re.compile(_WORD)
_ARTICLES = frozenset({"a", "an", "one"})
_TOKEN = re.compile(_PLAIN)
_TOKEN_OR_ADDRESS = re.compile(f"{_ADDRESS}|{_PLAIN}")

_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\ufe00-\ufe0f\ufeff\U000e0000-\U000e007f]"
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_SPACES = re.compile(r"[^\S\n]+")
_CYRILLIC = re.compile("[\u0400-\u04ff]")
_TWO_SCRIPTS = re.compile(
    r"\b(?:[A-Za-z]{1,64}[\u0400-\u04ff]|[\u0400-\u04ff]{1,64}[A-Za-z])[A-Za-z\u0400-\u04ff]{0,64}"
)
_LOOKALIKES = ("aceopxykmthbABCEHKMOPTXY", "асеорхукмтнвАВСЕНКМОРТХУ")
_TO_CYRILLIC = str.maketrans(*_LOOKALIKES)
_TO_LATIN = str.maketrans(*reversed(_LOOKALIKES))

_BOUNDARY = re.compile(r"(?:(?<=[.!?…])|(?<=[.!?…][\"»”)']))\s+")
_MARKER = re.compile(r"(?:[-*•–—▪]|\d{1,2}[.)]|#{1,6})\s+")
_LAST_WORD = re.compile(r"([\w.-]{1,12})\.$")
_WORDY = frozenset({"word", "code"})
_CODES = frozenset({"address", "label"})
_OPENING = "\"'«“„(:*_`"


class Name(NamedTuple):
    text: str
    stem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    text: str
    words: tuple[str, ...]
    stems: tuple[str, ...]
    """One for each word."""

    content: frozenset[str]
    """The stems that say something about the subject."""

    units: frozenset[str]
    """The stems that are the units of numbers and say nothing without them."""

    quantities: tuple[Quantity, ...]
    bullet: bool
    """It stands in a list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A text that has been read."""

    sentences: tuple[Sentence, ...]
    content: frozenset[str]
    stems: frozenset[str]
    facts: Facts

    @property
    def words(self) -> int:
        return sum(len(sentence.words) for sentence in self.sentences)


def clean(text: str) -> str:
    """The text as a person sees it: without invisible characters, look-alike letters and exotic alphabets of digits."""
    if not text.isascii():
        text = _SURROGATE.sub("\ufffd", _INVISIBLE.sub("", text))
        if not unicodedata.is_normalized("NFKC", text):
            starts = range(0, len(text), _NORMALISED_AT_ONCE)
            text = "".join(unicodedata.normalize("NFKC", text[i : i + _NORMALISED_AT_ONCE]) for i in starts)
        text = _TWO_SCRIPTS.sub(_in_one_script, text)
    return _SPACES.sub(" ", text)


def _in_one_script(match: re.Match[str]) -> str:
    word = match[0]
    cyrillic = len(_CYRILLIC.findall(word)) * 2 >= len(word)
    return word.translate(_TO_CYRILLIC if cyrillic else _TO_LATIN)


def sentences_of(text: str, lexicon: Lexicon) -> Iterator[tuple[str, bool]]:
    """The sentences of a cleaned text, each with whether it stands in a list."""
    for line in text.split("\n"):
        stripped = line.strip()
        marker = _MARKER.match(stripped)
        if marker:
            stripped = stripped[marker.end() :]
        for sentence in _split(stripped, lexicon):
            yield sentence, marker is not None


def _split(line: str, lexicon: Lexicon) -> Iterator[str]:
    held: list[str] = []
    for piece in _BOUNDARY.split(line):
        if held and not _ends(held[-1], piece, lexicon):
            held.append(piece)
            continue
        if held:
            yield " ".join(held)
        held = [piece] if piece else []
    if held:
        yield " ".join(held)


def _ends(piece: str, following: str, lexicon: Lexicon) -> bool:
    """Whether the full stop at the end of the piece ends a sentence."""
    last = _LAST_WORD.search(piece[-13:])
    word = last[1].lower() if last else ""
    if word in lexicon.abbreviations:
        return False
    return not (word in lexicon.abbreviations_before_lower and (following[:1].islower() or following[:1].isdigit()))


def read(text: str, lexicon: Lexicon) -> Passage:
    """Everything the assessors ask of a cleaned text."""
    found = tuple(_sentence(sentence, bullet, lexicon) for sentence, bullet in sentences_of(text, lexicon))
    facts = Facts()
    for sentence in found:
        facts.add(sentence.quantities)
    return Passage(
        sentences=found,
        content=frozenset().union(*(sentence.content for sentence in found)),
        stems=frozenset().union(*(sentence.stems for sentence in found)),
        facts=facts,
    )


def _sentence(text: str, bullet: bool, lexicon: Lexicon) -> Sentence:
    words, stated, units = _quick(text, lexicon) or _thorough(text, lexicon)
    return Sentence(
        text=text,
        words=tuple([word.text for word in words]),
        stems=tuple([word.stem for word in words]),
        content=frozenset([word.stem for word in words if word.content]),
        units=units,
        quantities=stated,
        bullet=bullet,
    )


class _Found(NamedTuple):
    words: list[Word]
    quantities: tuple[Quantity, ...]
    units: frozenset[str]


def _quick(text: str, lexicon: Lexicon) -> _Found | None:
    """The words of a sentence without numbers, which most are; None when it must be read token by token."""
    if _NOT_QUICK.search(text):
        return None
    known, look = lexicon.known, lexicon.look
    words = [known.get(raw) or look(raw) for raw in _QUICK_WORD.findall(text)]
    for word, following in zip_longest(words, words[1:]):
        # "a" is a number only before a unit.
        if word.number is not None and (word.text not in _ARTICLES or (following and following.unit)):
            return None
    return _Found(words, (), frozenset())


def _thorough(text: str, lexicon: Lexicon) -> _Found:
    tokens = _tokens(text, lexicon)
    months = [lexicon.sign(sign) for token in tokens if token.kind == "date" for sign in _months(token.raw)]
    words = [token.word for token in tokens if token.kind in _WORDY]
    units = frozenset(
        token.word.stem
        for place, token in enumerate(tokens)
        if token.word.unit and follows_number(tokens, place, lexicon)
    )
    return _Found(words + months, tuple(quantities(tokens, text, lexicon)), units)


def _tokens(text: str, lexicon: Lexicon) -> list[Token]:
    pattern = _TOKEN_OR_ADDRESS if "@" in text or "://" in text or "www." in text else _TOKEN
    known, look, found = lexicon.known, lexicon.look, []
    for match in pattern.finditer(text):
        kind, raw = match.lastgroup or "word", match[0]
        if kind in _CODES:
            kind, raw = "code", raw.rstrip(".,;:!?)")
        start, end = match.span()
        found.append(Token(kind, raw, start, end, known.get(raw) or look(raw)))
    return found


def names_of(sentence: Sentence, lexicon: Lexicon) -> Iterator[Name]:
    """What must be found to be believed: names, abbreviations, codes, addresses, months and days."""
    text = sentence.text
    tokens = _tokens(text, lexicon)
    shouted = text.isupper() and len(tokens) > 2
    for place, token in enumerate(tokens):
        if token.kind == "code":
            yield Name(token.raw, token.word.stem)
        elif token.kind == "date":
            yield from (Name(token.raw, sign) for sign in _months(token.raw))
        elif token.kind == "word" and not shouted and _is_name(tokens, place, text):
            yield Name(token.raw, token.word.stem)


def _is_name(tokens: Sequence[Token], place: int, text: str) -> bool:
    word, start = tokens[place].word, tokens[place].start
    if word.calendar or word.special:
        return word.calendar or word.content
    if not word.content or not word.capital or place == 0:
        return False
    # The first word of a sentence or of a quotation has its capital from there.
    return text[start - 1] not in _OPENING and text[start - 2 : start - 1] not in _OPENING


def _months(raw: str) -> Iterator[str]:
    """The month of a date in figures, as the sign that its name has."""
    month = int(raw.replace("/", "-").replace(".", "-").split("-")[1])
    if 1 <= month <= 12:
        yield f"#month{month}"
