"""Clarity: is the answer easy to read, or do long sentences, remains of markup and garbage get in the way?"""

import re
import unicodedata
from collections.abc import Callable
from typing import NamedTuple

from judges.local.case_reading import ANSWER_LIMIT, CaseReading
from judges.local.finding import Assessment, say
from judges.local.fitted import load_model
from judges.local.language.text import scripts_touch
from judges.values.interaction import Language

BEST = 4

# Russian says the same in about a fifth fewer words, so its sentences are measured as if they were longer.
LANGUAGE_LENGTH = {"en": 1.0, "ru": 1.2}

# One sentence of more words is hard to read, however short the others are.
LONGEST_SENTENCE = {"en": 55, "ru": 45}

# Mean number of letters per word. Everyday prose has 4.5 in English and 5.5 in Russian; officialese about two more.
LONG_WORDS = {"en": 6.8, "ru": 8.2}
WORDS_TO_MEASURE = 8

# Share of the longer words that are in capitals.
SHOUTING = 0.3
SHOUTING_ONLY = 0.8
SHOUTED_LENGTH = 4

# A paragraph of this many words without a break is a wall.
WALL = 160

# Share of unreadable characters that makes a text hard to read, and unreadable.
SOME_GARBAGE = 0.01
MUCH_GARBAGE = 0.15

# Number of letters above which a word is not a word, and the share of such words, or of words without a vowel, that is
# gibberish.
UNWORD = 30
GIBBERISH = 0.3
VOWELLESS = 4

# Share of letters in another alphabet than the question's that makes it the wrong language.
WRONG_LANGUAGE = 0.75
WRONG_LANGUAGE_WORDS = 5

_MARKUP = re.compile(
    r"</?[a-zA-Z][a-zA-Z0-9]{0,15}(?:\s[^<>]{0,200})?/?>|&(?:nbsp|amp|lt|gt|quot|#\d{1,6});|\{\{[^{}]{0,80}\}\}"
    r"|<\|[^<>|]{0,40}\|>|\[/?INST\]|\\u[0-9a-fA-F]{4}|\\n|\]\(\s*\)|%[A-Z_]{3,20}%"
)
_CODE = re.compile(r"```.{0,5000}?```|`[^`\n]{0,300}`", re.DOTALL)
# Begins with one set of characters, to which a search can skip.
_MOJIBAKE = re.compile("[ÃÐÑâ\ufffd](?:(?<=\ufffd)|[\u0080-\u00bf€™œž“”–]|(?<=Ð).Ñ)")
_TWO_MARKS = re.compile(r"[!?.,;-][!?.,;-]")
_PUNCTUATION = re.compile(r"!{2,}|\?{3,}|[?!]{4,}|\.{4,}|,{2,}|;{2,}|-{6,}")
_REPEATED_WORD = re.compile(r"\b(\w{1,40}+)(?:\s++\1\b){2,}", re.IGNORECASE)
_OPEN_MARKS = ",;:(—-"
_ENDING_OPEN = re.compile(
    rf"(?:[{_OPEN_MARKS}]|\b(?:and|or|the|of|to|with|for|a|an|in|on|at|by|from|is|are|и|или|в|на|с|для|от|по|к|из|за|что))$",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W\d_]{1,200}")
_ADDRESS = re.compile(r"(?:https?://|www\.)\S{1,300}|\S{1,64}@\S{1,64}")
_LATIN = re.compile("[A-Za-z]+")
_CYRILLIC = re.compile("[\u0400-\u04ff]+")
_VOWELS = frozenset("aeiouyаеёиоуыэюяAEIOUYАЕЁИОУЫЭЮЯ")
_MIXED = re.compile(r"\b(?:[A-Za-z]{1,64}[\u0400-\u04ff]|[\u0400-\u04ff]{1,64}[A-Za-z])")
_MARK = "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]"
_MARKS = re.compile(_MARK + _MARK + _MARK)
_BLANK = frozenset("\n\r\t\u00a0\u202f\u2009\u200b\u200d\ufeff\u00ad")
_BRACKET = re.compile(r"[()\[\]{}«»]")
_PAIRS = {")": "(", "]": "[", "}": "{", "»": "«"}


class Flaw(NamedTuple):
    points: int
    en: str
    ru: str


