"""Labelled records, and the data file that they and the passages are read from."""

import hashlib
import json
import lzma
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.synthetic.documents import Document, read_documents

# One of this many groups of questions or documents is kept for development.
DEVELOPMENT_SHARE = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    source: str
    question: str
    contexts: Sequence[str]
    sentences: Sequence[str]
    labels: Sequence[int] | None
    """One per sentence, 1 if unsupported; None if only the whole answer has a label."""

    answer_label: int | None = None
    weight: float = 1.0
    group: str = ""

    @property
    def is_unsupported(self) -> bool:
        return bool(self.answer_label) if self.labels is None else any(self.labels)


def read_data(path: Path) -> tuple[list[Record], list[Document]]:
    """Return the human-labelled records and the plain passages of `train.json.xz`."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        content: dict[str, Any] = json.load(file)
    return [_record(row) for row in content["records"]], read_documents(content["documents"])


def _record(row: Mapping[str, Any]) -> Record:
    return Record(
        source=row["src"],
        question=row["q"] or "",
        contexts=row["ctx"],
        sentences=row["s"],
        labels=row["l"],
        answer_label=row.get("a"),
        weight=row["w"],
        group=str(row["g"]),
    )


def is_development(record: Record) -> bool:
    """Return whether a record is kept for development: by group, so that no question is on both sides."""
    digest = hashlib.sha256(f"{record.group}".encode()).digest()
    return digest[0] % DEVELOPMENT_SHARE == 0


def read_ragtruth(path: Path) -> list[tuple[str, list[str], str, bool]]:
    """Return question, contexts, answer and label of each row of `ragtruth-qa-dev.jsonl`."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [
        (row["question"], [context["text"] for context in row["contexts"]], row["answer"], bool(row["label"]))
        for row in rows
    ]
