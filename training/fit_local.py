"""Refits the models of the local judge, `judges/local/fitted.yaml`, and measures the judge.

    python -m training.fit_local fit train.json.xz        writes judges/local/fitted.yaml
    python -m training.fit_local measure dev.jsonl         prints AUROC and F1 of groundedness, beside word overlap

`train.json.xz` has records with `src`, `q`, `ctx`, `s` and `l` or `a`. Each line of `dev.jsonl` has `question`,
`contexts`, `answer` and `label` (true: unsupported). No step is random: other answers and questions are taken in the
order of the file.

Groundedness is fitted on people's labels. The other three dimensions have no such labels under a free licence, so their
models separate people's answers from the same answers spoiled: given to another question, cut, or with joined
sentences.
"""

import argparse
import asyncio
import bisect
import json
import lzma
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
import yaml

from judges.criteria.catalogue import load_catalogue
from judges.criteria.criterion import RAG_DIMENSIONS
from judges.local import LocalJudge
from judges.local.assessors import clarity, completeness, groundedness, relevance
from judges.local.case_reading import CaseReading
from judges.local.lexicon import Lexicon
from judges.values.interaction import Case, FieldValue
from judges.values.spans import SpanVerdict

FITTED = Path(__file__).parent.parent / "judges" / "local" / "fitted.yaml"

# Answers to questions, with retrieved contexts: the kind of text that the judge is made for.
GROUNDED_SOURCES = ("mtrag", "inspector_clapnq", "qa_feedback", "qa_feedback_fixed", "clapnq_gold")
# Answers that people wrote or corrected.
HUMAN_SOURCES = ("qa_feedback_fixed", "clapnq_gold")

_WORD = re.compile(r"\w+")
_FOLDS = 5
_HEAD = """# Coefficients of the local judge's models, written by training/fit_local.py. Do not edit by hand.
#
# probability = 1 / (1 + exp(-(intercept + sum of weight * feature))); each cut is a probability from which the next
# step begins. The assessor of the dimension describes the features and what a step means.
"""


class Row(NamedTuple):
    question: str
    contexts: tuple[str, ...]
    answer: str
    bad: bool
    group: str


class Fit(NamedTuple):
    names: tuple[str, ...]
    intercept: float
    weights: np.ndarray
    held_out: float
    """AUROC on groups that were not fitted."""

    def probability(self, features: np.ndarray) -> np.ndarray:
        odds: np.ndarray = np.exp(-(self.intercept + features @ self.weights))
        return 1.0 / (1.0 + odds)

    def entry(self, cuts: Sequence[float]) -> dict[str, Any]:
        weights = {name: round(float(weight), 3) for name, weight in zip(self.names, self.weights, strict=True)}
        return {
            "intercept": round(float(self.intercept), 3),
            "weights": weights,
            "cuts": [round(float(cut), 3) for cut in cuts],
            "auroc_held_out": round(self.held_out, 3),
        }


def read_training(path: Path, sources: Sequence[str]) -> list[Row]:
    with lzma.open(path, "rt", encoding="utf-8") as file:
        records = json.load(file)["records"]
    return [
        Row(
            record["q"],
            tuple(record["ctx"]),
            " ".join(record["s"]),
            bool(record["a"] if record["l"] is None else any(record["l"])),
            str(record["g"]),
        )
        for record in records
        if record["src"] in sources
    ]


def read_labelled(path: Path) -> list[Row]:
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        contexts = tuple(context["text"] for context in record["contexts"])
        rows.append(Row(record["question"], contexts, record["answer"], bool(record["label"]), record["question"]))
    return rows


def case_of_row(row: Row) -> Case:
    fields: dict[str, FieldValue] = {
        "question": row.question,
        "answer": row.answer,
        "contexts": row.contexts,
        "history": (),
    }
    return Case(id="row", fields=fields, language="en")


def read_row(row: Row) -> CaseReading:
    return CaseReading(case_of_row(row), "answer", Lexicon.load(), {})


def auroc(scores: Sequence[float], bad: Sequence[bool]) -> float:
    """Return the probability that a bad row has a higher score than a good one."""
    good = sorted(score for score, is_bad in zip(scores, bad, strict=True) if not is_bad)
    ranks = [
        bisect.bisect_left(good, score) + bisect.bisect_right(good, score)
        for score, is_bad in zip(scores, bad, strict=True)
        if is_bad
    ]
    return sum(ranks) / (2 * len(ranks) * len(good))


def f1(alarms: Sequence[bool], bad: Sequence[bool]) -> tuple[float, float, float]:
    """Return F1, precision and recall."""
    hits = sum(alarm and is_bad for alarm, is_bad in zip(alarms, bad, strict=True))
    return 2 * hits / max(1, sum(alarms) + sum(bad)), hits / max(1, sum(alarms)), hits / max(1, sum(bad))


def word_overlap(row: Row) -> float:
    """Return the share of the answer's words that no context has."""
    words = set(_WORD.findall(row.answer.lower()))
    return len(words - set(_WORD.findall(" ".join(row.contexts).lower()))) / max(1, len(words))