class ClaritySubject(NamedTuple):
    """The input of the checks."""

    reading: CaseReading
    raw: str
    prose: str
    """The answer without code and addresses."""

    words: list[str]


def assess(reading: CaseReading) -> Assessment:
    reading.need_known_script()
    raw = reading.raw_answer[:ANSWER_LIMIT]
    prose = _CODE.sub(" ", raw) if "`" in raw else raw
    if "@" in prose or "://" in prose or "www." in prose:
        prose = _ADDRESS.sub(" ", prose)
    subject = ClaritySubject(reading, raw, prose, _WORD.findall(prose))
    if not any(char.isalnum() for char in raw):
        text = say(reading.language, en="There is nothing to read.", ru="Читать нечего.")
        return Assessment(level=0, explanation=text)
    flaws = [flaw for check in _CHECKS if (flaw := check(subject)) is not None]
    level = max(0, BEST - sum(flaw.points for flaw in flaws))
    return Assessment(level=level, explanation=_explain(flaws, reading.language) + reading.cut)


def _explain(flaws: list[Flaw], language: Language) -> str:
    if not flaws:
        return say(language, en="It reads easily.", ru="Читается легко.")
    worst = sorted(flaws, key=lambda flaw: -flaw.points)[:3]
    reasons = "; ".join(say(language, en=flaw.en, ru=flaw.ru) for flaw in worst)
    return say(language, en=f"Hard to read: {reasons}.", ru=f"Мешает читать: {reasons}.")


def _long_sentences(subject: ClaritySubject) -> Flaw | None:
    longest = max((len(sentence.words) for sentence in subject.reading.answer.sentences), default=0)
    is_endless = longest > LONGEST_SENTENCE[subject.reading.language]
    points = max(load_model("clarity").step(features(subject.reading)), int(is_endless))
    if not points:
        return None
    return Flaw(points, f"long sentences (up to {longest} words)", f"длинные предложения (до {longest} слов)")


def features(reading: CaseReading) -> dict[str, float]:
    """Return the input of the model: the mean length of the sentences, in tens of English words."""
    lengths = [len(sentence.words) for sentence in reading.answer.sentences if sentence.words]
    mean = sum(lengths) / max(1, len(lengths))
    return {"mean_length": LANGUAGE_LENGTH[reading.language] * mean / 10}


def _long_words(subject: ClaritySubject) -> Flaw | None:
    if len(subject.words) < WORDS_TO_MEASURE:
        return None
    mean = sum(map(len, subject.words)) / len(subject.words)
    return Flaw(1, "long words", "длинные слова") if mean > LONG_WORDS[subject.reading.language] else None


def _shouting(subject: ClaritySubject) -> Flaw | None:
    long_words = [word for word in subject.words if len(word) >= SHOUTED_LENGTH]
    if len(long_words) < 2:
        return None
    share = sum(map(str.isupper, long_words)) / len(long_words)
    points = (share >= SHOUTING) + (share >= SHOUTING_ONLY)
    return Flaw(points, "capital letters", "заглавные буквы") if points else None


def _punctuation(subject: ClaritySubject) -> Flaw | None:
    count = len(_PUNCTUATION.findall(subject.prose)) if _TWO_MARKS.search(subject.prose) else 0
    return Flaw(1 + (count > 2), "repeated punctuation", "повторы знаков препинания") if count else None


def _brackets(subject: ClaritySubject) -> Flaw | None:
    open_brackets: list[str] = []
    for char in _BRACKET.findall(subject.prose):
        if char not in _PAIRS:
            open_brackets.append(char)
        elif not open_brackets or open_brackets.pop() != _PAIRS[char]:
            # "a)" and "1)" are list markers, not unopened brackets.
            if char == ")" and not open_brackets:
                continue
            return Flaw(1, "unbalanced brackets", "непарные скобки")
    return Flaw(1, "unbalanced brackets", "непарные скобки") if open_brackets else None


def _markup(subject: ClaritySubject) -> Flaw | None:
    count = len(_MARKUP.findall(subject.prose)) + subject.raw.count("```") % 2
    return Flaw(1 + (count > 2), "remains of markup", "остатки разметки") if count else None


