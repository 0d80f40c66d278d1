"""Measures the shipped encoder judge: milliseconds and records per second on one core, and how often it is right.

The speed is that of one thread, one record at a time. Made records have contexts of 300, 1,000 and 3,000 words and
answers of 70 words. They are the worst case for their size: each sentence has words of one context sentence, but none
stands in a context word for word, so that the model has to read them all.

With `--labels` it reads a file of answers that people have labelled (JSON Lines with `question`, `contexts`, `answer`
and `label`, true if the answer is not supported). It prints the speed on these records, and AUROC, F1, precision and
recall of word overlap, the local judge, the encoder and the default panel. All use the thresholds that they have in
the program. The goal of 60 ms is about these records if there are any, or else about the smallest made ones.

    make bench
    PYTHONPATH=. .venv/bin/python benchmarks/bench_encoder.py
    PYTHONPATH=. .venv/bin/python benchmarks/bench_encoder.py --short
    PYTHONPATH=. .venv/bin/python benchmarks/bench_encoder.py --labels answers.jsonl
    PYTHONPATH=. .venv/bin/python benchmarks/bench_encoder.py --model path/to/model    # another model
"""

import os

# Before numpy is loaded: its second thread would wait actively, and count as time of the judge.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import asyncio
import json
import random
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.common import argument_parser
from judges.criteria.catalogue import load_catalogue
from judges.encoder import SHIPPED, EncoderJudge
from judges.encoder.inputs import split_answer, words_of
from judges.evaluator import Evaluator, Submission
from judges.local.lexicon import Lexicon
from judges.values.evaluation import Dimension, JudgeVerdict, Sampling, Status
from judges.values.interaction import Case, Interaction, case_of
from stream.config.judge_kinds.encoder import EncoderJudgeConfig
from stream.config.judge_kinds.local import LocalJudgeConfig
from stream.config.model import Config
from stream.config.sections.judges import JudgesConfig
from stream.service.setup.evaluator import open_evaluator

WORDS = (300, 1000, 3000)
RECORDS, SHORT_RECORDS = 40, 2
ANSWER_WORDS = 70
GOAL_MS = 60.0
# An answer of which a larger share of words is in no context counts as unsupported.
OVERLAP_CUT = 0.25
GROUNDEDNESS = load_catalogue()["groundedness"]


# Speed