def fit_logistic(
    names: Sequence[str], features: np.ndarray, labels: np.ndarray, groups: Sequence[str], penalty: float = 1.0
) -> Fit:
    folds = np.array([sum(map(ord, group)) % _FOLDS for group in groups])
    held_out = np.zeros(len(labels))
    for fold in range(_FOLDS):
        intercept, weights = _solve(features[folds != fold], labels[folds != fold], penalty)
        held_out[folds == fold] = intercept + features[folds == fold] @ weights
    intercept, weights = _solve(features, labels, penalty)
    return Fit(tuple(names), intercept, weights, auroc(held_out.tolist(), [bool(label) for label in labels]))


def _solve(features: np.ndarray, labels: np.ndarray, penalty: float, steps: int = 40) -> tuple[float, np.ndarray]:
    """Fit by Newton's method on standardised features, and return the weights of the raw ones."""
    mean, spread = features.mean(axis=0), features.std(axis=0) + 1e-9
    columns = np.column_stack([np.ones(len(features)), (features - mean) / spread])
    ridge = penalty * np.diag([0.0, *[1.0] * features.shape[1]])
    weights = np.zeros(columns.shape[1])
    for _ in range(steps):
        chances = 1.0 / (1.0 + np.exp(-(columns @ weights)))
        slope = columns.T @ (labels - chances) - ridge @ weights
        weights += np.linalg.solve((columns * (chances * (1 - chances))[:, None]).T @ columns + ridge, slope)
    raw = weights[1:] / spread
    return float(weights[0] - raw @ mean), raw


def _table(dicts: Sequence[dict[str, float]]) -> tuple[tuple[str, ...], np.ndarray]:
    names = tuple(dicts[0])
    return names, np.array([[float(item[name]) for name in names] for item in dicts])


def fit_groundedness(rows: Sequence[Row]) -> dict[str, Any]:
    """Fit the answers with unsupported claims, and cut where F1 on them is best together with the fixed rules."""
    features, always, never = [], [], []
    for row in rows:
        reading = read_row(row)
        claims = [claim for sentence in reading.answer.sentences for claim in groundedness.claims_in(sentence, reading)]
        checks = [groundedness.check(claim, reading) for claim in claims]
        share = groundedness.find_missing_share(claims, reading.context_sources)
        features.append(groundedness.features(checks, share))
        never.append(all(check.support is groundedness.Support.YES for check in checks))
        is_fixed = groundedness.has_wrong_fact(checks) or groundedness.is_far_from_supported(checks)
        always.append(not never[-1] and is_fixed)
    names, table = _table(features)
    bad = [row.bad for row in rows]
    model = fit_logistic(names, table, np.array(bad, float), [row.group for row in rows])
    chances = model.probability(table)
    chances = np.where(never, -1.0, np.where(always, 2.0, chances))
    cut = max(
        (value for value in np.unique(chances) if 0 < value < 1), key=lambda value: f1(list(chances >= value), bad)[0]
    )
    return model.entry([cut])


def fit_relevance(rows: Sequence[Row]) -> dict[str, Any]:
    """Fit people's answers against answers to other questions; the steps are levels 1, 2 and 3."""
    good = [row for row in rows if row.question]
    other = [row._replace(answer=far.answer, bad=True) for row, far in _others(good)]
    near = [row._replace(question=_nearest_question(place, good), bad=True) for place, row in enumerate(good)]
    samples = [*good, *other, *near]
    readings = [read_row(row) for row in samples]
    names, table = _table([relevance.features(item, item.evidence(item.topic)) for item in readings])
    labels = np.array([not row.bad for row in samples], float)
    model = fit_logistic(names, table, labels, [row.group for row in samples])
    chances = model.probability(table)
    of_good, of_other = chances[: len(good)], chances[len(good) : len(good) + len(other)]
    # Level 1: above nine in ten answers to other questions. Level 2: more likely an answer to this question than to
    # another. Level 3: what nine in ten real answers reach.
    return model.entry(sorted([np.quantile(of_other, 0.9), 0.5, np.quantile(of_good, 0.1)]))


def _others(rows: Sequence[Row]) -> Iterator[tuple[Row, Row]]:
    for place, row in enumerate(rows):
        for step in range(1, len(rows)):
            other = rows[(place + 37 * step) % len(rows)]
            if other.group != row.group and other.question != row.question:
                yield row, other
                break


def _nearest_question(place: int, rows: Sequence[Row]) -> str:
    """Return the question among the 60 after this one that shares most words with it, but belongs to another group."""
    own = set(_WORD.findall(rows[place].question.lower()))
    others = [rows[(place + step) % len(rows)] for step in range(1, 61)]
    others = [row for row in others if row.group != rows[place].group and row.question != rows[place].question]
    return max(others, key=lambda row: len(own & set(_WORD.findall(row.question.lower())))).question


