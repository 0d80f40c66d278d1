"""The words that the local judge knows, read once from its YAML files."""

import functools
import hashlib
from collections.abc import Iterable, Mapping
from importlib import resources
from typing import Any, NamedTuple

from judges.criteria.strict_yaml import read_shipped
from judges.local.language.phrases import PhraseIndex
from judges.local.language.stem import stem

_FILES = ("words.yaml", "harm.yaml", "fitted.yaml")
_CACHED_WORDS = 50_000


class Unit(NamedTuple):
    base: str
    factor: float


class Word(NamedTuple):
    """One word as the assessors compare it."""

    text: str
    """Lower case, with е for ё and a straight apostrophe."""

    stem: str
    """The same for all forms of the word and for its synonyms."""

    content: bool
    """Whether it says something about the subject."""

    calendar: bool
    """Whether it is a month or a day of the week."""

    capital: bool
    """Whether its first letter is a capital."""

    special: bool
    """Whether it looks like an abbreviation or a product name (VAT, iPhone)."""

    number: float | None
    scale: float | None
    unit: Unit | None


def _text_of(name: str) -> str:
    return resources.files("judges.local").joinpath(name).read_text(encoding="utf-8")


def read_yaml(name: str) -> Mapping[str, Any]:
    """Return one of the shipped files."""
    content: Mapping[str, Any] = read_shipped(_text_of(name))
    return content


def plain(word: str) -> str:
    return word.lower().replace("ё", "е").replace("’", "'")


class Lexicon:
    """Stop words, synonyms, units and phrases of both languages."""

    def __init__(self, words: Mapping[str, Any], harm: Mapping[str, Any], digest: str) -> None:
        self.digest = digest
        self.harm = harm
        self._stop = frozenset(plain(word) for text in words["stop"].values() for word in text.split())
        self._irregular: Mapping[str, str] = words["irregular"]
        self._same: dict[str, str] = {}
        self._same = {key: f"={group[0]}" for group in self._groups(words["same"]) for key in group}
        self._calendar = _calendar(words)
        self._numbers = _index_spellings(words["numbers"])
        self._scales = _index_spellings(words["scales"])
        self.units = {
            word: Unit(entry["base"], float(entry["factor"]))
            for entry in words["units"]
            for word in entry["words"].split()
        }
        self.unit_stems = frozenset(map(self._key, self.units))
        self.between = frozenset(words["between"].split())
        self.exclusive = tuple(frozenset(group) for group in self._groups(words["exclusive"]))
        self.exclusive_stems = frozenset().union(*self.exclusive)
        self.measures = [(PhraseIndex(entry["asked"]), frozenset(entry["bases"])) for entry in words["measures"]]
        self.negation = frozenset(word for text in words["negation"].values() for word in text.split())
        self.predicates = frozenset(self._key(word) for word in words["predicates"].split())
        self.comparing = frozenset(words["comparing"].split())
        self.auxiliary = frozenset(words["auxiliary"].split())
        self.speaker = frozenset(words["speaker"].split())
        self.negating_prefixes: tuple[str, ...] = tuple(words["negating_prefixes"])
        self.asks = {kind: PhraseIndex(patterns) for kind, patterns in words["asks"].items()}
        self.agreement = frozenset(words["agreement"].split())
        self.asks_more = frozenset(words["asks_more"].split())
        self.replaces = PhraseIndex(words["replaces"])
        self.courtesy = PhraseIndex(words["courtesy"])
        self.opener = PhraseIndex(words["opener"])
        self.refusal = PhraseIndex(words["refusal"])
        self.filler = PhraseIndex(words["filler"])
        self.abbreviations = frozenset(words["abbreviations"]["always"].split())
        self.abbreviations_before_lower = frozenset(words["abbreviations"]["before_lower"].split())
        self.examined: dict[str, Word] = {}
        """The words examined so far; `look_up` fills it."""

    @classmethod
    @functools.cache
    def load(cls) -> "Lexicon":
        """Return the shipped words, read once per process: parsing them takes longer than judging a hundred answers."""
        digest = hashlib.sha256("\0".join(map(_text_of, _FILES)).encode()).hexdigest()[:12]
        return cls(read_yaml("words.yaml"), read_yaml("harm.yaml"), digest)

    def _groups(self, lines: Iterable[str]) -> list[list[str]]:
        return [[self._key(plain(word)) for word in line.split()] for line in lines]

    def _key(self, word: str) -> str:
        key = stem(self._irregular.get(word, word))
        return self._same.get(key, key)

    def look_up(self, raw: str) -> Word:
        """Return the properties of a word as it is written in a text."""
        word = self.examined.get(raw)
        if word is None:
            if len(self.examined) >= _CACHED_WORDS:
                self.examined.clear()
            word = self.examined[raw] = self._examine(raw)
        return word

    def calendar_word(self, sign: str) -> Word:
        """Return a month or a day by its sign."""
        return Word(sign, sign, True, True, False, False, None, None, None)

    def _examine(self, raw: str) -> Word:
        text = plain(raw)
        capital = raw[:1].isupper()
        # "may" and "march" are months only with a capital letter; Russian months never have one.
        calendar = self._calendar.get(raw if raw.isascii() else text)
        number = self._numbers.get(text)
        return Word(
            text=text,
            stem=calendar or self._key(text),
            content=text not in self._stop and number is None and (len(text) > 1 or not text.isalpha()),
            calendar=calendar is not None,
            capital=capital,
            special=sum(char.isupper() for char in raw[1:]) > 0,
            number=number,
            scale=self._scales.get(text),
            unit=self.units.get(text),
        )


def _calendar(words: Mapping[str, Any]) -> dict[str, str]:
    """Return one sign for each month and day, by English names as written and Russian ones in lower case."""
    signs = {}
    for kind in ("months", "weekdays"):
        for number, names in enumerate(words[kind], start=1):
            for name in names:
                signs[name if name.isascii() else plain(name)] = f"#{kind[:-1]}{number}"
    return signs


def _index_spellings(table: Mapping[float, str]) -> dict[str, float]:
    return {word: float(number) for number, text in table.items() for word in text.split()}
