"""Answer relevance: does the answer address the question, in the question's words or in those of its sources?"""

from judges.local.case_reading import CaseReading, Evidence
from judges.local.finding import Assessment, quote, say
from judges.local.fitted import load_model
from judges.local.language.sentence import Sentence
from judges.local.language.text import Passage

# Share of the words of the question before it from which an answer to a follow-up is about that question.
ABOUT_BEFORE = 0.35

# A single word in common with the sources may be chance.
BRIDGE_WORDS = 2

# An answer with several sentences loses a level if most of them share no word with the question or its sources.
STRAYING_SENTENCES = 3
STRAYING_SHARE = 0.4

# Declining to answer is about the question, but does not answer it.
REFUSAL_LEAST = 1
REFUSAL_MOST = 2

_UNKNOWN_TOPIC = 2


def assess(reading: CaseReading) -> Assessment:
    if not reading.answer.sentences:
        return Assessment(level=0, explanation=say(reading.language, en="The answer is empty.", ru="Ответ пуст."))
    reading.need_known_script()
    if not reading.topic:
        return _without_topic(reading)
    if reading.agrees:
        return Assessment(level=3, explanation=say(reading.language, en="A plain yes or no.", ru="Прямое да или нет."))
    evidence = reading.evidence(reading.topic)
    level = load_model("answer_relevance").step(features(reading, evidence))
    if reading.is_follow_up:
        level = max(level, _level_of_follow_up(reading, evidence))
    straying = level > 0 and _strays(reading.answer, reading.topic, evidence.sentences)
    if straying:
        level -= 1
    if reading.refuses:
        level = min(REFUSAL_MOST, max(REFUSAL_LEAST, level))
    return Assessment(level=level, explanation=_explain(reading, level, straying) + reading.cut)


def _sources(reading: CaseReading, evidence: Evidence) -> list[Sentence]:
    """Return the passages about the question; for a follow-up without any, the answer before it."""
    passages = evidence.contexts
    if not passages and reading.is_follow_up:
        passages = (reading.answer_before,)
    return [sentence for passage in passages for sentence in passage.sentences]


def _level_of_follow_up(reading: CaseReading, evidence: Evidence) -> int:
    """Return the minimum level of an answer that is as short as its question, or answers the question before."""
    new_words = reading.answer.content - reading.topic
    if new_words and any(new_words <= sentence.content for sentence in evidence.sentences):
        return 3
    return 1 if _share_of(reading.question_before.content, reading.answer) >= ABOUT_BEFORE else 0


def _share_of(topic: frozenset[str], answer: Passage) -> float:
    return len(topic & answer.content) / len(topic)


def features(reading: CaseReading, evidence: Evidence) -> dict[str, float]:
    """Return the input of the model: what the answer shares with the question and with the passages about it."""
    answer, topic = reading.answer, reading.topic
    # "How many days" is answered by any figure, "until what hour" by any time.
    named = topic - reading.lexicon.unit_stems if answer.facts.values else topic
    direct, bridge = _share_of(named or topic, answer), _bridge(reading, _sources(reading, evidence))
    related = topic.union(*(passage.content for passage in evidence.contexts))
    words = frozenset().union(*(sentence.content - sentence.units for sentence in answer.sentences))
    on_topic = len(words & related) / len(words) if words else bridge
    return {
        "question_or_source": 1.0 - (1.0 - direct) * (1.0 - bridge),
        # Without contexts, nothing shows that the words beyond those of the question are about something else.
        "words_on_topic": on_topic if reading.contexts else 1.0,
    }


def _without_topic(reading: CaseReading) -> Assessment:
    """Assess the answer to a question without a subject: full for small talk, and otherwise undecided."""
    words = [word for sentence in reading.question.sentences for word in sentence.words]
    small_talk = reading.lexicon.opener.matches(words)
    return Assessment(
        level=3 if small_talk else _UNKNOWN_TOPIC,
        explanation=say(
            reading.language,
            en="The question names no subject to compare the answer with.",
            ru="В вопросе не назван предмет, с которым можно сравнить ответ.",
        ),
    )


def _bridge(reading: CaseReading, sources: list[Sentence]) -> float:
    """Return the largest share of a source sentence, without the question's own words, that the answer contains."""
    answer, topic = reading.answer, reading.topic
    figures = [_shared_figures(answer, sentence) for sentence in sources]
    if any(figures) and all(part.content <= part.units for part in answer.sentences):
        return 1.0
    if not reading.is_follow_up:
        figures = [0] * len(sources)  # with a single word, a figure in common may be chance too
    new_words = answer.content - topic
    pairs = zip(sources, figures, strict=True)
    return max((_shared_part(new_words, sentence.content - topic, count) for sentence, count in pairs), default=0.0)


def _shared_figures(answer: Passage, source: Sentence) -> int:
    return sum(answer.facts.support(item) for item in source.quantities if not item.soft)


def _shared_part(answer: frozenset[str], source: frozenset[str], figures: int) -> float:
    shared = len(answer & source) + figures
    return shared / (min(len(answer), len(source)) + figures) if shared >= BRIDGE_WORDS else 0.0


def _strays(answer: Passage, topic: frozenset[str], evidence: tuple[Sentence, ...]) -> bool:
    related = topic.union(*(sentence.content for sentence in evidence))
    sentences = [sentence for sentence in answer.sentences if sentence.content]
    on_topic = sum(not related.isdisjoint(sentence.content) for sentence in sentences)
    return len(sentences) >= STRAYING_SENTENCES and on_topic < STRAYING_SHARE * len(sentences)


def _explain(reading: CaseReading, level: int, straying: bool) -> str:
    language = reading.language
    if reading.refuses:
        return say(language, en="The answer declines to answer.", ru="Ответ уклоняется от вопроса.")
    if straying:
        return say(
            language, en="Most of the answer is about something else.", ru="Большая часть ответа о чём-то другом."
        )
    if level == 3:
        return say(language, en="The answer speaks of what was asked.", ru="Ответ говорит о том, о чём спросили.")
    missing = quote(_words(reading, reading.topic - reading.answer.content), language)
    unsaid = say(language, en=f"; not mentioned: {missing}", ru=f"; не упомянуто: {missing}") if missing else ""
    if level == 2:
        return say(language, en=f"It takes up part of the question{unsaid}.", ru=f"Затронута часть вопроса{unsaid}.")
    return say(language, en=f"It takes up little of the question{unsaid}.", ru=f"Вопрос почти не затронут{unsaid}.")


def _words(reading: CaseReading, stems: frozenset[str]) -> list[str]:
    """Return the question's words for these stems, in their order."""
    return [
        word
        for sentence in reading.question.sentences
        for word, stem in zip(sentence.words, sentence.stems, strict=True)
        if stem in stems
    ]
