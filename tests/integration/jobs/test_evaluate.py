"""A file and the stream: the same rows give the same results, and a killed run loses none and repeats few."""

import csv
import json
import re
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from sinks.reports.results_reader import read_results
from stream.kafka.embedded import EmbeddedBroker
from tests.integration.pipeline import StageProcess, produce_all, read_json, wait_until
from tests.parts.endpoints.judge_endpoint import Body, JudgeEndpoint, Response, best_verdict
from tests.parts.patience import patience

EXAMPLE = Path(__file__).parents[3] / "docs/examples/answers.csv"

ROWS, KILLED_AT, AT_ONCE = 1_000, 500, 16


def evaluate(*arguments: str | Path, folder: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "stream.cli.main", "evaluate", *map(str, arguments), "--output", str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def read_output(process: "subprocess.Popen[bytes]") -> bytes:
    out, err = process.communicate(timeout=180 * patience())
    assert process.returncode == 0, err
    return out


def findings(evaluation: dict[str, Any]) -> dict[str, Any]:
    """Return the findings of an evaluation, without times."""
    dimensions = {
        name: [dimension[key] for key in ("status", "score", "level", "option", "reason")]
        for name, dimension in evaluation["dimensions"].items()
    }
    return {
        "fingerprint": evaluation["evaluator"]["fingerprint"],
        "evaluation_id": evaluation["evaluation_id"],
        "composite": evaluation["composite"],
        "dimensions": dimensions,
        "app": evaluation["app"],
        "model": evaluation["model"],
    }


def test_a_table_has_the_same_results_offline_and_through_the_stream(
    embedded_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    with EXAMPLE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 25
    config = tmp_path / "streamjury.yaml"
    panel = {"panel": [{"kind": "local"}]}  # the stages of tests have no other judge unless it is configured
    config.write_text(yaml.safe_dump({"input": {"adapter": "csv"}, "sampling": {"rate": 1.0}, "judges": panel}))
    offline = evaluate(EXAMPLE, "--config", config, folder=tmp_path / "out")
    bootstrap = embedded_broker.bootstrap
    produce_all(bootstrap, "rag.interactions", ({"key": row["id"], "value": json.dumps(row)} for row in rows))
    with (
        StageProcess("sampler", bootstrap=bootstrap, log=tmp_path / "sampler.log", config=config),
        StageProcess("worker", bootstrap=bootstrap, log=tmp_path / "worker.log", config=config),
    ):
        wait_until(lambda: len(read_json(bootstrap, "rag.evaluations")) >= len(rows), seconds=120, what="25 results")
    streamed = {
        evaluation["interaction_id"]: findings(evaluation) for evaluation in read_json(bootstrap, "rag.evaluations")
    }
    read_output(offline)
    judged = [row.evaluation for row in read_results(tmp_path / "out").rows()]
    assert [evaluation.interaction_id for evaluation in judged if evaluation] == [row["id"] for row in rows]
    assert {
        evaluation.interaction_id: findings(evaluation.model_dump(mode="json")) for evaluation in judged if evaluation
    } == streamed
    statuses = Counter(evaluation["composite"]["status"] for evaluation in streamed.values())
    assert statuses["unsafe"] == 1
    assert len({evaluation["composite"]["score"] for evaluation in streamed.values()}) > 5


class CountingJudge:
    """Answers well, and counts the requests for each row; it holds the last ones until it is released."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.calls: Counter[str] = Counter()
        self.release = threading.Event()

    def __call__(self, body: Body) -> Response:
        match = re.search(r"rec-\d{4}", str(body["messages"]))
        assert match is not None
        with self._lock:
            self.calls[match.group()] += 1
            is_held = self.calls.total() > KILLED_AT + 200
        if is_held:
            assert self.release.wait(120 * patience())
        return best_verdict(body)


@pytest.mark.slow
def test_a_killed_run_is_finished_by_the_next_and_only_rows_in_flight_are_judged_twice(
    tmp_path: Path,
) -> None:
    table = tmp_path / "rows.csv"
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "question", "answer"])
        writer.writerows([number, "Is it so?", f"rec-{number:04d} it is."] for number in range(1, ROWS + 1))
    results, judge = tmp_path / "out/results.jsonl", CountingJudge()

    def lines() -> int:
        return results.read_bytes().count(b"\n") if results.exists() else 0

    with JudgeEndpoint(judge) as endpoint:
        panel = [{"kind": "openai", "name": "judge", "model": "m", "base_url": endpoint.base_url}]
        config = tmp_path / "streamjury.yaml"
        config.write_text(yaml.safe_dump({"judges": {"panel": panel}}))
        arguments = (table, "--config", config, "--criteria", "harmfulness", "--concurrency", str(AT_ONCE))
        first = evaluate(*arguments, folder=tmp_path / "out")
        wait_until(lambda: lines() > KILLED_AT, seconds=120, what=f"{KILLED_AT} rows")
        first.kill()
        first.communicate()
        judge.release.set()
        before = lines() - 1
        assert KILLED_AT <= before < ROWS
        out = read_output(evaluate(*arguments, folder=tmp_path / "out"))
    assert b"rows       1,000, " in out
    assert f"{before:,} already finished".encode() in out
    with (tmp_path / "out/results.csv").open(encoding="utf-8", newline="") as file:
        reported = list(csv.DictReader(file))
    assert [row["id"] for row in reported] == [str(number) for number in range(1, ROWS + 1)]
    assert {(row["composite"], row["status"]) for row in reported} == {("1", "ok")}
    assert set(judge.calls) == {f"rec-{number:04d}" for number in range(1, ROWS + 1)}
    assert sum(calls - 1 for calls in judge.calls.values()) <= AT_ONCE
