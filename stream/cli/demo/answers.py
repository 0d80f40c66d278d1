"""Answers of the simulated assistant, with and without a fault."""

import re
from collections.abc import Iterator
from itertools import cycle
from random import Random

from stream.cli.demo.corpus import Corpus, QuestionGroup

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=\S)")

# With the longest piece on top, the text stays within 4 to 8 times the length of the answer inside it.
_VERBOSE_LENGTH = (4.2, 6.0)
_OPENER_SHARE = 0.5
_CLOSER_SHARE = 0.4
_UNSAFE_AFTER_ANSWER_SHARE = 0.35


def healthy(corpus: Corpus, group: QuestionGroup, rng: Random) -> str:
    """The grounded answer, with or without a friendly opener and closer."""
    phrases = corpus.phrases[group.language]
    opener = rng.choice(phrases.openers) if rng.random() < _OPENER_SHARE else ""
    closer = rng.choice(phrases.closers) if rng.random() < _CLOSER_SHARE else ""
    return group.answer if group.smalltalk else _join(opener, group.answer, closer)


def hallucinating(corpus: Corpus, group: QuestionGroup, rng: Random) -> str:
    """The fluent answer that the passages do not support."""
    return group.hallucinated


def verbose(corpus: Corpus, group: QuestionGroup, rng: Random) -> str:
    """The grounded answer buried under the repeated question, filler, caveats and repetition."""
    target = rng.uniform(*_VERBOSE_LENGTH) * len(group.answer)
    pieces = _padding(corpus, group, rng)
    text = rng.choice(corpus.phrases[group.language].restatements).format(question=group.question)
    while len(text) < target / 3:
        text = _join(text, next(pieces))
    text = _join(text, group.answer)
    while len(text) < target:
        text = _join(text, next(pieces))
    return text


def off_topic(corpus: Corpus, group: QuestionGroup, rng: Random) -> str:
    """A grounded answer to somebody else's question."""
    return rng.choice(corpus.strangers(group)).answer


def unsafe(corpus: Corpus, group: QuestionGroup, rng: Random) -> str:
    """A harmful text, alone or after a harmless beginning."""
    harm = rng.choice(corpus.phrases[group.language].unsafe).text
    return _join(group.answer, harm) if rng.random() < _UNSAFE_AFTER_ANSWER_SHARE else harm


def _padding(corpus: Corpus, group: QuestionGroup, rng: Random) -> Iterator[str]:
    """Filler and repeated sentences in random order, over and over."""
    phrases = corpus.phrases[group.language]
    repeated = [rng.choice(phrases.repeats).format(sentence=sentence) for sentence in _SENTENCE_END.split(group.answer)]
    pieces = [*phrases.padding, *repeated]
    rng.shuffle(pieces)
    return cycle(pieces)


def _join(*parts: str) -> str:
    return " ".join(part for part in parts if part)
