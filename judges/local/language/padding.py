"""Sentences that say nothing about the subject: courtesies, offers, talk about the conversation itself."""

from judges.local.case_reading import CaseReading
from judges.local.language.sentence import Sentence

# Share of a sentence's content words that may be in the question or the contexts by chance.
CHANCE = 1 / 3

_QUOTES = "\"'»”"


def says_nothing(sentence: Sentence, reading: CaseReading) -> bool:
    """Return whether a sentence is a courtesy, filler or an "I" about itself, without figure, name or subject."""
    is_empty = reading.empty.get(sentence)
    if is_empty is None:
        is_empty = reading.empty[sentence] = _says_nothing(sentence, reading)
    return is_empty


def _says_nothing(sentence: Sentence, reading: CaseReading) -> bool:
    if sentence.text.rstrip(_QUOTES).endswith("?"):
        return True
    if sentence.states_figures:
        return False
    if sentence.polite:
        return True
    if not sentence.filler and reading.lexicon.speaker.isdisjoint(sentence.words):
        return False
    subject = reading.topic | reading.context_content
    if len(sentence.content & subject) > CHANCE * len(sentence.content):
        return False
    return not sentence.names