def make_case(words: int, seed: int) -> Case:
    """Make a record of passages with this many words in all, and an answer made of words of several sentences."""
    randomness = random.Random(seed)
    vocabulary = Path(__file__).with_name("redaction_corpus.txt").read_text(encoding="utf-8")
    known = sorted({word.lower() for word in vocabulary.split() if word.isascii() and word.isalpha() and len(word) > 2})

    def sentence(length: int) -> str:
        return " ".join(randomness.choices(known, k=length)).capitalize() + "."

    sentences = [sentence(18) for _ in range(max(1, words // 18))]
    size = max(1, len(sentences) // 3)
    passages = [" ".join(sentences[start : start + size]) for start in range(0, len(sentences), size)]
    answer = list[str]()
    while len(" ".join(answer).split()) < ANSWER_WORDS:
        source = randomness.choice(sentences).rstrip(".").split()
        randomness.shuffle(source)
        answer.append(" ".join(source[:12]).capitalize() + ".")
    record = {"id": f"{words}-{seed}", "question": sentence(8), "answer": " ".join(answer)}
    return case_of(Interaction.model_validate({**record, "contexts": [{"text": text} for text in passages]}))


class Speed(NamedTuple):
    records: str
    """Which records were judged."""

    words: float
    """Words of context of a record, median."""

    cpu_ms: float
    wall_ms: float
    per_second: float


def measure_speed(model: Path, sets: Mapping[str, Sequence[Case]]) -> Iterator[Speed]:
    """Judge the records of each set, one at a time; the first of a set is judged once before."""
    judge = EncoderJudge(model)
    judge.load()

    async def measure(name: str, cases: Sequence[Case]) -> Speed:
        await judge.judge(cases[0], GROUNDEDNESS)
        cpu, wall = list[float](), list[float]()
        for case in cases:
            before, started = time.process_time(), time.perf_counter()
            verdict = await judge.judge(case, GROUNDEDNESS)
            cpu.append((time.process_time() - before) * 1000)
            wall.append((time.perf_counter() - started) * 1000)
            assert verdict.status in {Status.SCORED, Status.NOT_APPLICABLE}, verdict.detail
        words = statistics.median(len(case.text("contexts").split()) for case in cases)
        return Speed(name, words, statistics.median(cpu), statistics.median(wall), 1000 * len(cpu) / sum(cpu))

    for name, cases in sets.items():
        yield asyncio.run(measure(name, cases))
    judge.close()


def print_speed(console: Console, speeds: Sequence[Speed]) -> None:
    table = Table(title="one thread, one record at a time; medians")
    table.add_column("records")
    for heading in ("words of context", "CPU ms per record", "ms per record", "records/s per core"):
        table.add_column(heading, justify="right")
    for speed in speeds:
        figures = (f"{speed.words:,.0f}", f"{speed.cpu_ms:.0f}", f"{speed.wall_ms:.0f}", f"{speed.per_second:.1f}")
        table.add_row(speed.records, *figures)
    console.print(table)


# Agreement with people


class RiskReading(NamedTuple):
    """The reading of one judge on one answer."""

    risk: float
    """Higher: more probably unsupported."""

    is_unsupported: bool
    """By the threshold of the judge."""


def load_rows(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def interaction_of(row: Mapping[str, Any], number: int) -> Interaction:
    fields = {key: row[key] for key in ("question", "contexts", "answer")}
    return Interaction.model_validate({"id": str(number), **fields})


def read_overlap(case: Case, lexicon: Lexicon) -> RiskReading:
    """Return the share of the answer's words that no context has."""
    answer = [words_of(sentence.stripped, lexicon) for sentence in split_answer(case.text("answer"), lexicon)]
    words = frozenset[str]().union(*answer)
    missing = len(words - words_of(case.text("contexts"), lexicon)) / max(1, len(words))
    return RiskReading(missing, missing > OVERLAP_CUT)


def read_finding(finding: JudgeVerdict | Dimension | None) -> RiskReading:
    """Read a verdict; an answer without one counts as supported."""
    if finding is None or finding.status is not Status.SCORED or finding.level is None or finding.score is None:
        return RiskReading(0.0, is_unsupported=False)
    best = len(GROUNDEDNESS.worst_first) - 1
    certainty = getattr(finding, "certainty", None)
    if certainty is not None:
        return RiskReading(1.0 - certainty if finding.level == best else certainty, finding.level < best)
    return RiskReading(1.0 - finding.score, finding.level < best)


async def read_all(evaluator: Evaluator, rows: Sequence[Mapping[str, Any]]) -> dict[str, list[RiskReading]]:
    """Judge all rows; returns the readings by judge, in the order of the rows."""
    lexicon = Lexicon.load()
    readings: dict[str, list[RiskReading]] = {name: [] for name in ("word overlap", "local", "encoder", "panel")}
    for number, row in enumerate(rows):
        interaction = interaction_of(row, number)
        submission = Submission(interaction=interaction, sampling=Sampling())
        evaluation = await evaluator.evaluate(submission, deadline=None, on_unsafe=lambda _notice: None)
        finding = evaluation.dimensions["groundedness"]
        verdicts = {verdict.judge: verdict for verdict in finding.judges}
        readings["word overlap"].append(read_overlap(case_of(interaction), lexicon))
        readings["local"].append(read_finding(verdicts.get("local")))
        readings["encoder"].append(read_finding(verdicts.get("encoder")))
        readings["panel"].append(read_finding(finding))
    await evaluator.aclose()
    return readings


def print_agreement(console: Console, labels: Sequence[bool], readings: Mapping[str, Sequence[RiskReading]]) -> None:
    from sklearn.metrics import roc_auc_score  # noqa: PLC0415 - takes long, and every test process imports this file

    table = Table(title=f"{len(labels)} answers, {sum(labels)} of them not supported")
    table.add_column("judge")
    for heading in ("AUROC", "F1", "precision", "recall"):
        table.add_column(heading, justify="right")
    for name, judged in readings.items():
        hits = sum(label and reading.is_unsupported for label, reading in zip(labels, judged, strict=True))
        alarms = sum(reading.is_unsupported for reading in judged)
        precision, recall = hits / max(1, alarms), hits / max(1, sum(labels))
        f1 = 2 * precision * recall / max(1e-9, precision + recall)
        area = roc_auc_score(labels, [reading.risk for reading in judged]) if len(set(labels)) > 1 else float("nan")
        table.add_row(name, f"{area:.3f}", f"{100 * f1:.1f}", f"{100 * precision:.1f}", f"{100 * recall:.1f}")
    console.print(table)


def panel_config(model: Path) -> JudgesConfig:
    """Return the default panel, with another model if it is not the shipped one."""
    if model == SHIPPED:
        return JudgesConfig()
    # As in the default panel, both judges must find a fault.
    return JudgesConfig(panel=(LocalJudgeConfig(), EncoderJudgeConfig(path=str(model))), combine="max")


def main() -> None:
    parser: argparse.ArgumentParser = argument_parser(__doc__)
    parser.add_argument("--labels", type=Path, metavar="FILE", help="labelled answers, as JSON Lines")
    parser.add_argument("--model", type=Path, default=SHIPPED, metavar="PATH", help="folder of another model")
    parser.add_argument("--limit", type=int, metavar="N", help="read at most N labelled answers")
    options = parser.parse_args()
    console = Console(width=100)
    records = SHORT_RECORDS if options.short else RECORDS
    sets = {f"made, {words:,} words": [make_case(words, seed) for seed in range(records)] for words in WORDS}
    rows = load_rows(options.labels)[: options.limit] if options.labels is not None else []
    if rows:
        sets["labelled"] = [case_of(interaction_of(row, number)) for number, row in enumerate(rows)]
    speeds = list(measure_speed(options.model, sets))
    print_speed(console, speeds)
    if rows:
        readings = asyncio.run(read_all(open_evaluator(Config(judges=panel_config(options.model))), rows))
        print_agreement(console, [bool(row["label"]) for row in rows], readings)
    decisive = speeds[-1] if rows else speeds[0]
    if not options.short and decisive.cpu_ms > GOAL_MS:
        sys.exit(f"{decisive.cpu_ms:.0f} ms of CPU ({decisive.records}) is more than the goal of {GOAL_MS:.0f} ms")


if __name__ == "__main__":
    main()
