"""Sufficiency and precision of the contexts: do they contain what was asked for, and which of them help?"""

from collections.abc import Sequence
from statistics import fmean

from judges.local.assessors.completeness import QuestionPart, parts_of
from judges.local.case_reading import CaseReading
from judges.local.finding import Assessment, CannotJudgeError, quote, say
from judges.local.language.text import Passage
from judges.values.interaction import Language

# Share of a part's words that the contexts contain from which they answer it partly, and fully. The words of one
# context count in full, and those that only other contexts contain count half. Set on the corpus of the demo, where
# the right contexts have 0.5 or more, and contexts of another app 0.35 or less.
PARTLY = 0.38
FULLY = 0.5
_ELSEWHERE = 0.5

# A context is useful if it contains this share of the words of the question, and this share of what the best one does.
USEFUL = 0.3
NEAR_BEST = 0.6


def assess(reading: CaseReading) -> Assessment:
    """Assess whether the question can be answered from the contexts, part by part."""
    if _asks_nothing(reading):
        return Assessment(
            level=None, explanation=say(reading.language, en="The user asks for nothing.", ru="Вопроса нет.")
        )
    _need_one_script(reading)
    parts = parts_of(reading)
    levels = [_level(part, reading) for part in parts]
    level = 2 if min(levels) == 2 else 1 if fmean(levels) >= 0.5 else 0
    return Assessment(level=level, explanation=_explain(parts, levels, reading.language))


def assess_each(reading: CaseReading) -> Assessment:
    """Assess which of the contexts help to answer the question."""
    _need_one_script(reading)
    shares = dict(zip(reading.context_indexes, _shares(reading), strict=True))
    least = max(USEFUL, NEAR_BEST * max(shares.values(), default=0.0))
    useful = tuple(shares.get(index, 0.0) >= least for index in range(len(reading.case.items("contexts"))))
    return Assessment(level=None, useful=useful, explanation=_explain_each(useful, reading.language))


def _shares(reading: CaseReading) -> list[float]:
    """Return the share of the words of a part of the question in each context; of several parts, the largest share."""
    contexts = reading.contexts  # fills `context_indexes`
    wanted = [part.content for part in parts_of(reading) if part.content]
    return [max((len(words & context.content) / len(words) for words in wanted), default=0.0) for context in contexts]


def _level(part: QuestionPart, reading: CaseReading) -> int:
    if not part.content:
        return 2
    best = max(reading.contexts, key=lambda context: len(part.content & context.content), default=None)
    if best is None:
        return 0
    inside = len(part.content & best.content)
    elsewhere = len(part.content & reading.context_content) - inside
    share = (inside + _ELSEWHERE * elsewhere) / len(part.content)
    level = sum(share >= threshold for threshold in (PARTLY, FULLY))
    return min(level, 1) if _lacks_figure(part, best) else level


def _lacks_figure(part: QuestionPart, context: Passage) -> bool:
    """Return whether the part asks for a number, and the best context has none."""
    return part.asks == "number" and not any(sentence.quantities for sentence in context.sentences)


def _asks_nothing(reading: CaseReading) -> bool:
    """Return whether the user's text has no question, and ends like a greeting or thanks."""
    sentences = reading.question.sentences
    return "?" not in reading.full_question and bool(sentences) and sentences[-1].opens


def _need_one_script(reading: CaseReading) -> None:
    """Refuse what the rules cannot compare: words of other alphabets, and a question in another language."""
    if not reading.topic:
        raise CannotJudgeError("the question has no words that contexts could be compared with")
    reading.need_same_script(reading.topic, "the question and the contexts are in different languages")


def _explain(parts: Sequence[QuestionPart], levels: Sequence[int], language: Language) -> str:
    if min(levels) == 2:
        return say(
            language, en="The contexts speak of all that was asked.", ru="В контекстах есть всё, о чём спросили."
        )
    missing = quote((part.text for part, level in zip(parts, levels, strict=True) if level < 2), language)
    if max(levels) == 0:
        return say(
            language,
            en=f"The contexts do not speak of {missing}.",
            ru=f"В контекстах нет того, о чём спросили: {missing}.",
        )
    return say(
        language,
        en=f"The contexts speak only partly of {missing}.",
        ru=f"В контекстах лишь часть того, о чём спросили: {missing}.",
    )


def _explain_each(useful: Sequence[bool], language: Language) -> str:
    numbers = ", ".join(str(number) for number, verdict in enumerate(useful, 1) if verdict)
    if not numbers:
        return say(language, en="No context helps to answer the question.", ru="Ни один контекст не помогает ответить.")
    return say(
        language,
        en=f"Contexts that help to answer the question: {numbers} of {len(useful)}.",
        ru=f"Контексты, которые помогают ответить: {numbers} из {len(useful)}.",
    )
