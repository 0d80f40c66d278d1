"""Finds the words that a sentence denies: those that its "not" applies to."""

import re

from judges.local.lexicon import Lexicon, Word

# Words after a negation that are searched for the word that it denies.
NEGATION_REACH = 4

_SCOPES = re.compile(r"[,;:—()]")
_CONJUNCTIONS = frozenset({"and", "but", "or", "и", "а", "но", "или"})
_SIMPLE_WORD = re.compile(r"[^\W\d_]{1,64}(?:['’][^\W\d_]{1,20})?")


def find_denied(sentence: str, lexicon: Lexicon) -> list[str]:
    """Return the stems that a "not" applies to."""
    stems: list[str] = []
    for part in _SCOPES.split(sentence):
        words = [lexicon.look_up(word) for word in _SIMPLE_WORD.findall(part)]
        for place, word in enumerate(words):
            if word.text in lexicon.negation:
                stems += _find_denied_among(words[place + 1 : place + 1 + NEGATION_REACH], lexicon)
    return stems


def _find_denied_among(words: list[Word], lexicon: Lexicon) -> list[str]:
    """Return the word that a negation denies: the first one after it that is more than grammar."""
    for word in words:
        if word.text in lexicon.comparing or word.text in _CONJUNCTIONS:
            return []
        if word.text not in lexicon.auxiliary:
            return [word.stem]
    return []
