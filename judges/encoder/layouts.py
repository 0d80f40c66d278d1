"""Layouts: from an answer to the inputs of its model, and from the model's outputs to a probability per sentence.

A model of the task `tokens` without templates gets the windows of `inputs.InputBuilder`. The others get texts from the
templates of their description, encoded by their own tokenizer.
"""

import math
import string
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from judges.encoder.description import ModelDescription
from judges.encoder.inputs import (
    ContextSentence,
    InputBuilder,
    TokenLimits,
    TokenSpan,
    Window,
    choose_context,
    group_sentences,
    split_context,
    words_of,
)
from judges.encoder.reading import AnswerReading
from judges.encoder.session import Logits

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from judges.local.lexicon import Lexicon

# Log-odds are limited, so that a certain output stays finite.
_SMALLEST = 1e-7
# The least probability of a sentence in `two_highest`: one sentence that is surely unsupported decides alone.
_LEAST_OF_TWO = 0.02


class SentenceScore(NamedTuple):
    sentence: int
    probability: float
    """Probability that the sentence fails the criterion."""

    contradiction: float = 0.0
    label: int = 0
    """Index of the failing label with the highest probability."""


class Layout(Protocol):
    def build(self, reading: AnswerReading, wanted: Sequence[int]) -> list[Window]:
        """Return the inputs for these sentences of the answer."""


def layout_for(description: ModelDescription, tokenizer: "Tokenizer", lexicon: "Lexicon") -> Layout:
    if description.inputs.first is None:
        return _WindowLayout(description, tokenizer, lexicon)
    return _TemplateLayout(description, tokenizer, lexicon)


class _WindowLayout:
    """The layout of the shipped model."""

    def __init__(self, description: ModelDescription, tokenizer: "Tokenizer", lexicon: "Lexicon") -> None:
        inputs = description.inputs
        limits = TokenLimits(window=inputs.window, answer=inputs.answer, question=inputs.question)
        self._builder = InputBuilder(tokenizer, lexicon, limits)

    def build(self, reading: AnswerReading, wanted: Sequence[int]) -> list[Window]:
        """Return the windows that have a wanted sentence; the others are context for these."""
        windows = self._builder.build(reading.question, reading.contexts, reading.sentences)
        return [window for window in windows if not {span.sentence for span in window.spans}.isdisjoint(wanted)]


class _Rendered(NamedTuple):
    text: str
    judged: int | None
    """Where the judged field starts; None if it is in the other text."""


class _TemplateLayout:
    """Texts from templates: the answer in groups of sentences, or each sentence on its own."""

    def __init__(self, description: ModelDescription, tokenizer: "Tokenizer", lexicon: "Lexicon") -> None:
        self._description = description
        self._inputs = description.inputs
        self._tokenizer = tokenizer
        self._lexicon = lexicon
        self._judged = "sentence" if description.task == "pairs" else "answer"
        self._shows_contexts = "{contexts}" in f"{self._inputs.first} {self._inputs.second}"

    def build(self, reading: AnswerReading, wanted: Sequence[int]) -> list[Window]:
        windows = list[Window]()
        for group in self._groups(reading, wanted):
            for contexts in self._context_choices(reading):
                windows.append(self._window(reading, group, contexts))
        return windows

    def _groups(self, reading: AnswerReading, wanted: Sequence[int]) -> Iterator[Sequence[int]]:
        if self._description.task == "pairs":
            yield from ([index] for index in wanted)
            return
        lengths = [min(len(ids), self._inputs.answer) for ids in self._encode([s.text for s in reading.sentences])]
        for group in group_sentences([range(length) for length in lengths], self._inputs.answer):
            if not set(group).isdisjoint(wanted):
                yield group

    def _context_choices(self, reading: AnswerReading) -> Iterator[Sequence[str]]:
        if self._shows_contexts and self._description.aggregation.contexts == "each":
            yield from ([context] for context in reading.contexts)
        else:
            yield reading.contexts

    def _window(self, reading: AnswerReading, group: Sequence[int], contexts: Sequence[str]) -> Window:
        fields = {
            "question": reading.question,
            "history": reading.case.text("history"),
            self._judged: " ".join(reading.sentences[index].text for index in group),
        }
        fixed = len(self._encode_texts({**fields, "contexts": ""}).ids)
        shown, is_cut = self._fit_contexts(reading, group, contexts, self._inputs.window - fixed)
        texts = {**fields, "contexts": shown}
        encoding = self._encode_texts(texts)
        spans = list(self._spans(reading, group, encoding, texts))
        return Window(encoding.ids[: self._inputs.window], encoding.type_ids[: self._inputs.window], spans, is_cut)

    def _fit_contexts(
        self, reading: AnswerReading, group: Sequence[int], contexts: Sequence[str], room: int
    ) -> tuple[str, bool]:
        """Return the contexts, or their sentences nearest to the answer if not all fit."""
        if not self._shows_contexts:
            return "", False
        whole = "\n".join(contexts)
        if len(self._encode([whole])[0]) <= room:
            return whole, False
        texts = split_context(contexts, self._lexicon)
        # The sentences are joined by spaces, which may take a token each.
        sentences = [
            ContextSentence(text, [*ids, 0], words_of(text, self._lexicon))
            for text, ids in zip(texts, self._encode(texts), strict=True)
        ]
        answer = [words_of(reading.sentences[index].text, self._lexicon) for index in group]
        chosen = choose_context(sentences, answer, words_of(reading.question, self._lexicon), room)
        return " ".join(sentences[index].text for index in chosen), True

    def _encode(self, texts: list[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)]

    def _encode_texts(self, fields: Mapping[str, str]) -> Any:
        first = _render(self._inputs.first or "", fields, self._judged).text
        if self._inputs.second is None:
            return self._tokenizer.encode(first)
        return self._tokenizer.encode(first, _render(self._inputs.second, fields, self._judged).text)

    def _spans(
        self, reading: AnswerReading, group: Sequence[int], encoding: Any, fields: Mapping[str, str]
    ) -> Iterator[TokenSpan]:
        """Yield the tokens of each sentence; the whole input for models with one output per input."""
        if self._description.task != "tokens":
            yield TokenSpan(group[0], 0, 0)
            return
        templates = (self._inputs.first or "", self._inputs.second or "")
        rendered = [_render(template, fields, self._judged) for template in templates]
        text, start = next((place, item.judged) for place, item in enumerate(rendered) if item.judged is not None)
        lengths = [len(reading.sentences[index].text) + 1 for index in group]
        borders = list(pairwise(_running_sum(start, lengths)))
        for index, (low, high) in zip(group, borders, strict=True):
            tokens = [
                place
                for place, (sequence, (begin, end)) in enumerate(
                    zip(encoding.sequence_ids, encoding.offsets, strict=True)
                )
                if sequence == text and low <= begin < end <= high and place < self._inputs.window
            ]
            if tokens:
                yield TokenSpan(index, tokens[0], tokens[-1] + 1)


