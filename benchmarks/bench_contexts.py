"""Measures how well the local judge's verdicts on contexts agree with people, beside plain word overlap.

It needs data that this repository does not ship:

- `--squad dev-v2.0.json`: SQuAD 2.0 (CC BY-SA 4.0). People wrote questions that a passage answers, and questions that
  look alike but that it does not answer. This tests context_sufficiency.
- `--passages train.json.xz`: the data of training/fit_local.py. Its source `mtrag` (mtRAG, Apache-2.0) has questions
  with the passages that people found relevant. Each question also gets the passages of a question of another
  conversation, which count as not useful. This tests context_precision.

Without them, the questions of the demo are used, with the passages of another app as the wrong ones; the rules were
set on these. AUROC is the probability that a bad case has a lower score than a good one. An alarm is a sufficiency
below `yes`, or a context that is not useful.

    make bench
    PYTHONPATH=. .venv/bin/python benchmarks/bench_contexts.py
    PYTHONPATH=. .venv/bin/python benchmarks/bench_contexts.py --short
    PYTHONPATH=. .venv/bin/python benchmarks/bench_contexts.py --squad dev-v2.0.json --passages train.json.xz
"""

import asyncio
import json
import lzma
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.common import argument_parser
from judges.criteria.catalogue import load_catalogue
from judges.local import LocalJudge
from judges.local.language.text import clean, read
from judges.local.lexicon import Lexicon
from judges.values.evaluation import JudgeVerdict
from judges.values.interaction import Case, FieldValue, language_of
from stream.cli.demo import load_corpus
from stream.jobs.compare.detection import Labelled, Ranged, detect

SHORT_ROWS = 20
PASSAGES_SOURCE = "mtrag"
# The best level of sufficiency; a useful context has 1, another 0.
SUFFICIENT = 1.0
# Share of the question's words in the contexts below which the overlap is an alarm.
OVERLAP_CUT = 0.5


class LabelledQuestion(NamedTuple):
    """A question with contexts, and people's labels."""

    question: str
    contexts: tuple[str, ...]
    sufficient: bool | None = None
    useful: tuple[bool, ...] | None = None


# Data


