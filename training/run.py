"""The steps of a training run: examples, training, figures."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from judges.encoder.inputs import InputBuilder, TokenLimits, Window, split_answer
from judges.encoder.layouts import join_sentences
from judges.local.lexicon import Lexicon
from training.examples import Example, make_examples
from training.measure import Figures, measure
from training.records import Record, is_development, read_data, read_ragtruth
from training.synthetic.documents import Library
from training.synthetic.records import make_records

HUMAN_COPIES = 3
SYNTHETIC_RECORDS = 30_000
# Answers of language models over retrieved passages with labels by people: the nearest to live traffic.
RAG_SOURCES = frozenset({"mtrag", "inspector_clapnq", "expertqa", "qa_feedback", "qa_feedback_fixed", "clapnq_gold"})

# Of the sentences of an answer: one sentence alone is often a false alarm.
AGGREGATION = "two_highest"

Logits = Sequence[npt.NDArray[np.float32]]


def _training_limits() -> tuple[TokenLimits, ...]:
    return tuple(TokenLimits(window=window, answer=window * 5 // 8, fill=True) for window in (320, 384, 448, 512))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    data: Path
    tokenizer: Path
    seed: int = 1
    processes: int = 8
    synthetic: int = SYNTHETIC_RECORDS
    human_copies: int = HUMAN_COPIES
    limits: tuple[TokenLimits, ...] = field(default_factory=_training_limits)


def training_examples(settings: Settings) -> list[Example]:
    """Return the examples of the human-labelled records, several times, and of the synthetic ones."""
    human, documents = read_data(settings.data)
    kept = [record for record in human if not is_development(record)]
    library = Library(documents, Lexicon.load())
    records = [*kept * settings.human_copies, *make_records(library, settings.synthetic, settings.seed)]
    return make_examples(records, settings.tokenizer, settings.limits, settings.seed, settings.processes)


class Answers:
    """Answers with labels, as windows of one size."""

    def __init__(self, labels: Sequence[bool], windows: Sequence[Sequence[Window]]) -> None:
        self.labels = labels
        self.windows = [window for group in windows for window in group]
        self._counts = [len(group) for group in windows]

    def probabilities(self, logits: Logits) -> list[float]:
        """Return the probability of each answer that it is unsupported; 0 for an answer without sentences."""
        remaining = iter(logits)
        groups = [[next(remaining) for _ in range(count)] for count in self._counts]
        return [_join(np.concatenate(group)) if group else 0.0 for group in groups]


def _join(logits: npt.NDArray[np.float32]) -> float:
    return join_sentences([1 / (1 + math.exp(-float(logit))) for logit in logits], AGGREGATION)


def ragtruth_answers(path: Path, tokenizer: Path, limits: TokenLimits) -> Answers:
    lexicon = Lexicon.load()
    builder = InputBuilder(Tokenizer.from_file(str(tokenizer)), lexicon, limits)
    rows = read_ragtruth(path)
    windows = [
        builder.build(question, contexts, split_answer(answer, lexicon)) for question, contexts, answer, _ in rows
    ]
    return Answers([label for *_, label in rows], windows)


def development_answers(data: Path, tokenizer: Path, limits: TokenLimits) -> dict[str, Answers]:
    """Return the human-labelled records kept for development, by source; `rag` has those of `RAG_SOURCES`."""
    human, _ = read_data(data)
    lexicon = Lexicon.load()
    builder = InputBuilder(Tokenizer.from_file(str(tokenizer)), lexicon, limits)
    by_source = defaultdict[str, list[Record]](list)
    for record in human:
        if is_development(record):
            for name in _names_of(record.source):
                by_source[name].append(record)
    return {
        name: Answers(
            [record.is_unsupported for record in records],
            [
                builder.build(record.question, record.contexts, split_answer(" ".join(record.sentences), lexicon))
                for record in records
            ],
        )
        for name, records in sorted(by_source.items())
    }


def _names_of(source: str) -> Iterator[str]:
    yield source
    if source in RAG_SOURCES:
        yield "rag"


def figures_of(answers: Mapping[str, Answers], logits: Mapping[str, Logits], threshold: float) -> dict[str, Figures]:
    return {
        name: measure(group.labels, group.probabilities(logits[name]), threshold) for name, group in answers.items()
    }
