"""Builds the model inputs for one answer. Training and inference share this module, so that they cannot differ.

1. Citations and lead-ins ("[2]", "(Passage 1)", "Based on the given passages,") are removed from the answer.
2. The answer is split into sentences, and these into windows of at most `TokenLimits.answer` tokens, in most cases one.
3. For each window, the context sentences nearest to its sentences are chosen, as many as fit into `TokenLimits.window`.
4. A window is `[CLS] question [SEP] context [SEP] answer [SEP]`, with the token span of each answer sentence.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from judges.encoder.tokens import TextEncoder
from judges.local.language.text import clean, sentences_of
from judges.local.lexicon import Lexicon

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_SOURCE = r"(?:passages?|documents?|docs?|sources?|contexts?|references?|refs?|paragraphs?|citations?)"
_NUMBERS = r"\d{1,3}(?:\s?(?:,|;|&|-|–|and|, and)\s?(?:" + _SOURCE + r"\s?)?\d{1,3}){0,9}"
_CITATION = re.compile(
    rf"\s?(?:\[(?:{_SOURCE}\s?:?\s?)?{_NUMBERS}\]|【[^】]{{1,40}}】|\[\^\d{{1,3}}\^?\]"
    rf"|\((?:see |from |per |according to )?{_SOURCE}\s?#?{_NUMBERS}\))",
    re.IGNORECASE,
)
_GIVEN = r"(?:the |these |this |your |all )?(?:(?:given|provided|above|following|available|retrieved|supplied)\s)?"
_INFORMATION = (
    r"(?:(?:the )?(?:given |provided )?information (?:given |provided |available |contained )?(?:in|from|by) )?"
)
_LEAD_IN = re.compile(
    rf"(?:(?:{_SOURCE}\s?#?{_NUMBERS}\s?:)"
    rf"|(?:based (?:up)?on|according to|as (?:stated|mentioned|described|per) (?:in|by)?\s?|from|in|per)\s"
    rf"{_INFORMATION}{_GIVEN}(?:{_SOURCE}|text|information|data|article)"
    rf"(?:\s(?:provided|given|above))?(?:\s?#?{_NUMBERS})?\s?[,:])\s*",
    re.IGNORECASE,
)
_SPACE_BEFORE_STOP = re.compile(r"\s+(?=[.,;:!?](?:\s|$))")
_WORD = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+(?:['’][^\W\d_]+)?")

# A context sentence longer than this many characters is cut into pieces: page text often has no full stops.
_LONGEST_PIECE = 400
# A context sentence repeats an earlier one if at least this share of its words stands there.
_REPEATED = 0.9
# A context of at most this many tokens is taken whole.
_SHORT_CONTEXT = 64
# Context sentences that one answer sentence picks at most, and the share of its words' weight that a further pick must
# cover. Fewer picks lose support; more only make the input longer.
_MOST_TURNS = 3
_LEAST_GAIN = 0.1
# Weight of a word that a chosen context sentence already covers, and of a word of the question.
_COVERED_WEIGHT = 0.3
_QUESTION_WEIGHT = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLimits:
    """Numbers of tokens."""

    window: int = 512
    answer: int = 320
    """Per window. A longer answer gets several windows, each with its own context; a longer sentence is cut."""

    question: int = 32
    fill: bool = False
    """Whether room that is left is filled with further context sentences. Only training does so, to see more context
    than is needed."""


class AnswerSentence(NamedTuple):
    text: str
    """As it stands in the cleaned answer."""

    stripped: str
    """Without citations and lead-ins."""


class TokenSpan(NamedTuple):
    """The tokens of one answer sentence in a window."""

    sentence: int
    """Index of the sentence in the answer."""

    start: int
    end: int


class Window(NamedTuple):
    ids: list[int]
    types: list[int]
    """0 for question and context, 1 for the answer."""

    spans: list[TokenSpan]
    is_context_cut: bool
    """Whether context sentences were left out."""


class ContextSentence(NamedTuple):
    text: str
    ids: list[int]
    words: frozenset[str]


def strip_marks(sentence: str) -> str:
    """Return a sentence without citations and without a lead-in that names the passages."""
    stripped = _CITATION.sub("", sentence).strip()
    lead_in = _LEAD_IN.match(stripped)
    if lead_in:
        stripped = stripped[lead_in.end() :]
        stripped = stripped[:1].upper() + stripped[1:]
    return _SPACE_BEFORE_STOP.sub("", stripped)


def split_answer(answer: str, lexicon: Lexicon) -> list[AnswerSentence]:
    """Return the sentences of an answer that still have a word after stripping."""
    sentences = [AnswerSentence(text, strip_marks(text)) for text, _ in sentences_of(clean(answer), lexicon)]
    return [sentence for sentence in sentences if _WORD.search(sentence.stripped)]


def split_context(contexts: Sequence[str], lexicon: Lexicon) -> list[str]:
    """Return the sentences of all contexts in order; very long ones in pieces."""
    return [
        piece
        for context in contexts
        for sentence, _ in sentences_of(clean(context), lexicon)
        for piece in _pieces(sentence)
    ]


def _pieces(sentence: str) -> Iterator[str]:
    while len(sentence) > _LONGEST_PIECE:
        end = sentence.rfind(" ", _LONGEST_PIECE // 2, _LONGEST_PIECE)
        end = end if end > 0 else _LONGEST_PIECE
        yield sentence[:end]
        sentence = sentence[end:].lstrip()
    if sentence:
        yield sentence


def words_of(text: str, lexicon: Lexicon) -> frozenset[str]:
    """Return the stems of the words about the subject, and the numbers."""
    examined, look_up = lexicon.examined, lexicon.look_up
    words = [examined.get(raw) or look_up(raw) for raw in _WORD.findall(text)]
    return frozenset([word.stem for word in words if word.content or word.number is not None])


def inverse_frequencies(sentences: Sequence[Collection[str]]) -> dict[str, float]:
    """Return the inverse document frequency of each word over the context sentences."""
    counts = Counter(word for words in sentences for word in words)
    return {word: math.log((len(sentences) + 1) / (count + 0.5)) for word, count in counts.items()}


def without_repeats(sentences: Sequence[ContextSentence]) -> list[ContextSentence]:
    """Drop context sentences whose words nearly all stand in one earlier sentence: passages often overlap."""
    kept = list[ContextSentence]()
    holders = dict[str, list[int]]()
    for sentence in sentences:
        words = sentence.words
        shared = math.ceil(_REPEATED * len(words))
        # A sentence that has all but a few words has one of any few and one: the rarest are looked up fastest.
        rarest = sorted(words, key=lambda word: len(holders.get(word, ())))[: len(words) - shared + 1]
        places = {place for word in rarest for place in holders.get(word, ())}
        if any(len(words & kept[place].words) >= shared for place in places):
            continue
        for word in words:
            holders.setdefault(word, []).append(len(kept))
        kept.append(sentence)
    return kept


def choose_context(
    context: Sequence[ContextSentence],
    answer: Sequence[frozenset[str]],
    question: frozenset[str],
    room: int,
    *,
    fill: bool = False,
) -> list[int]:
    """Return the indices of the context sentences nearest to the answer, in order, of at most `room` tokens in all.

    The answer sentences take turns, at most `_MOST_TURNS` each. In its turn, a sentence picks the context sentence that
    covers the most of its words, by inverse document frequency; words that it has covered count for less. It stops when
    a pick would cover little more. A short context is taken whole. With `fill`, all turns are taken, and room that is
    left goes to the first sentences that fit.
    """
    if sum(len(sentence.ids) for sentence in context) <= (room if fill else min(room, _SHORT_CONTEXT)):
        return list(range(len(context)))
    frequencies = inverse_frequencies([sentence.words for sentence in context])
    index = _ContextIndex(context)
    chosen = set[int]()
    waiting = [_Seeker(_weights(words, question, frequencies)) for words in answer]
    for turn in range(len(context) if fill else _MOST_TURNS):
        still_waiting = list[_Seeker]()
        for seeker in waiting:
            best = index.find_nearest(seeker.weights, chosen, room)
            if best is None or (turn and not fill and not seeker.gains(context[best])):
                continue
            seeker.cover(context[best])
            chosen.add(best)
            room -= len(context[best].ids)
            still_waiting.append(seeker)
        waiting = still_waiting
    for place, sentence in enumerate(context if fill else ()):
        if place not in chosen and len(sentence.ids) <= room:
            chosen.add(place)
            room -= len(sentence.ids)
    return sorted(chosen)


class _Seeker:
    """An answer sentence that looks for its support: the weights of its words and of those of the question."""

    def __init__(self, weights: dict[str, float]) -> None:
        self.weights = weights
        self._least_gain = _LEAST_GAIN * sum(weights.values())

    def gains(self, sentence: ContextSentence) -> bool:
        """Return whether a context sentence covers enough of what is still uncovered."""
        weights = self.weights
        return sum([weights[word] for word in sentence.words & weights.keys()]) >= self._least_gain

    def cover(self, sentence: ContextSentence) -> None:
        for word in sentence.words & self.weights.keys():
            self.weights[word] *= _COVERED_WEIGHT


def _weights(words: frozenset[str], question: frozenset[str], frequencies: Mapping[str, float]) -> dict[str, float]:
    weights = {word: frequencies[word] for word in words if word in frequencies}
    for word in question - words:
        if word in frequencies:
            weights[word] = _QUESTION_WEIGHT * frequencies[word]
    return weights


class _ContextIndex:
    """Finds the context sentences that have a word."""

    def __init__(self, context: Sequence[ContextSentence]) -> None:
        self._lengths = [len(sentence.ids) for sentence in context]
        # Long sentences cover more by chance, and take more room.
        self._penalties = [(10 + length) ** 0.5 for length in self._lengths]
        self._holders = dict[str, list[int]]()
        for place, sentence in enumerate(context):
            for word in sentence.words:
                self._holders.setdefault(word, []).append(place)

    def find_nearest(self, words: Mapping[str, float], chosen: Collection[int], room: int) -> int | None:
        """Return the place of the unchosen sentence that fits and covers the most; None if none covers anything."""
        scores = dict[int, float]()
        for word, weight in words.items():
            for place in self._holders.get(word, ()):
                scores[place] = scores.get(place, 0.0) + weight
        best, best_score = None, 0.0
        for place in sorted(scores):
            score = scores[place] / self._penalties[place]
            if score > best_score and place not in chosen and self._lengths[place] <= room:
                best, best_score = place, score
        return best


class InputBuilder:
    """Builds windows of token ids for one model."""

    def __init__(self, tokenizer: "Tokenizer", lexicon: Lexicon, limits: TokenLimits | None = None) -> None:
        self._encoder = TextEncoder(tokenizer)
        self._lexicon = lexicon
        self._limits = limits or TokenLimits()
        self._start, self._separator = (_token_id(tokenizer, token) for token in ("[CLS]", "[SEP]"))

    def build(self, question: str, contexts: Sequence[str], sentences: Sequence[AnswerSentence]) -> list[Window]:
        """Return the windows of an answer split by `split_answer`; none if it has no sentences."""
        if not sentences:
            return []
        question_ids = self._encoder.encode([clean(question)])[0][: self._limits.question]
        question_words = words_of(question, self._lexicon)
        context = self._read_context(contexts)
        answer_ids = [ids[: self._limits.answer] for ids in self._encoder.encode([item.stripped for item in sentences])]
        windows = list[Window]()
        for group in group_sentences(answer_ids, self._limits.answer):
            room = self._limits.window - len(question_ids) - sum(len(answer_ids[index]) for index in group) - 4
            words = [words_of(sentences[index].stripped, self._lexicon) for index in group]
            chosen = choose_context(context, words, question_words, room, fill=self._limits.fill)
            context_ids = [token for index in chosen for token in context[index].ids]
            head = [self._start, *question_ids, self._separator, *context_ids, self._separator]
            windows.append(self._window(head, group, answer_ids, len(chosen) < len(context)))
        return windows

    def _read_context(self, contexts: Sequence[str]) -> list[ContextSentence]:
        texts = split_context(contexts, self._lexicon)
        encodings = self._encoder.encode(texts)
        return without_repeats(
            [
                ContextSentence(text, ids, words_of(text, self._lexicon))
                for text, ids in zip(texts, encodings, strict=True)
            ]
        )

    def _window(
        self, head: list[int], group: Sequence[int], answer_ids: Sequence[list[int]], is_context_cut: bool
    ) -> Window:
        ids, spans = list(head), list[TokenSpan]()
        for index in group:
            spans.append(TokenSpan(index, len(ids), len(ids) + len(answer_ids[index])))
            ids += answer_ids[index]
        ids.append(self._separator)
        return Window(ids, [0] * len(head) + [1] * (len(ids) - len(head)), spans, is_context_cut)


def group_sentences(answer_ids: Sequence[Sequence[int]], limit: int) -> Iterator[list[int]]:
    """Yield the indices of consecutive sentences that fit into one window together.

    The windows of a long answer are about equally long.
    """
    total = sum(len(ids) for ids in answer_ids)
    target = total / math.ceil(total / limit) if total else limit
    group, size = list[int](), 0
    for index, ids in enumerate(answer_ids):
        if group and (size + len(ids) > limit or size >= target):
            yield group
            group, size = [], 0
        group.append(index)
        size += len(ids)
    if group:
        yield group


def _token_id(tokenizer: "Tokenizer", token: str) -> int:
    identifier = tokenizer.token_to_id(token)
    if identifier is None:
        raise ValueError(f"the tokenizer has no token {token}")
    return int(identifier)
