"""Helpers for tests of offline runs: input rows, and the results that a run wrote."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from stream.config.model import Config
from stream.jobs.evaluate import EvaluateRequest, EvaluateResult, evaluate

QUESTION = "How long is the return period?"
CONTEXT = "Goods can be returned within 30 days of delivery."


def interaction(number: int, **fields: object) -> dict[str, object]:
    return {"id": f"i-{number}", "question": QUESTION, "answer": CONTEXT, "contexts": [{"text": CONTEXT}], **fields}


def write_rows(path: Path, rows: Iterable[object]) -> Path:
    """Write one line per row; a text is written unchanged."""
    lines = (row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def judge(file: Path, folder: Path, config: Config | None = None, **request: Any) -> EvaluateResult:
    return evaluate(config or Config(), EvaluateRequest(file=str(file), folder=folder, **request), pauses=())


def lines_in(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "results.jsonl").read_bytes().splitlines()]


def rows_in(folder: Path) -> list[dict[str, Any]]:
    """Return the rows in the order in which they were written."""
    return [line for line in lines_in(folder) if line["kind"] == "row"]
