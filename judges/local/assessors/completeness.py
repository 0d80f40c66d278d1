"""Completeness: is there an answer to every part of the question, as far as the contexts have one?"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from judges.local.case_reading import CaseReading
from judges.local.finding import Assessment, quote, say
from judges.local.fitted import load_model
from judges.local.language.phrases import PhraseIndex
from judges.local.language.quantity import Quantity
from judges.local.language.sentence import CACHED_SENTENCES, SHORT, Name, Sentence
from judges.local.language.text import read
from judges.local.lexicon import Lexicon
from judges.values.interaction import Language

# Share of a source sentence, without the question's own words, that an answer must contain so that it touches a part of
# the question. The model of fitted.yaml gives full or half credit for such shares.
TOUCHED = 0.15

# Without a source: share of the part's own words that the answer repeats.
REPEATED = 0.4

# A yes or no needs little more than the question's own words.
REPEATED_YES_NO = 0.6

# Mean credit of the parts from which the answer is partial, and complete.
PARTIAL = 0.4
COMPLETE = 0.8

# Maximum number of parts that are checked; a text with more of them is not a question.
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
    """Stems named side by side ("the price and the warranty"); each needs an answer."""


class Credit(NamedTuple):
    """The extent to which one part is answered: 0, 0.5 or 1."""

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
    missing = quote((part.text for part, _ in short), language)
    wanted = quote((text for _, item in short for text in item.wanted), language)
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
    """Return the questions within the question."""
    texts = [piece.strip() for piece in _MARKS.split(reading.full_question)]
    parts = [part for text in texts if text for part in _split_at_joints(text, reading)]
    meaningful = [part for part in parts if part.content or part.asks]
    return (meaningful or [_part("", reading)])[:PARTS_LIMIT]


def _split_at_joints(text: str, reading: CaseReading) -> list[QuestionPart]:
    """Split at "and" only if a new question begins after it: "terms and conditions" stay together."""
    pieces: list[str] = []
    for piece in _JOINTS.split(text):
        first = piece.split(" ", 1)[0].lower().strip(",.")
        if pieces and first not in reading.lexicon.asks_more:
            pieces[-1] = f"{pieces[-1]} {piece}"
        else:
            pieces.append(piece)
    return [_part(piece, reading) for piece in pieces]


def _part(text: str, reading: CaseReading) -> QuestionPart:
    part = _read_cached(text, reading.lexicon) if len(text) <= SHORT else _read_part(text, reading.lexicon)
    # "And when?" has the subject of the rest of the question.
    return part if len(part.content) > 1 else part._replace(content=part.content | reading.topic)


@lru_cache(maxsize=CACHED_SENTENCES)
def _read_cached(text: str, lexicon: Lexicon) -> QuestionPart:
    """Cache parts of questions: the same questions recur."""
    return _read_part(text, lexicon)


def forget() -> None:
    """Clear the cache of questions."""
    _read_cached.cache_clear()


def _read_part(text: str, lexicon: Lexicon) -> QuestionPart:
    passage = read(text, lexicon)
    words = [word for sentence in passage.sentences for word in sentence.words]
    asks = next((kind for kind, phrases in lexicon.asks.items() if _is_asked(kind, phrases, words)), None)
    listed = tuple(stem for sentence in passage.sentences for stem in _find_listed(sentence))
    return QuestionPart(text, passage.content, asks, listed)


def _is_asked(kind: str, phrases: PhraseIndex, words: Sequence[str]) -> bool:
    """Return whether the words ask a question of this kind: "do I need" asks for a yes or no, "how do I" does not."""
    matches = phrases.find(words)
    return any(kind != "yes_no" or match.start == 0 or words[match.start] == "ли" for match in matches)


def _find_listed(sentence: Sentence) -> list[str]:
    stems = []
    for place, word in enumerate(sentence.words):
        if word in _AND and place:
            after = (stem for stem in sentence.stems[place + 1 : place + 4] if stem in sentence.content)
            stems += [sentence.stems[place - 1], *list(after)[:1]]
    return [stem for stem in stems if stem in sentence.content]


def credit(part: QuestionPart, reading: CaseReading) -> Credit:
    earned = _credit(part, reading)
    if earned.value > 0.5 and not reading.refuses and any(_is_omitted(stem, part, reading) for stem in part.listed):
        return Credit(0.5)
    return earned


def _is_omitted(stem: str, part: QuestionPart, reading: CaseReading) -> bool:
    """Return whether the contexts cover the stem, but the answer neither names it nor uses their words."""
    sources = [sentence for sentence in reading.context_sentences if stem in sentence.content]
    if not sources or stem in reading.answer.content:
        return False
    return max(_covered_share(part, sentence, reading) for sentence in sources) < TOUCHED


def _credit(part: QuestionPart, reading: CaseReading) -> Credit:
    if part.asks == "yes_no" and reading.agrees:
        return Credit(1.0)
    evidence = reading.evidence(part.content).sentences
    if reading.refuses:
        return Credit(_credit_of_refusal(part, evidence, reading))
    if not evidence:
        return Credit(_credit_without_source(part, reading))
    figures = _find_wanted_figures(part, evidence, reading)
    if figures and not _is_off_topic(part, evidence, reading):
        is_answered = any(reading.answer.facts.support(item) for item in figures) or _names_same_day(evidence, reading)
        return Credit(1.0) if is_answered else Credit(0.0, tuple(item.text for item in figures))
    names = _find_wanted_names(part, evidence, reading)
    if names:
        is_answered = any(name.stem in reading.answer.stems for name in names)
        return Credit(1.0) if is_answered else Credit(0.0, tuple(name.text for name in names))
    return Credit(_credit_of_words(part, evidence, reading))


def _find_wanted_figures(part: QuestionPart, evidence: tuple[Sentence, ...], reading: CaseReading) -> list[Quantity]:
    if part.asks not in {"number", "time"}:
        return []
    in_question = frozenset(re.findall(r"\d{1,12}", part.text))
    near = (item for sentence in evidence for item in sentence.quantities)
    return _find_measures(part, reading) or [item for item in near if not item.soft and item.value not in in_question]


def _find_wanted_names(part: QuestionPart, evidence: tuple[Sentence, ...], reading: CaseReading) -> list[Name]:
    if part.asks != "name":
        return []
    names = (name for sentence in evidence for name in sentence.names)
    return [name for name in names if name.stem not in part.content]


def _credit_of_refusal(part: QuestionPart, evidence: tuple[Sentence, ...], reading: CaseReading) -> float:
    """Return the credit for declining to answer, which is full if the sources have no answer."""
    own = max((len(part.content & sentence.content) for sentence in evidence), default=0)
    if own * 2 > len(part.content):
        return _credit_of_words(part, evidence, reading) / 2
    return 1.0


def _credit_without_source(part: QuestionPart, reading: CaseReading) -> float:
    if part.asks == "number" and not reading.answer.facts.values:
        return 0.0
    repeated = len(part.content & reading.answer.content)
    return 1.0 if repeated >= REPEATED * len(part.content) else 0.5 * (repeated > 0)


def _find_measures(part: QuestionPart, reading: CaseReading) -> list[Quantity]:
    """If the question asks for a price, a weight or a time, return such quantities of the contexts on its subject."""
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


def _is_off_topic(part: QuestionPart, evidence: tuple[Sentence, ...], reading: CaseReading) -> bool:
    """Return whether the answer has words, but none on the topic: then a number matches only by chance."""
    topic = part.content.union(*(sentence.content for sentence in evidence))
    answer = frozenset().union(*(sentence.content - sentence.units for sentence in reading.answer.sentences))
    return bool(answer) and topic.isdisjoint(answer)


def _names_same_day(evidence: tuple[Sentence, ...], reading: CaseReading) -> bool:
    """Return whether the answer names a month or a day of the week that a source names."""
    days = {stem for sentence in evidence for stem in sentence.content if stem.startswith("#")}
    return not days.isdisjoint(reading.answer.stems)


def _credit_of_words(part: QuestionPart, evidence: tuple[Sentence, ...], reading: CaseReading) -> float:
    covered = find_covered_share(part, evidence, reading)
    repeated = len(part.content & reading.answer.content)
    if _has_other_figures(evidence, reading):
        return 0.0
    if part.asks == "yes_no" and (covered >= TOUCHED or repeated >= REPEATED_YES_NO * len(part.content)):
        return 1.0
    return load_model("completeness").step({"covered": covered}) / 2


def find_covered_share(part: QuestionPart, evidence: Sequence[Sentence], reading: CaseReading) -> float:
    """Return the largest share of a source sentence about a part of the question that the answer contains."""
    return max((_covered_share(part, sentence, reading) for sentence in evidence), default=0.0)


def _covered_share(part: QuestionPart, sentence: Sentence, reading: CaseReading) -> float:
    source = sentence.content - part.content
    if not source:
        return float(not part.content.isdisjoint(reading.answer.content))
    shared = len(source & reading.answer.content)
    share = shared / len(source)
    # One common word may be chance.
    return min(share, TOUCHED) if shared == 1 and len(source) > 1 else share


def _has_other_figures(evidence: tuple[Sentence, ...], reading: CaseReading) -> bool:
    """Return whether the sources answer with figures, and the answer has only different ones."""
    theirs = [item for sentence in evidence for item in sentence.quantities if not item.soft]
    ours = [item for sentence in reading.answer.sentences for item in sentence.quantities if not item.soft]
    return bool(theirs and ours) and not any(reading.context_facts.support(item) for item in ours)
