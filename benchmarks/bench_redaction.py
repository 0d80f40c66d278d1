"""Measures redaction: the recall of every kind, the false positives, and the megabytes redacted per second.

The examples are in redaction_corpus.txt, one per line. An example counts as recalled if placeholders replaced every
value in it and nothing else; a benign line counts as a false positive if anything in it was replaced.

    make bench
    PYTHONPATH=. .venv/bin/python benchmarks/bench_redaction.py
    PYTHONPATH=. .venv/bin/python benchmarks/bench_redaction.py --short    # less text for the speed
    PYTHONPATH=. .venv/bin/python benchmarks/bench_redaction.py --list     # also the misses and false positives
"""

import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from judges.models.redaction import ALL_KINDS, Redactor

CORPUS = Path(__file__).with_name("redaction_corpus.txt")
BENIGN = "benign"
PROSE = (
    "The term of a deposit is 12 months; since 2024-01-15 it costs 1,299.00 USD (v1.2.3), see [1] and key terms. ",
    "Съешь ещё этих мягких французских булок — да выпей же чаю, 15.01.2024 г., цена 1 299,00 руб. «Раздел 3.2». ",
)
MESSAGE_CHARS = 4_000
MEGABYTES, SHORT_MEGABYTES = 2.0, 0.05
ROUNDS = 5
_VALUE = re.compile("⟦(.*?)⟧", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """The number of examples of a kind that were redacted completely."""

    examples: int
    redacted: int
    as_kind: int
    """Examples whose values were all replaced under the name of their own kind."""
    missed: Sequence[str]


def load_corpus(path: Path = CORPUS) -> Mapping[str, Sequence[str]]:
    """Return the lines of each section, with their line breaks unescaped."""
    sections: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("# "):
            continue
        header = re.fullmatch(r"\[(\w+)\]", line)
        if header:
            lines = sections.setdefault(header[1], [])
        else:
            lines.append(line.replace("\\n", "\n"))
    return sections


def measure_recall(redactor: Redactor, kind: str, examples: Sequence[str]) -> Recall:
    missed: list[str] = []
    as_kind = 0
    for example in examples:
        plain = _VALUE.sub(r"\1", example)
        literals = [re.escape(literal) for literal in _VALUE.split(example)[::2]]
        redacted = redactor.redact([plain]).texts[0]
        if re.fullmatch(r"\[[A-Z_]+_\d+\]".join(literals), redacted) is None:
            missed.append(f"{plain} -> {redacted}")
        elif re.fullmatch(rf"\[{kind.upper()}_\d+\]".join(literals), redacted):
            as_kind += 1
    redacted_count = len(examples) - len(missed)
    return Recall(examples=len(examples), redacted=redacted_count, as_kind=as_kind, missed=missed)


def find_false_positives(redactor: Redactor, lines: Sequence[str]) -> list[str]:
    """Return the benign lines that redaction changed, with the result."""
    pairs = ((line, redactor.redact([line]).texts[0]) for line in lines)
    return [f"{line} -> {redacted}" for line, redacted in pairs if redacted != line]


def measure_speed(redactor: Redactor, sentences: Sequence[str], megabytes: float) -> float:
    """Return the megabytes of UTF-8 per second of CPU time in the fastest round."""
    cycle = "\n".join(sentences)
    text = cycle * (1 + int(megabytes * 1e6 / len(cycle.encode())))
    messages = [text[start : start + MESSAGE_CHARS] for start in range(0, len(text), MESSAGE_CHARS)]
    seconds = []
    for _ in range(ROUNDS):
        started = time.process_time()
        for message in messages:
            redactor.redact([message])
        seconds.append(time.process_time() - started)
    return len(text.encode()) / 1e6 / min(seconds)


def main(arguments: Sequence[str]) -> None:
    console, redactor, corpus = Console(), Redactor(), load_corpus()
    table = Table("kind", "examples", "redacted", "recall", "as its kind", title=redactor.identity.split()[0])
    recalls = {kind: measure_recall(redactor, kind, corpus[kind]) for kind in ALL_KINDS}
    for kind, recall in recalls.items():
        share = f"{recall.redacted / recall.examples:.1%}"
        table.add_row(kind, f"{recall.examples}", f"{recall.redacted}", share, f"{recall.as_kind}")
    console.print(table)
    false_positives = find_false_positives(redactor, corpus[BENIGN])
    console.print(f"false positives: {len(false_positives)} of {len(corpus[BENIGN])} benign lines")
    if "--list" in arguments:
        for line in (*(line for recall in recalls.values() for line in recall.missed), *false_positives):
            console.print(line, markup=False, highlight=False, soft_wrap=True)
    megabytes = SHORT_MEGABYTES if "--short" in arguments else MEGABYTES
    examples = [_VALUE.sub(r"\1", line) for kind in ALL_KINDS for line in corpus[kind]]
    for name, sentences in (("prose", PROSE), ("benign look-alikes", corpus[BENIGN]), ("values", examples)):
        console.print(f"{name}: {measure_speed(redactor, sentences, megabytes):.2f} MB/s")


if __name__ == "__main__":
    main(sys.argv[1:])
