"""Turns records into windows of token ids with one label per sentence."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from multiprocessing import Pool
from pathlib import Path

from tokenizers import Tokenizer

from judges.encoder.inputs import AnswerSentence, InputBuilder, TokenLimits, Window, strip_marks
from judges.local.lexicon import Lexicon
from training.records import Record

_CHUNK = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    window: Window
    labels: Sequence[int] | None
    """One per span; None if only the whole answer has a label."""

    answer_label: int
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    tokenizer: str
    records: Sequence[Record]
    limits: Sequence[TokenLimits]
    """One is drawn for each record, so that the model learns to work with more and with less context."""

    seed: int


def make_examples(
    records: Sequence[Record], tokenizer: Path, limits: Sequence[TokenLimits], seed: int, processes: int
) -> list[Example]:
    """Return the examples of all records, built in several processes."""
    chunks = [records[start : start + _CHUNK] for start in range(0, len(records), _CHUNK)]
    tasks = [
        _Task(tokenizer=str(tokenizer), records=chunk, limits=limits, seed=seed + number)
        for number, chunk in enumerate(chunks)
    ]
    if processes == 1:
        return [example for task in tasks for example in _build(task)]
    with Pool(processes) as pool:
        return [example for examples in pool.imap(_build, tasks) for example in examples]


@cache
def load_builder(tokenizer: str, limits: TokenLimits) -> InputBuilder:
    return InputBuilder(Tokenizer.from_file(tokenizer), Lexicon.load(), limits)


def _build(task: _Task) -> list[Example]:
    rng = random.Random(task.seed)
    return [
        example
        for record in task.records
        for example in _examples_of(record, load_builder(task.tokenizer, rng.choice(task.limits)))
    ]


def _examples_of(record: Record, builder: InputBuilder) -> Iterable[Example]:
    sentences = [AnswerSentence(text, strip_marks(text)) for text in record.sentences]
    labels = record.labels
    kept = [index for index, sentence in enumerate(sentences) if sentence.stripped]
    windows = builder.build(record.question, record.contexts, [sentences[index] for index in kept])
    if labels is None and record.answer_label and len(windows) > 1:
        return  # It is not known which window has the unsupported sentence.
    for window in windows:
        window_labels = None if labels is None else [labels[kept[span.sentence]] for span in window.spans]
        answer_label = int(record.answer_label or 0) if window_labels is None else max(window_labels)
        yield Example(window=window, labels=window_labels, answer_label=answer_label, weight=record.weight)
