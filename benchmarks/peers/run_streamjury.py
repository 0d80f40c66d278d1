"""Judges the rows with Streamjury, as `streamjury evaluate` does: see exchange.py."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from exchange import CONCURRENCY, GROUNDEDNESS, HARMLESSNESS, MODEL, RELEVANCE, Scores, read_assignment, run_measured

from stream.config.model import Config
from stream.jobs.evaluate import EvaluateRequest, evaluate

CRITERIA = (GROUNDEDNESS, RELEVANCE, HARMLESSNESS)


def read_scores(results: Path) -> Scores:
    lines = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    rows = [line for line in lines if line["kind"] == "row"]
    return {
        row["source"]["id"]: {
            name: ((row["evaluation"] or {}).get("dimensions", {}).get(name) or {}).get("score") for name in CRITERIA
        }
        for row in rows
    }


def main() -> None:
    assignment = read_assignment()
    judge = {
        "kind": "openai",
        "name": "judge",
        "model": MODEL,
        "base_url": assignment.base_url,
        "limits": {"concurrency": CONCURRENCY},
    }
    config = Config.model_validate(
        {
            "judges": {"panel": [judge]},
            "criteria": {"use": [f"rag.{name}" for name in CRITERIA]},
            "worker": {"concurrency": CONCURRENCY},
        }
    )
    with TemporaryDirectory() as folder:
        request = EvaluateRequest(file=str(assignment.rows_file), folder=Path(folder))
        run_measured(assignment, lambda: read_scores(evaluate(config, request).results))


if __name__ == "__main__":
    main()
