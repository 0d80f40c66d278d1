"""Answers that people have labelled, judged on the command line, and days drawn from them: for bench_people and
bench_control.

Two formats are read:

- JSON Lines with `id`, `question`, `contexts`, `answer` and `label`, which is true if the contexts do not support the
  answer. RAGTruth (MIT) is brought into this form with one line per answer.
- `train.json.xz`, the data of training/fit_local.py, of which the answers of the source `mtrag` are read: mtRAG
  (Apache-2.0), answers whose faithfulness people judged.

Without a file, the demo's answers are used: the right ones and the hallucinated ones.
"""

import json
import lzma
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from judges.values.evaluation import Evaluation
from sinks.statistics.corrected import CorrectionSums
from stream.cli.demo import load_corpus
from stream.jobs.diagnosis import read_file

ROOT = Path(__file__).parents[1]
CRITERION = "groundedness"
MTRAG = "mtrag"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledAnswer:
    """An answer, and whether people found it supported by its contexts."""

    id: str
    question: str
    contexts: tuple[str, ...]
    answer: str
    is_supported: bool


# Data


def read_answers(path: Path | None) -> list[LabelledAnswer]:
    """Read a file of labelled answers; without one, those of the demo."""
    if path is None:
        return list(_demo_answers())
    return list(_mtrag_answers(path) if path.suffix == ".xz" else _lines(path))


def name_of(path: Path | None) -> str:
    return "demo" if path is None else MTRAG if path.suffix == ".xz" else path.stem


def _lines(path: Path) -> Iterator[LabelledAnswer]:
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        yield LabelledAnswer(
            id=str(row["id"]),
            question=row["question"],
            contexts=tuple(context["text"] for context in row["contexts"]),
            answer=row["answer"],
            is_supported=not row["label"],
        )


def _mtrag_answers(path: Path) -> Iterator[LabelledAnswer]:
    with lzma.open(path) as file:
        records: list[dict[str, Any]] = json.load(file)["records"]
    for number, record in enumerate(record for record in records if record["src"] == MTRAG):
        yield LabelledAnswer(
            id=f"{MTRAG}-{number}",
            question=record["q"],
            contexts=tuple(record["ctx"]),
            answer=" ".join(record["s"]),
            is_supported=not record["a"],
        )


def _demo_answers() -> Iterator[LabelledAnswer]:
    for group in load_corpus().groups:
        if group.smalltalk:
            continue
        contexts = tuple(passage.text for passage in group.contexts)
        for kind, answer in (("right", group.answer), ("hallucinated", group.hallucinated)):
            yield LabelledAnswer(
                id=f"{group.id}-{kind}",
                question=group.question,
                contexts=contexts,
                answer=answer,
                is_supported=kind == "right",
            )


# The command line


def run_streamjury(folder: Path, *arguments: str) -> str:
    """Run `streamjury` in a folder, and return its standard output."""
    command = [sys.executable, "-m", "stream.cli.main", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True).stdout


def evaluate_answers(answers: Sequence[LabelledAnswer], folder: Path, app: str, *options: str) -> Path:
    """Judge the groundedness of answers with `streamjury evaluate`, and return the folder of the results."""
    results = folder / "results"
    rows = []
    for answer in answers:
        row = asdict(answer)
        del row["is_supported"]
        rows.append(row | {"app": app, "contexts": [{"text": text} for text in answer.contexts]})
    (folder / "answers.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    run_streamjury(
        folder, "evaluate", "answers.jsonl", "--output", str(results), "--criteria", CRITERION, "--json", *options
    )
    return results


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedPair:
    """The scores of an answer, and its label: 1 if it is supported, else 0."""

    score: float
    """Of the whole panel."""
    judges: dict[str, float]
    label: float


def read_pairs(results: Path, answers: Sequence[LabelledAnswer]) -> list[JudgedPair]:
    """Return the scores of a folder of results with their labels; answers without a score are left out."""
    labels = {answer.id: float(answer.is_supported) for answer in answers}
    pairs = (_pair(evaluation, labels[evaluation.interaction_id]) for evaluation in read_file(results))
    return [pair for pair in pairs if pair is not None]


def _pair(evaluation: Evaluation, label: float) -> JudgedPair | None:
    dimension = evaluation.dimensions[CRITERION]
    if dimension.score is None:
        return None
    scores = {verdict.judge: verdict.score for verdict in dimension.judges if verdict.score is not None}
    return JudgedPair(score=dimension.score, judges=scores, label=label)


# Days of traffic, drawn from judged answers

ScoreCounts = Mapping[tuple[float, float], int]
"""Number of answers by cheap score and dear score: those of a judge and of people, or those of two judges."""


def draw_day(rng: np.random.Generator, counts: ScoreCounts, answers: int, chance: float) -> CorrectionSums:
    """Draw the answers of a day. All have the cheap score, and each has the dear one with this probability."""
    shares = np.array(list(counts.values()), dtype=float)
    sums = CorrectionSums()
    for (cheap, dear), drawn in zip(counts, rng.multinomial(answers, shares / shares.sum()), strict=True):
        chosen = int(rng.binomial(drawn, chance))
        sums += _repeat(CorrectionSums.of_label(cheap, dear, 1.0, chance), chosen)
        sums += _repeat(CorrectionSums.of_score(cheap, 1.0), int(drawn) - chosen)
    return sums


def _repeat(sums: CorrectionSums, times: int) -> CorrectionSums:
    """Add up the sums of this many equal answers."""
    total = CorrectionSums()
    while times:
        if times % 2:
            total += sums
        sums, times = sums + sums, times // 2
    return total