def _running_sum(start: int, lengths: Sequence[int]) -> Iterator[int]:
    yield start
    for length in lengths:
        start += length
        yield start


def _render(template: str, fields: Mapping[str, str], judged: str) -> _Rendered:
    text, start = "", None
    for literal, name, _, _ in string.Formatter().parse(template):
        text += literal
        if name is not None:
            start = len(text) if name == judged else start
            text += fields[name]
    return _Rendered(text, start)


# From outputs to probabilities


class Outputs:
    """Turns the outputs of a model into probabilities."""

    def __init__(self, description: ModelDescription) -> None:
        output = description.output
        self._task = description.task
        self._tokens = description.aggregation.tokens
        self._is_sigmoid = output.activation == "sigmoid"
        self._failing = [output.labels.index(label) for label in output.failing]
        self._passing = [output.labels.index(label) for label in output.passing]
        self._contradicting = [output.labels.index(label) for label in output.contradicting]

    def scores(self, logits: Logits, windows: Sequence[Window]) -> list[list[SentenceScore]]:
        """Return the scores of the sentences of each input of a batch."""
        import numpy as np  # noqa: PLC0415 - comes with the extra

        array = np.asarray(logits, np.float64)
        if array.ndim == 3 and self._task != "tokens":
            array = array[:, 0, :]  # a model that answers in its first token
        elif array.ndim == 2 and self._task == "tokens":
            array = array[:, :, None]  # a model with one label
        shares = self._activate(array)
        if not np.isfinite(shares).all():
            raise ValueError("the model returned numbers that are not finite")
        return [[self._score(shares[row], span) for span in window.spans] for row, window in enumerate(windows)]

    def _activate(self, array: Any) -> Any:
        import numpy as np  # noqa: PLC0415 - comes with the extra

        if self._is_sigmoid:
            return 1.0 / (1.0 + np.exp(-np.clip(array, -60.0, 60.0)))
        exponentials = np.exp(array - array.max(axis=-1, keepdims=True))
        return exponentials / exponentials.sum(axis=-1, keepdims=True)

    def _score(self, shares: Any, span: TokenSpan) -> SentenceScore:
        import numpy as np  # noqa: PLC0415 - comes with the extra

        rows = shares[span.start : span.end] if self._task == "tokens" else shares[None, :]
        failing = self._failing_share(rows)
        odds = np.log(np.clip(failing, _SMALLEST, 1.0)) - np.log(np.clip(1.0 - failing, _SMALLEST, 1.0))
        pooled = odds.max() if self._tokens == "max" else odds.mean()
        contradiction = rows[:, self._contradicting].sum(axis=-1).mean() if self._contradicting else 0.0
        means = rows.mean(axis=0)
        label = max(self._failing, key=lambda index: float(means[index]), default=0)
        return SentenceScore(span.sentence, float(1.0 / (1.0 + np.exp(-pooled))), float(contradiction), label)

    def _failing_share(self, rows: Any) -> Any:
        chosen = rows[:, self._failing or self._passing]
        share = chosen.max(axis=-1) if self._is_sigmoid else chosen.sum(axis=-1)
        return share if self._failing else 1.0 - share


def join_sentences(probabilities: Sequence[float], aggregation: str) -> float:
    """Return the probability of an answer, which has at least one sentence, from those of its sentences."""
    if aggregation == "max":
        return max(probabilities)
    if aggregation == "mean":
        return sum(probabilities) / len(probabilities)
    limited = [min(max(probability, _LEAST_OF_TWO), 1.0 - _SMALLEST) for probability in probabilities]
    highest = [math.log(probability / (1.0 - probability)) for probability in sorted(limited)[-2:]]
    return 1.0 / (1.0 + math.exp(-sum(highest) / len(highest)))
