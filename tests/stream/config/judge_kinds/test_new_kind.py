"""A new judge kind is one file and its registration: every part of the program that uses judges accepts it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.parts.patience import patience

ROOT = Path(__file__).parents[4]
FEE = {"prompt": 1000, "completion": 500000}

# Each starts the program in a process of its own.
pytestmark = pytest.mark.slow

ROWS = [
    {"id": f"row-{number}", "question": "What is it?", "answer": "It is.", "contexts": [{"text": "It is."}]}
    for number in range(3)
]

# Facts that no command shows without a broker or a collector: the estimate of a backfill, the models named in traces,
# and the judge that is asked first when the budget runs low.
FACTS = """
import json, sys
from pathlib import Path
import tests.stream.config.judge_kinds.with_oracle
from judges.values.interaction import Interaction
from stream.service.setup.evaluator import build_evaluator
from stream.jobs.backfill.cost_estimate import Paid, SystematicSample, estimate
from stream.service.setup.config_file import load
from stream.service.sinks import judge_models

config = load(Path(sys.argv[1]), {})
sample = SystematicSample()
for number in range(2):
    sample.add(Interaction(id=str(number), question="What is it?", answer="It is."))
panel = build_evaluator(config)._panel
cost = estimate(config, sample, Paid())
print(json.dumps({
    "usd": cost.usd,
    "basis": cost.basis,
    "models": {name: [m.provider, m.model, m.address, m.port] for name, m in judge_models(config.judges).items()},
    "identity": [judge.identity for judge in panel.judges],
    "first": panel.frugal and panel.frugal.first,
}))
"""


def run_streamjury(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    return run_python("-m", "tests.stream.config.judge_kinds.with_oracle", *arguments)


def run_python(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120 * patience(),
    )


def write_config(folder: Path, **oracle: Any) -> Path:
    path = folder / "streamjury.yaml"
    panel = [{"kind": "oracle", "name": "pythia", **oracle}]
    path.write_text(json.dumps({"judges": {"panel": panel}}), encoding="utf-8")
    return path


def collect_facts(path: Path) -> Any:
    process = run_python("-c", FACTS, path)
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    return path


class TestConfiguration:
    def test_a_file_with_it_is_valid_and_the_summary_names_it(self, tmp_path: Path) -> None:
        process = run_streamjury("config", "check", "--config", write_config(tmp_path))
        assert (process.returncode, process.stderr) == (0, "")
        assert "  panel    pythia (oracle) scores answer_relevance, " in process.stdout

    def test_the_summary_names_the_model_that_it_asks(self, tmp_path: Path) -> None:
        process = run_streamjury("config", "check", "--config", write_config(tmp_path, fee=FEE))
        assert "  panel    pythia (pythia at http://oracle.example:8443/v1) scores answer_relevance, " in process.stdout

    def test_problems_are_reported_at_its_keys(self, tmp_path: Path) -> None:
        process = run_streamjury("config", "check", "--config", write_config(tmp_path, seed=-1, sed=1))
        assert process.returncode == 2
        assert "judges.panel[0].seed: must be at least 0, not -1" in process.stderr
        assert "judges.panel[0].sed: unknown key; did you mean 'seed'?" in process.stderr
        process = run_streamjury("config", "check", "--config", write_config(tmp_path, criteria=["clarty"]))
        assert "judges.panel[0].criteria[0]: unknown criterion; did you mean 'clarity'?" in process.stderr

    def test_the_schema_has_its_keys(self) -> None:
        schema = json.loads(run_streamjury("config", "schema").stdout)
        assert schema["$defs"]["OracleJudgeConfig"]["required"] == ["kind", "name"]
        items = schema["$defs"]["JudgesConfig"]["properties"]["panel"]["items"]
        assert items["discriminator"]["mapping"]["oracle"] == "#/$defs/OracleJudgeConfig"


class TestEvaluate:
    def test_it_judges_in_processes_with_the_seed_of_the_run(self, tmp_path: Path, rows: Path) -> None:
        folder = tmp_path / "results"
        process = run_streamjury(
            "evaluate", rows, "--config", write_config(tmp_path), "--output", folder, "--processes", "2", "--seed", "7"
        )
        assert process.returncode == 0, process.stderr
        first, *lines = (folder / "results.jsonl").read_text(encoding="utf-8").splitlines()
        assert json.loads(first)["parameters"]["judges"]["panel"][0]["seed"] == 7
        judged = [json.loads(line) for line in lines if json.loads(line)["kind"] == "row"]
        assert len(judged) == len(ROWS)
        assert all("the oracle has spoken" in json.dumps(row) for row in judged)

    @pytest.mark.parametrize(
        ("oracle", "reason"),
        [
            ({"fee": FEE}, "rate limits of model judges need a single process"),
            ({"shy": True}, "the judge pythia runs in one process only"),
        ],
    )
    def test_a_kind_that_needs_one_process_is_not_run_in_several(
        self, tmp_path: Path, rows: Path, oracle: dict[str, Any], reason: str
    ) -> None:
        command = ["evaluate", rows, "--config", write_config(tmp_path, **oracle), "--output", tmp_path / "results"]
        process = run_streamjury(*command, "--processes", "2")
        assert process.returncode == 1
        assert f"{reason}; remove --processes" in process.stderr
        assert run_streamjury(*command).returncode == 0


class TestCost:
    def test_without_a_model_it_costs_nothing(self, tmp_path: Path) -> None:
        facts = collect_facts(write_config(tmp_path, seed=3))
        assert (facts["usd"], facts["basis"]) == (0.0, "no judge uses a model")
        assert (facts["models"], facts["identity"]) == ({}, ["oracle seed=3"])

    def test_with_a_fee_the_estimate_has_its_calls_and_its_price(self, tmp_path: Path) -> None:
        """Two records, each with 1,000 prompt tokens at $1,000 per million and two completion tokens at $0.50 each."""
        facts = collect_facts(write_config(tmp_path, fee=FEE))
        assert facts["usd"] == pytest.approx(2 * (1.0 + 2 * 0.5))
        assert "pythia 1000 prompt and 500000 completion" in facts["basis"]
        assert facts["models"] == {"pythia": ["delphi", "pythia", "oracle.example", 8443]}

    def test_the_cheaper_of_two_is_asked_first_when_the_budget_runs_low(self, tmp_path: Path) -> None:
        path = write_config(tmp_path)
        panel = [{"kind": "oracle", "name": "dear", "fee": FEE}, {"kind": "oracle", "name": "cheap"}]
        path.write_text(json.dumps({"judges": {"panel": panel}}), encoding="utf-8")
        assert collect_facts(path)["first"] == ["cheap"]