def read_squad(path: Path) -> Iterator[LabelledQuestion]:
    """Yield the questions of SQuAD 2.0, each with its passage and whether the passage answers it."""
    for article in json.loads(path.read_text(encoding="utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                yield LabelledQuestion(
                    question["question"], (paragraph["context"],), sufficient=not question["is_impossible"]
                )


def read_passages(path: Path) -> Iterator[LabelledQuestion]:
    """Yield the questions of mtRAG, each with its own passages and those of the next conversation."""
    with lzma.open(path) as file:
        records: list[dict[str, Any]] = json.load(file)["records"]
    own = {
        record["g"]: (record["q"], tuple(record["ctx"]))
        for record in records
        if record["src"] == PASSAGES_SOURCE and record["q"].strip()
    }
    conversations = [group.partition("<::>")[0] for group in own]
    rows = list(own.values())
    for place, (question, passages) in enumerate(rows):
        later = (*range(place + 1, len(rows)), *range(place))
        other = next(index for index in later if conversations[index] != conversations[place])
        wrong = tuple(text for text in rows[other][1] if text not in passages)
        yield LabelledQuestion(question, passages + wrong, useful=(True,) * len(passages) + (False,) * len(wrong))


def read_demo() -> Iterator[LabelledQuestion]:
    """Yield the demo's questions with their own passages, and with those of a question of another app."""
    groups = [group for group in load_corpus().groups if not group.smalltalk]
    for group in groups:
        other = next(item for item in groups if item.language == group.language and item.app != group.app)
        own, wrong = (tuple(passage.text for passage in item.contexts) for item in (group, other))
        labels = (True,) * len(own) + (False,) * len(wrong)
        yield LabelledQuestion(group.question, own, sufficient=True)
        yield LabelledQuestion(group.question, wrong, sufficient=False)
        yield LabelledQuestion(group.question, own + wrong, useful=labels)


# Judges


Score = Callable[[LabelledQuestion], list[float] | None]
"""Returns the scores of a row, one per label; None if it cannot be judged."""


def case_of(row: LabelledQuestion) -> Case:
    fields: dict[str, FieldValue] = {"question": row.question, "answer": "", "history": (), "contexts": row.contexts}
    return Case(id="row", fields=fields, language=language_of(row.question))


def judge_rows(criterion: str, read_scores: Callable[[JudgeVerdict], list[float]]) -> Score:
    judge, chosen = LocalJudge(), load_catalogue("retrieval")[criterion]

    def score(row: LabelledQuestion) -> list[float] | None:
        verdict = asyncio.run(judge.judge(case_of(row), chosen))
        return None if verdict.score is None else read_scores(verdict)

    return score


def overlap(row: LabelledQuestion, contexts: Iterable[str]) -> float:
    """Return the share of the question's words that the contexts contain."""
    lexicon = Lexicon.load()
    words = read(clean(row.question), lexicon).content
    known = frozenset().union(*(read(clean(text), lexicon).content for text in contexts))
    return len(words & known) / len(words) if words else 0.0


SUFFICIENCY: dict[str, Score] = {
    "local": judge_rows("context_sufficiency", lambda verdict: [verdict.score or 0.0]),
    "word overlap": lambda row: [overlap(row, row.contexts)],
}
PRECISION: dict[str, Score] = {
    "local": judge_rows("context_precision", lambda verdict: [float(item.useful) for item in verdict.contexts or ()]),
    "word overlap": lambda row: [overlap(row, [text]) for text in row.contexts],
}


def labels_of(row: LabelledQuestion) -> tuple[bool, ...]:
    return row.useful if row.useful is not None else (bool(row.sufficient),)


def label_scores(rows: Sequence[LabelledQuestion], score: Score) -> tuple[Labelled, int]:
    """Return whether each label is bad with its score, and the number of rows without a verdict."""
    labelled, missing = list[tuple[bool, float]](), 0
    for row in rows:
        scores = score(row)
        if scores is None:
            missing += 1
        else:
            labelled += [(not label, value) for label, value in zip(labels_of(row), scores, strict=True)]
    return labelled, missing


# Output


def print_figures(console: Console, title: str, rows: Sequence[LabelledQuestion], judges: dict[str, Score]) -> None:
    labels = [label for row in rows for label in labels_of(row)]
    table = Table(title=f"{title}: {len(labels):,} labels, {labels.count(False):,} bad")
    for heading in ("judge", "AUROC", "F1 of bad", "precision", "recall", "agreement", "without verdict"):
        table.add_column(heading, justify="left" if heading == "judge" else "right")
    for name, score in judges.items():
        labelled, missing = label_scores(rows, score)
        cut = OVERLAP_CUT if name == "word overlap" else SUFFICIENT
        detection = detect(labelled, cut)
        if detection is None:
            continue
        figures = detection.a_priori
        agreement = sum(is_bad == (value < cut) for is_bad, value in labelled) / len(labelled)
        measures = (detection.auroc, figures.f1, figures.precision, figures.recall)
        table.add_row(name, *map(_text, measures), f"{agreement:.3f}", f"{missing:,}")
    console.print(table)


def _text(ranged: Ranged) -> str:
    value = ranged.measure.value
    return "-" if value is None else f"{value:.3f} ({ranged.low or 0.0:.2f} to {ranged.high or 0.0:.2f})"


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--squad", type=Path, help="dev-v2.0.json of SQuAD 2.0")
    parser.add_argument("--passages", type=Path, help="train.json.xz with the source mtrag")
    options = parser.parse_args()
    sources = [read_squad(options.squad)] if options.squad else []
    sources += [read_passages(options.passages)] if options.passages else []
    console = Console(width=140)
    for source in sources or [read_demo()]:
        rows = list(islice(source, SHORT_ROWS) if options.short else source)
        for title, judges, chosen in (
            ("context_sufficiency", SUFFICIENCY, [row for row in rows if row.sufficient is not None]),
            ("context_precision", PRECISION, [row for row in rows if row.useful is not None]),
        ):
            if chosen:
                print_figures(console, title, chosen, judges)


if __name__ == "__main__":
    main()