def _garbage(subject: ClaritySubject) -> Flaw | None:
    bad = 0 if subject.raw.replace("\n", "").isprintable() else sum(map(_is_unreadable, subject.raw))
    bad += 0 if subject.raw.isascii() else 2 * len(_MOJIBAKE.findall(subject.raw))
    share = bad / len(subject.raw)
    if not bad or share < SOME_GARBAGE:
        return None
    return Flaw(4 if share >= MUCH_GARBAGE else 2, "unreadable characters", "нечитаемые символы")


def _is_unreadable(char: str) -> bool:
    return not char.isprintable() and char not in _BLANK


def _gibberish(subject: ClaritySubject) -> Flaw | None:
    if not subject.words:
        return None
    endless = sum([len(word) > UNWORD for word in subject.words])
    share = (endless + sum(map(_is_gibberish, filter(_VOWELS.isdisjoint, subject.words)))) / len(subject.words)
    if share < GIBBERISH:
        return None
    return Flaw(3 if share >= 2 * GIBBERISH else 2, "words that are no words", "набор букв вместо слов")


def _is_gibberish(word: str) -> bool:
    """Return whether a word without vowels is not an abbreviation."""
    return VOWELLESS <= len(word) <= UNWORD and not word.isupper()


def _mixed_alphabets(subject: ClaritySubject) -> Flaw | None:
    count = len(_MIXED.findall(subject.prose)) if scripts_touch(subject.prose) else 0
    return Flaw(1 + (count > 2), "words in mixed alphabets", "слова из разных алфавитов") if count else None


def _wrong_language(subject: ClaritySubject) -> Flaw | None:
    question = subject.reading.case.text("question")[:2000]
    if len(subject.words) < WRONG_LANGUAGE_WORDS or not question:
        return None
    if subject.prose.isascii() and question.isascii():
        return None
    asked_in_russian = _count_letters(_CYRILLIC, question) > _count_letters(_LATIN, question)
    expected, other = (_CYRILLIC, _LATIN) if asked_in_russian else (_LATIN, _CYRILLIC)
    wrong = _count_letters(other, subject.prose)
    if not wrong or wrong / (wrong + _count_letters(expected, subject.prose)) < WRONG_LANGUAGE:
        return None
    return Flaw(2, "not in the language of the question", "не на языке вопроса")


def _count_letters(runs: re.Pattern[str], text: str) -> int:
    return sum(map(len, runs.findall(text)))


def _stutter(subject: ClaritySubject) -> Flaw | None:
    count = len(_REPEATED_WORD.findall(subject.prose)) if _may_stutter(subject.prose) else 0
    return Flaw(1 + (count > 1), "the same word again and again", "одно слово несколько раз подряд") if count else None


def _may_stutter(text: str) -> bool:
    """Return whether a word ends with the next one: this is faster to check than equality regardless of case."""
    plain = text.lower()
    if len(plain) != len(text) or "ς" in plain:
        return True  # letters that the pattern lowercases differently
    words = plain.split()
    return any(map(str.endswith, words, words[1:]))


def _unfinished_end(subject: ClaritySubject) -> Flaw | None:
    end = subject.raw[-40:].rstrip()
    may_be_open = end[-1:].isalpha() or end[-1:] in _OPEN_MARKS
    if len(subject.raw) == ANSWER_LIMIT or not may_be_open or not _ENDING_OPEN.search(end):
        return None
    return Flaw(1, "it breaks off", "обрывается")


def _wall(subject: ClaritySubject) -> Flaw | None:
    if len(subject.raw.split()) <= WALL:
        return None
    longest = max(len(paragraph.split()) for paragraph in subject.raw.split("\n"))
    return Flaw(1, "no paragraphs", "нет абзацев") if longest > WALL else None


def _zalgo(subject: ClaritySubject) -> Flaw | None:
    if subject.raw.isascii() or not _MARKS.search(subject.raw):
        return None
    marks = sum(unicodedata.combining(char) > 0 for char in subject.raw)
    return Flaw(2, "heaps of accents", "нагромождение значков") if marks > len(subject.raw) / 4 else None


_CHECKS: tuple[Callable[[ClaritySubject], Flaw | None], ...] = (
    _long_sentences, _long_words, _shouting, _punctuation, _brackets, _markup, _garbage, _gibberish,
    _mixed_alphabets, _wrong_language, _stutter, _unfinished_end, _wall, _zalgo,
)  # fmt: skip
