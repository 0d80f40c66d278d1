"""Conciseness: how much of the answer could be left out without losing anything?"""

from collections.abc import Iterator
from typing import NamedTuple

from judges.local.case_reading import CaseReading
from judges.local.finding import Assessment, quote, say
from judges.local.language.padding import says_nothing
from judges.local.language.sentence import Sentence

# Share of waste (filler, repetition, the restated question) in the answer's words up to which it is concise, and
# acceptable. One closing phrase on a short answer is about a tenth; a third is what readers call padding.
CONCISE = 0.15
ACCEPTABLE = 0.35

# Number of words per part of a question above which even an answer without waste is long. A minute of speech is 150
# words.
LONG = 150
VERY_LONG = 350

# A sentence is a repetition if fewer of its content words than this are new, and it has at least this many.
NEW_WORDS = 0.25
REPEATING_WORDS = 4

# Length of a run of words that may recur within the answer, and the number of words from which the share of runs is
# meaningful.
RUN = 4
RUNS_FROM = 12

# A sentence restates the question if it has most of its words and hardly any others.
RESTATED = 0.7
RESTATED_NEW = 1

# An answer that is only a courtesy (a greeting) is concise up to this many words.
GREETING = 30

# Very long answers are measured on their first sentences.
SENTENCES_LIMIT = 300


class Waste(NamedTuple):
    words: int
    filler: list[str]
    repeated: list[str]
    restated: list[str]


def assess(reading: CaseReading) -> Assessment:
    language = reading.language
    reading.need_known_script()
    total = reading.answer.words
    if not total:
        return Assessment(level=2, explanation=say(language, en="There is nothing to cut.", ru="Сокращать нечего."))
    sentences = reading.answer.sentences[:SENTENCES_LIMIT]
    if total <= GREETING and all(says_nothing(sentence, reading) for sentence in sentences):
        return Assessment(level=2, explanation=say(language, en="A short courtesy.", ru="Краткая любезность."))
    counted = sum(len(sentence.words) for sentence in sentences)
    waste = _waste(reading, sentences)
    share = min(1.0, max(waste.words / max(1, counted), _share_of_repeated_runs(sentences)))
    level = (share <= ACCEPTABLE) + (share <= CONCISE)
    parts = max(1, reading.case.text("question")[:2000].count("?"))
    if total > LONG * parts:
        level = min(level, 1)
    if total > VERY_LONG * parts:
        level = 0
    return Assessment(level=level, explanation=_explain(reading, level, share, waste, total) + reading.cut)


def _waste(reading: CaseReading, sentences: tuple[Sentence, ...]) -> Waste:
    waste = Waste(0, [], [], [])
    earlier: set[str] = set()
    for sentence in sentences:
        waste = _add(waste, reading, sentence, earlier, alone=len(sentences) == 1)
        earlier |= sentence.content
        earlier.update(item.text for item in sentence.quantities)
    return waste


def _add(waste: Waste, reading: CaseReading, sentence: Sentence, earlier: set[str], *, alone: bool) -> Waste:
    if _repeats(sentence, earlier):
        waste.repeated.append(sentence.text)
        return waste._replace(words=waste.words + len(sentence.words))
    if not alone and _restates(sentence, reading):
        waste.restated.append(sentence.text)
        return waste._replace(words=waste.words + len(sentence.words))
    filler = list(_filler(sentence, reading))
    waste.filler.extend(" ".join(sentence.words[start:end]) for start, end in filler)
    return waste._replace(words=waste.words + sum(end - start for start, end in filler))


def _repeats(sentence: Sentence, earlier: set[str]) -> bool:
    if len(sentence.content) < REPEATING_WORDS:
        return False
    # A new number is new information, however familiar the words around it are.
    if any(item.text not in earlier for item in sentence.quantities if not item.soft):
        return False
    return len(sentence.content - earlier) < NEW_WORDS * len(sentence.content)


def _restates(sentence: Sentence, reading: CaseReading) -> bool:
    question = reading.question.content
    if len(question) < 2 or sentence.quantities:
        return False
    shared = len(question & sentence.content)
    return shared >= RESTATED * len(question) and len(sentence.content) - shared <= RESTATED_NEW


def _filler(sentence: Sentence, reading: CaseReading) -> Iterator[tuple[int, int]]:
    """Yield the positions of filler without overlaps; a sentence that says nothing is filler as a whole."""
    if says_nothing(sentence, reading) and not sentence.refuses:
        yield 0, len(sentence.words)
        return
    position = 0
    for match in sentence.filler:
        if match.end > position:
            yield max(position, match.start), match.end
            position = match.end


def _share_of_repeated_runs(sentences: tuple[Sentence, ...]) -> float:
    stems = [stem for sentence in sentences for stem in sentence.stems]
    if len(stems) < RUNS_FROM:
        return 0.0
    runs = list(zip(*(stems[shift:] for shift in range(RUN)), strict=False))
    return 1.0 - len(set(runs)) / len(runs)


def _explain(reading: CaseReading, level: int, share: float, waste: Waste, total: int) -> str:
    language = reading.language
    if level == 2:
        return say(language, en="Hardly anything could be left out.", ru="Убрать почти нечего.")
    reasons = []
    if waste.repeated:
        quotes = quote(waste.repeated[:1], language)
        reasons.append(say(language, en=f"repeats itself ({quotes})", ru=f"повторы ({quotes})"))
    if waste.restated:
        reasons.append(say(language, en="says the question again", ru="пересказывает вопрос"))
    if waste.filler:
        quotes = quote(waste.filler, language)
        reasons.append(say(language, en=f"filler: {quotes}", ru=f"вода: {quotes}"))
    if not reasons and share > CONCISE:
        reasons.append(say(language, en="repeats phrases", ru="повторяет фразы"))
    if total > LONG:
        reasons.append(say(language, en=f"{total} words", ru=f"слов: {total}"))
    percent = round(share * 100)
    text = "; ".join(reasons)
    return say(language, en=f"About {percent}% could go: {text}.", ru=f"Можно убрать около {percent} %: {text}.")
