"""Finds the words that a sentence denies: those under its "not"."""

import re

from judges.local.lexicon import Lexicon, Word

# Words after a negation among which the word it denies is looked for.
NEGATION_REACH = 4

_SCOPES = re.compile(r"[,;:—()]")
_CONJUNCTIONS = frozenset({"and", "but", "or", "и", "а", "но", "или"})
_SIMPLE_WORD = re.compile(r"[^\W\d_]{1,64}(?:['’][^\W\d_]{1,20})?")


def denied(sentence: str, lexicon: Lexicon) -> list[str]:
    """The stems that stand under a "not"."""
    under: list[str] = []
    for part in _SCOPES.split(sentence):
        words = [lexicon.look(word) for word in _SIMPLE_WORD.findall(part)]
        for place, word in enumerate(words):
            if word.text in lexicon.negation:
                under += _denied_after(words[place + 1 : place + 1 + NEGATION_REACH], lexicon)
    return under


def _denied_after(words: list[Word], lexicon: Lexicon) -> list[str]:
    """The word that a negation denies: the first one behind it that is more than grammar."""
    for word in words:
        if word.text in lexicon.comparing or word.text in _CONJUNCTIONS:
            return []
        if word.text not in lexicon.auxiliary:
            return [word.stem]
    return []
