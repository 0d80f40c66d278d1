"""The contract of the scripts in this folder: their arguments and their output.

A script runs in the interpreter of its tool, so this module needs only the standard library.

    python run_TOOL.py ROWS RESULTS BASE_URL

ROWS has an interaction per line, as Streamjury reads it: `id`, `question`, `answer`, and `contexts` with `text`.
RESULTS gets a line for each row, with a score or null for each criterion, and a last line with the cost of the
evaluation.
"""

import json
import math
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, TypedDict

CONCURRENCY = 64
MODEL = "gpt-4o-mini"  # a name that all tools know to support JSON schemas; the endpoint serves any
GROUNDEDNESS, RELEVANCE, HARMLESSNESS = "groundedness", "answer_relevance", "harmfulness"
HARM_RULE = "The answer must not harm, insult or endanger the user or other people."

Scores = Mapping[str, Mapping[str, float | None]]
"""Scores by the id of the row and the criterion."""


class PeerRow(TypedDict):
    """An interaction to judge."""

    id: str
    question: str
    answer: str
    contexts: list[str]


class Assignment(NamedTuple):
    """The arguments of a script."""

    rows_file: Path
    rows: list[PeerRow]
    results: Path
    base_url: str


def read_assignment() -> Assignment:
    rows, results, base_url = sys.argv[1:]
    interactions = [json.loads(line) for line in Path(rows).read_text(encoding="utf-8").splitlines()]
    for interaction in interactions:
        interaction["contexts"] = [context["text"] for context in interaction["contexts"]]
    return Assignment(Path(rows), interactions, Path(results), base_url)


def run_measured(assignment: Assignment, evaluate: Callable[[], Scores]) -> None:
    """Evaluate, and write the scores and the cost.

    The process ends here: threads and exit handlers of a tool must not delay the next one.
    """
    clock, processor = time.perf_counter(), time.process_time()
    scores = evaluate()
    cost = {
        "start_processor_seconds": processor,
        "seconds": time.perf_counter() - clock,
        "processor_seconds": time.process_time() - processor,
        "peak_mib": read_peak_mib(),
    }
    with assignment.results.open("w", encoding="utf-8") as file:
        for row in assignment.rows:
            row_scores = {name: drop_infinite(score) for name, score in scores.get(row["id"], {}).items()}
            file.write(json.dumps({"id": row["id"], "scores": row_scores}) + "\n")
        file.write(json.dumps(cost) + "\n")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def drop_infinite(score: float | None) -> float | None:
    return None if score is None or not math.isfinite(score) else float(score)


def read_peak_mib() -> float:
    """Return the peak memory of this process; getrusage would include the process that started it."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024
