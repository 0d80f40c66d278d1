"""The page and `streamjury labels judges` show the same figures of the same evaluations and labels."""

import csv
import json
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner

from judges.values.evaluation import Evaluation, Excerpt
from sinks.archive.database import Database
from stream.cli.main import main
from stream.cli.support.label_files import read_labels_of
from stream.config.model import Config
from tests.sinks.archive.reading.test_judge_quality import MODELS, QUESTIONS, TRACES, judged, store
from tests.sinks.page.serving import open_page

ANSWERS = 60
SINCE = datetime(2026, 3, 1, tzinfo=UTC)
COLUMNS = ("interaction_id", "criterion", "score", "who", "labelled_at", "probability", "kind")


def make_evaluations(rng: Random) -> list[Evaluation]:
    """Answers of several models and languages; every fifth interaction was judged twice."""
    levels = (None, 0.0, 0.25, 0.5, 0.75, 1.0)
    return [
        judged(
            number,
            f"i-{number if number % 5 else number // 5}",
            (rng.choice(levels), rng.choice(levels)),
            model=rng.choice(MODELS),
            excerpt=Excerpt(question=rng.choice(QUESTIONS), answer=""),
            traceparent=f"00-{TRACES[0]}-00f067aa0ba902b7-01" if number == ANSWERS - 1 else None,
        )
        for number in range(ANSWERS)
    ]


def write_labels(path: Path, rng: Random) -> None:
    """Labels of two people, some without a probability, one by its trace, and feedback, which does not count."""
    names = [*(f"i-{number}" for number in range(0, ANSWERS, 2)), TRACES[0], "unknown"]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for number, name in enumerate(names):
            for who in ("ann", "bob")[: 1 + number % 2]:
                kind = "feedback" if number % 7 == 6 else "review"
                score, probability = rng.choice((0.0, 0.5, 1.0)), rng.choice(("", 0.05))
                time = f"2026-03-01T13:00:{number:02d}Z"
                writer.writerow((name, "clarity", score, who, time, probability, kind))


def run_command(results: Path, labels: Path, by: str | None) -> Any:
    arguments = ["labels", "judges", str(results), "--labels", str(labels), "--json"]
    result = CliRunner().invoke(main, [*arguments, *([] if by is None else ["--by", by])])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_page_shows_the_figures_of_the_command(archive_url: str, tmp_path: Path) -> None:
    rng = Random(7)
    evaluations = make_evaluations(rng)
    results, labels = tmp_path / "results.jsonl", tmp_path / "labels.csv"
    results.write_text("".join(f"{one.model_dump_json()}\n" for one in evaluations))
    write_labels(labels, rng)
    with Database(archive_url) as database:
        store(database, evaluations, read_labels_of(Config(), labels))
        with open_page(database) as browser:
            for by in (None, "family", "language"):
                wanted = run_command(results, labels, by)
                filters = {"from": SINCE.isoformat(), **({} if by is None else {"by": by})}
                shown = browser.get_json("/api/judges/labels", **filters)
                assert (shown["by"], shown["cut"], shown["left_out"]) == (by, None, 0)
                assert len(shown["judges"]) == len(wanted["judges"]) >= 2
                for mine, theirs in zip(shown["judges"], wanted["judges"], strict=True):
                    check_same(mine, theirs)


def check_same(mine: dict[str, Any], theirs: dict[str, Any]) -> None:
    assert mine.keys() == theirs.keys()
    for name, value in theirs.items():
        assert mine[name] == (pytest.approx(value, abs=1e-5) if isinstance(value, dict) else value)
