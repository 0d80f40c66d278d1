"""Completeness: is there an answer to every part of the question, as far as the contexts have one?"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from judges.local.case_reading import CaseReading
from judges.local.finding import Assessment, quoted, say
from judges.local.language.phrases import PhraseIndex
from judges.local.language.quantity import Quantity
from judges.local.language.sentence import REMEMBERED, SHORT, Name, Sentence
from judges.local.language.text import read
from judges.local.lexicon import Lexicon
from judges.values.interaction import Language

# Share of a source sentence, beyond the question's own words, that an answer must take up to have answered from it;
# half the credit below it. Sources say more than was asked, and answers say it in other words.
TAKEN_UP = 0.3
TOUCHED = 0.15

# Without a source: share of the part's own words that the answer repeats.
REPEATED = 0.4

# A yes or no needs little more than the question's own words.
REPEATED_YES_NO = 0.6

# Mean credit of the parts from which on the answer is partial and complete.
PARTIAL = 0.4
COMPLETE = 0.8

# Parts that are looked at; a question with more of them is not a question.
PARTS_LIMIT = 12

_MARKS = re.compile(r"[?;\n]")
_JOINTS = re.compile(r"(?:,\s*|\s)(?:and|or|also|plus|и|а также|а|или)\s+", re.IGNORECASE)

_AND = frozenset({"and", "or", "и", "или"})


class QuestionPart(NamedTuple):
    text: str
    content: frozenset[str]
    asks: str | None
    """`number`, `time`, `name`, `yes_no`, or None for anything else."""

    listed: tuple[str, ...]
    """Stems named side by side ("the price and the warranty"), each of which wants an answer."""


class Credit(NamedTuple):
    """How far one part is answered: 0, 0.5 or 1."""

    value: float
    wanted: tuple[str, ...] = ()
    """The figures or names of the contexts that would have answered it."""


def assess(reading: CaseReading) -> Assessment:
    language = reading.language
    if not reading.answer.sentences:
        return Assessment(level=0, explanation=say(language, en="The answer is empty.", ru="Ответ пуст."))
    reading.need_known_script()
    parts = parts_of(reading)
    earned = [credit(part, reading) for part in parts]
    mean = sum(item.value for item in earned) / len(earned)
    level = sum(mean >= threshold for threshold in (PARTIAL, COMPLETE))
    return Assessment(level=level, explanation=_explain(parts, earned, level, language) + reading.cut)


def _explain(parts: list[QuestionPart], earned: list[Credit], level: int, language: Language) -> str:
    if level == 2:
        return say(language, en="Everything asked for is answered.", ru="Есть ответ на всё, о чём спросили.")
    short = [(part, item) for part, item in zip(parts, earned, strict=True) if item.value < 1.0]
    missing = quoted((part.text for part, _ in short), language)
    wanted = quoted((text for _, item in short for text in item.wanted), language)
    answered = len(parts) - len(short)
    text = say(
        language,
        en=f"Parts of the question answered: {answered} of {len(parts)}; not fully: {missing}",
        ru=f"Частей вопроса с ответом: {answered} из {len(parts)}; не полностью: {missing}",
    )
    if wanted:
        text += say(language, en=f"; the contexts have {wanted}", ru=f"; в контекстах есть {wanted}")
    return f"{text}."


def parts_of(reading: CaseReading) -> list[QuestionPart]:
    """The questions within the question."""
    texts = [piece.strip() for piece in _MARKS.split(reading.full_question)]
    parts = [part for text in texts if text for part in _joined(text, reading)]
    told = [part for part in parts if part.content or part.asks]
    return (told or [_part("", reading)])[:PARTS_LIMIT]


def _joined(text: str, reading: CaseReading) -> list[QuestionPart]:
    """Cut at "and" only where a new question begins behind it: "terms and conditions" stay together."""
    pieces: list[str] = []
    for piece in _JOINTS.split(text):
        first = piece.split(" ", 1)[0].lower().strip(",.")
        if pieces and first not in reading.lexicon.asks_more:
            pieces[-1] = f"{pieces[-1]} {piece}"
        else:
            pieces.append(piece)
    return [_part(piece, reading) for piece in pieces]


def _part(text: str, reading: CaseReading) -> QuestionPart:
    part = _remembered(text, reading.lexicon) if len(text) <= SHORT else _understood(text, reading.lexicon)
    # "And when?" is about what the rest of the question is about.
    return part if len(part.content) > 1 else part._replace(content=part.content | reading.topic)


@lru_cache(maxsize=REMEMBERED)
def _remembered(text: str, lexicon: Lexicon) -> QuestionPart:
    """The same questions are asked again and again."""
    return _understood(text, lexicon)


def forget() -> None:
    """Lets go of the questions that were remembered."""
    _remembered.cache_clear()


def _understood(text: str, lexicon: Lexicon) -> QuestionPart:
    passage = read(text, lexicon)
    words = [word for sentence in passage.sentences for word in sentence.words]
    asks = next((kind for kind, phrases in lexicon.asks.items() if _is_asked(kind, phrases, words)), None)
    listed = tuple(stem for sentence in passage.sentences for stem in _listed(sentence))
    return QuestionPart(text, passage.content, asks, listed)


def _is_asked(kind: str, phrases: PhraseIndex, words: Sequence[str]) -> bool:
    """ "Do I need" wants a yes or no, "how do I" does not."""
    matches = phrases.find(words)
    return any(kind != "yes_no" or match.start == 0 or words[match.start] == "ли" for match in matches)


def _listed(sentence: Sentence) -> list[str]:
    found = []
    for place, word in enumerate(sentence.words):
        if word in _AND and place:
            after = (stem for stem in sentence.stems[place + 1 : place + 4] if stem in sentence.content)
            found += [sentence.stems[place - 1], *list(after)[:1]]
    return [stem for stem in found if stem in sentence.content]


def credit(part: QuestionPart, reading: CaseReading) -> Credit:
    earned = _credit(part, reading)
    if earned.value > 0.5 and not reading.refuses and any(_left_out(stem, part, reading) for stem in part.listed):
        return Credit(0.5)
    return earned


def _left_out(stem: str, part: QuestionPart, reading: CaseReading) -> bool:
    """The contexts speak of it, and the answer neither names it nor says what they say."""
    sources = [sentence for sentence in reading.context_sentences if stem in sentence.content]
    if not sources or stem in reading.answer.content:
        return False
    return max(_taken_up(part, sentence, reading) for sentence in sources) < TOUCHED


def _credit(part: QuestionPart, reading: CaseReading) -> Credit:
    if part.asks == "yes_no" and reading.agrees:
        return Credit(1.0)
    evidence = reading.evidence(part.content).sentences
    if reading.refuses:
        return Credit(_credit_of_refusal(part, evidence, reading))
    if not evidence:
        return Credit(_credit_without_source(part, reading))
    figures = _wanted_figures(part, evidence, reading)
    if figures and not _off_topic(part, evidence, reading):
        given = any(reading.answer.facts.support(item) for item in figures) or _same_day(evidence, reading)
        return Credit(1.0) if given else Credit(0.0, tuple(item.text for item in figures))
    names = _wanted_names(part, evidence, reading)
    if names:
        given = any(name.stem in reading.answer.stems for name in names)
        return Credit(1.0) if given else Credit(0.0, tuple(name.text for name in names))
    return Credit(_credit_of_words(part, evidence, reading))


def _wanted_figures(part: QuestionPart, evidence: tuple[Sentence, ...], reading: CaseReading) -> list[Quantity]:
    if part.asks not in {"number", "time"}:
        return []
    asked_with = frozenset(re.findall(r"\d{1,12}", part.text))
    near = (item for sentence in evidence for item in sentence.quantities)
    return _measured(part, reading) or [item for item in near if not item.soft and item.value not in asked_with]


def _wanted_names(part: QuestionPart, evidence: tuple[Sentence, ...], reading: CaseReading) -> list[Name]:
    if part.asks != "name":
        return []
    names = (name for sentence in evidence for name in sentence.names)
    return [name for name in names if name.stem not in part.content]


def _credit_of_refusal(part: QuestionPart, evidence: tuple[Sentence, ...], reading: CaseReading) -> float:
    """Saying that the sources have no answer is complete when they have none."""
    own = max((len(part.content & sentence.content) for sentence in evidence), default=0)
    if own * 2 > len(part.content):
        return _credit_of_words(part, evidence, reading) / 2
    return 1.0


def _credit_without_source(part: QuestionPart, reading: CaseReading) -> float:
    if part.asks == "number" and not reading.answer.facts.values:
        return 0.0
    repeated = len(part.content & reading.answer.content)
    return 1.0 if repeated >= REPEATED * len(part.content) else 0.5 * (repeated > 0)


def _measured(part: QuestionPart, reading: CaseReading) -> list[Quantity]:
    """Where the question asks for a price, a weight or a time: what the contexts have of that kind on its subject."""
    words = part.text.lower().replace("ё", "е").split()
    bases = frozenset().union(*(bases for phrases, bases in reading.lexicon.measures if phrases.matches(words)))
    if not bases:
        return []
    subject = part.content | reading.topic
    nearest = max((len(subject & sentence.content) for sentence in _with_unit(bases, reading)), default=0)
    return [
        item
        for sentence in _with_unit(bases, reading)
        if nearest and len(subject & sentence.content) == nearest
        for item in sentence.quantities
        if item.unit in bases and not item.soft
    ]


def _with_unit(bases: frozenset[str], reading: CaseReading) -> Iterator[Sentence]:
    for sentence in reading.context_sentences:
        if any(item.unit in bases and not item.soft for item in sentence.quantities):
            yield sentence


def _off_topic(part: QuestionPart, evidence: tuple[Sentence, ...], reading: CaseReading) -> bool:
    """The answer has words, and none of them belongs here: a number that fits does so by chance."""
    here = part.content.union(*(sentence.content for sentence in evidence))
    spoken = frozenset().union(*(sentence.content - sentence.units for sentence in reading.answer.sentences))
    return bool(spoken) and here.isdisjoint(spoken)


def _same_day(evidence: tuple[Sentence, ...], reading: CaseReading) -> bool:
    """The answer names a month or a day of the week that a source names."""
    days = {stem for sentence in evidence for stem in sentence.content if stem.startswith("#")}
    return not days.isdisjoint(reading.answer.stems)


def _credit_of_words(part: QuestionPart, evidence: tuple[Sentence, ...], reading: CaseReading) -> float:
    taken = max(_taken_up(part, sentence, reading) for sentence in evidence)
    repeated = len(part.content & reading.answer.content)
    if part.asks == "yes_no" and (taken >= TOUCHED or repeated >= REPEATED_YES_NO * len(part.content)):
        taken = TAKEN_UP
    value = 1.0 if taken >= TAKEN_UP else 0.5 * (taken >= TOUCHED)
    return 0.0 if _other_figures(evidence, reading) else value


def _taken_up(part: QuestionPart, sentence: Sentence, reading: CaseReading) -> float:
    source = sentence.content - part.content
    if not source:
        return float(not part.content.isdisjoint(reading.answer.content))
    shared = len(source & reading.answer.content)
    share = shared / len(source)
    # One word in common is chance.
    return min(share, TOUCHED) if shared == 1 and len(source) > 1 else share


def _other_figures(evidence: tuple[Sentence, ...], reading: CaseReading) -> bool:
    """The sources answer with figures, and the answer has figures, but none of theirs."""
    theirs = [item for sentence in evidence for item in sentence.quantities if not item.soft]
    ours = [item for sentence in reading.answer.sentences for item in sentence.quantities if not item.soft]
    return bool(theirs and ours) and not any(reading.context_facts.support(item) for item in ours)
