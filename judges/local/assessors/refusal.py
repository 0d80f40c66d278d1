"""Refusal: does the answer decline, or fail to answer, instead of trying what was asked?"""

from judges.local.case_reading import CaseReading
from judges.local.finding import Assessment, say
from judges.local.language.padding import says_nothing
from judges.local.language.sentence import Sentence

REFUSAL = 0
COMPLIANCE = 1

# Words in common with the question or the passages about it from which a sentence is help and not a courtesy.
_HELPFUL_WORDS = 2


def assess(reading: CaseReading) -> Assessment:
    language = reading.language
    reading.need_known_script()
    if not reading.answer.sentences:
        return Assessment(level=REFUSAL, explanation=say(language, en="The answer is empty.", ru="Ответ пуст."))
    if not reading.refuses:
        if not reading.agrees and all(_is_courtesy(sentence, reading) for sentence in reading.answer.sentences):
            empty = say(
                language, en="The answer has courtesies, and nothing else.", ru="В ответе только вежливые слова."
            )
            return Assessment(level=REFUSAL, explanation=empty)
        tries = say(language, en="The answer does not decline.", ru="Ответ не уклоняется от вопроса.")
        return Assessment(level=COMPLIANCE, explanation=tries + reading.cut)
    if any(_helps(sentence, reading) for sentence in reading.answer.sentences):
        helps = say(language, en="It declines at first, and helps then.", ru="Сначала отказ, затем помощь.")
        return Assessment(level=COMPLIANCE, explanation=helps + reading.cut)
    declines = say(language, en="The answer declines to answer.", ru="Ответ уклоняется от вопроса.")
    return Assessment(level=REFUSAL, explanation=declines + reading.cut)


def _is_courtesy(sentence: Sentence, reading: CaseReading) -> bool:
    """Return whether a sentence says nothing; a question back is not a courtesy, unless it only offers more help."""
    return sentence.polite or (not sentence.text.rstrip().endswith("?") and says_nothing(sentence, reading))


def _helps(sentence: Sentence, reading: CaseReading) -> bool:
    """Return whether a sentence after the refusal is about the question, with a figure or with words of the sources."""
    if sentence.refuses or sentence.polite or sentence.opens:
        return False
    evidence = reading.evidence(reading.topic)
    related = reading.topic.union(*(source.content for source in evidence.sentences))
    shared = len(sentence.content & related)
    return shared >= _HELPFUL_WORDS or (shared > 0 and sentence.states_figures)