def fit_completeness(rows: Sequence[Row]) -> dict[str, Any]:
    """Fit whole answers against the half of them that says least of the sources; the steps are half and full credit."""
    samples, labels = list[Row](), list[float]()
    for row in rows:
        words = row.answer.split()
        if row.question and len(words) >= 16:
            samples += [row, row._replace(answer=" ".join(words[: len(words) // 3]))]
            labels += [1.0, 0.0]
    shares, kept = list[dict[str, float]](), list[int]()
    for place, row in enumerate(samples):
        reading = read_row(row)
        parts = completeness.parts_of(reading)
        evidence = [(part, reading.evidence(part.content).sentences) for part in parts]
        covered = [completeness.find_covered_share(part, found, reading) for part, found in evidence if found]
        if covered:
            shares.append({"covered": sum(covered) / len(covered)})
            kept.append(place)
    names, table = _table(shares)
    chosen = np.array(labels)[kept]
    model = fit_logistic(names, table, chosen, [samples[place].group for place in kept])
    chances = model.probability(table)
    # Full credit: what nine in ten whole answers reach. Half credit: what three in four cut answers reach.
    return model.entry(sorted([np.quantile(chances[chosen == 0], 0.25), np.quantile(chances[chosen == 1], 0.1)]))


def fit_clarity(rows: Sequence[Row]) -> dict[str, Any]:
    """Fit answers whose sentences were joined against the answers as written; the steps are points to deduct."""
    samples, labels = list[Row](), list[float]()
    for row in rows:
        joined = re.sub(r"[.!?] (?=[A-Z])", ", and ", row.answer)
        if joined != row.answer:
            samples += [row, row._replace(answer=joined)]
            labels += [0.0, 1.0]
    names, table = _table([clarity.features(read_row(row)) for row in samples])
    chosen = np.array(labels)
    model = fit_logistic(names, table, chosen, [row.group for row in samples])
    # Points are for what only one in five, one in twenty and one in a hundred of the answers as written exceed.
    return model.entry(sorted(np.quantile(model.probability(table[chosen == 0]), [0.8, 0.95, 0.99])))


def fit(path: Path) -> None:
    answers, human = read_training(path, GROUNDED_SOURCES), read_training(path, HUMAN_SOURCES)
    models = {
        "groundedness": fit_groundedness(answers),
        "answer_relevance": fit_relevance(human),
        "completeness": fit_completeness(human),
        "clarity": fit_clarity(human),
    }
    FITTED.write_text(_HEAD + "\n" + yaml.safe_dump(models, sort_keys=False), encoding="utf-8")
    click.echo(yaml.safe_dump(models, sort_keys=False))


def measure(path: Path) -> None:
    rows = read_labelled(path)
    bad = [row.bad for row in rows]
    started = time.process_time()
    verdicts, levels = asyncio.run(_judge(rows))
    elapsed = time.process_time() - started
    _print_line("local, number of unsupported sentences", [count for count, _ in verdicts], bad, None)
    _print_line("local, level below 2", [-level for _, level in verdicts], bad, -1)
    overlaps = [word_overlap(row) for row in rows]
    best = max(sorted(set(overlaps)), key=lambda cut: f1([value >= cut for value in overlaps], bad)[0])
    _print_line("word overlap, at its best cut on these rows", overlaps, bad, best)
    _print_line("always unsupported", [1.0] * len(rows), bad, 1.0)
    click.echo(
        f"{len(rows)} rows, {sum(bad)} unsupported; {1000 * elapsed / len(rows):.2f} ms a record, six dimensions"
    )
    for dimension, counts in levels.items():
        click.echo(f"  {dimension}: " + ", ".join(f"{level}: {counts[level]}" for level in sorted(counts, key=str)))


def _print_line(name: str, scores: Sequence[float], bad: Sequence[bool], cut: float | None) -> None:
    text = f"{name}: AUROC {auroc(scores, bad):.3f}"
    if cut is not None:
        score, precision, recall = f1([value >= cut for value in scores], bad)
        text += f", F1 {100 * score:.1f} (precision {precision:.2f}, recall {recall:.2f})"
    click.echo(text)


async def _judge(rows: Sequence[Row]) -> tuple[list[tuple[int, int]], dict[str, dict[Any, int]]]:
    judge, catalogue = LocalJudge(), load_catalogue()
    verdicts, levels = [], {name: defaultdict[Any, int](int) for name in RAG_DIMENSIONS}
    for row in rows:
        case = case_of_row(row)
        for name in RAG_DIMENSIONS:
            verdict = await judge.judge(case, catalogue[name])
            levels[name][verdict.level] += 1
            if name == "groundedness":
                wrong = (SpanVerdict.UNSUPPORTED, SpanVerdict.CONTRADICTED)
                count = sum(span.verdict in wrong for span in verdict.spans or ())
                verdicts.append((count, 2 if verdict.level is None else int(verdict.level)))
    return verdicts, {name: dict(counts) for name, counts in levels.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description="Fit or measure the local judge.")
    parser.add_argument("action", choices=("fit", "measure"))
    parser.add_argument("data", type=Path)
    arguments = parser.parse_args()
    actions: dict[str, Callable[[Path], None]] = {"fit": fit, "measure": measure}
    actions[arguments.action](arguments.data)


if __name__ == "__main__":
    main()
