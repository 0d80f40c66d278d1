"""Reads a text: removes tricks and splits it into sentences."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from judges.local.language.quantity import QuantityFacts
from judges.local.language.sentence import CACHED_SENTENCES, SHORT, Sentence, forget_sentences, sentence_of
from judges.local.lexicon import Lexicon

# Normalising sorts runs of combining marks in quadratic time, so a hostile text must be normalised in small pieces.
NORMALISED_AT_ONCE = 256

INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\ufe00-\ufe0f\ufeff\U000e0000-\U000e007f]"
)
_SURROGATE = re.compile("[\ud800-\udfff]")
SPACES = re.compile(r"[^\S\n]+")
_ODD_SPACE = re.compile(r"[^\S\n ]")
_CYRILLIC = re.compile("[\u0400-\u04ff]")
_TWO_SCRIPTS = re.compile(
    r"\b(?:[A-Za-z]{1,64}[\u0400-\u04ff]|[\u0400-\u04ff]{1,64}[A-Za-z])[A-Za-z\u0400-\u04ff]{0,64}"
)
_TOUCHING = re.compile("[A-Za-z](?:(?=[\u0400-\u04ff])|(?<=[\u0400-\u04ff].))")
_LOOKALIKES = ("aceopxykmthbABCEHKMOPTXY", "асеорхукмтнвАВСЕНКМОРТХУ")
_TO_CYRILLIC = str.maketrans(*_LOOKALIKES)
_TO_LATIN = str.maketrans(*reversed(_LOOKALIKES))

_BOUNDARY = re.compile(r"[.!?…][\"»”)']?(?:\[[\d, ]{1,12}\]){0,5}(\s+)")
_MARKER = re.compile(r"(?:[-*•–—▪]|\d{1,2}[.)]|#{1,6})\s+")
_LAST_WORD = re.compile(r"([\w.-]{1,12})\.$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A text after reading."""

    sentences: tuple[Sentence, ...]
    content: frozenset[str]
    stems: frozenset[str]
    facts: QuantityFacts

    @property
    def words(self) -> int:
        return sum(len(sentence.words) for sentence in self.sentences)


def clean(text: str) -> str:
    """Return the text as a person sees it: without invisible characters, look-alike letters and exotic digits."""
    if not text.isascii():
        text = _SURROGATE.sub("\ufffd", INVISIBLE.sub("", text))
        if not unicodedata.is_normalized("NFKC", text):
            starts = range(0, len(text), NORMALISED_AT_ONCE)
            text = "".join(unicodedata.normalize("NFKC", text[i : i + NORMALISED_AT_ONCE]) for i in starts)
        if scripts_touch(text):
            text = _TWO_SCRIPTS.sub(_in_one_script, text)
    return SPACES.sub(" ", text) if "  " in text or _ODD_SPACE.search(text) else text


def scripts_touch(text: str) -> bool:
    """Return whether a Latin letter is next to a Cyrillic one, which is rare."""
    return not text.isascii() and _TOUCHING.search(text) is not None


def _in_one_script(match: re.Match[str]) -> str:
    word = match[0]
    cyrillic = len(_CYRILLIC.findall(word)) * 2 >= len(word)
    return word.translate(_TO_CYRILLIC if cyrillic else _TO_LATIN)


def sentences_of(text: str, lexicon: Lexicon) -> Iterator[tuple[str, bool]]:
    """Yield the sentences of a cleaned text, each with whether it is in a list."""
    for line in text.split("\n"):
        stripped = line.strip()
        marker = _MARKER.match(stripped)
        if marker:
            stripped = stripped[marker.end() :]
        for sentence in _split_line(stripped, lexicon):
            yield sentence, marker is not None


def _split_line(line: str, lexicon: Lexicon) -> Iterator[str]:
    sentence: list[str] = []
    for piece in _pieces(line):
        if sentence and not _ends_sentence(sentence[-1], piece, lexicon):
            sentence.append(piece)
            continue
        if sentence:
            yield " ".join(sentence)
        sentence = [piece] if piece else []
    if sentence:
        yield " ".join(sentence)


def _pieces(line: str) -> Iterator[str]:
    start = 0
    for match in _BOUNDARY.finditer(line):
        yield line[start : match.start(1)]
        start = match.end()
    yield line[start:]


def _ends_sentence(piece: str, following: str, lexicon: Lexicon) -> bool:
    """Return whether the full stop at the end of the piece ends a sentence."""
    last = _LAST_WORD.search(piece[-13:]) if piece.endswith(".") else None
    word = last[1].lower() if last else ""
    if word in lexicon.abbreviations:
        return False
    return not (word in lexicon.abbreviations_before_lower and (following[:1].islower() or following[:1].isdigit()))


def read(text: str, lexicon: Lexicon) -> Passage:
    """Return everything that the assessors need of a cleaned text."""
    return _read_cached(text, lexicon) if len(text) <= SHORT else _read(text, lexicon)


@lru_cache(maxsize=CACHED_SENTENCES)
def _read_cached(text: str, lexicon: Lexicon) -> Passage:
    """Cache questions and clauses: like sentences, they recur, several times within one case."""
    return _read(text, lexicon)


def forget() -> None:
    """Clear the caches of texts and sentences."""
    _read_cached.cache_clear()
    forget_sentences()


def _read(text: str, lexicon: Lexicon) -> Passage:
    return passage_of(*[sentence_of(sentence, bullet, lexicon) for sentence, bullet in sentences_of(text, lexicon)])


def passage_of(*sentences: Sentence) -> Passage:
    facts = QuantityFacts()
    for sentence in sentences:
        facts.add(sentence.quantities)
    return Passage(
        sentences=sentences,
        content=frozenset().union(*(sentence.content for sentence in sentences)),
        stems=frozenset().union(*(sentence.stem_set for sentence in sentences)),
        facts=facts,
    )
