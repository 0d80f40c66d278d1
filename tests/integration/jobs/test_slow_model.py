"""Slow models: rows of a file wait for them, and a timeout names the key to change."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from stream.config.model import Config
from stream.jobs.evaluate import EvaluateRequest, evaluate
from tests.parts.endpoints.judge_endpoint import JudgeEndpoint, best_verdict
from tests.parts.llama import LlamaServer
from tests.parts.patience import patience
from tests.stream.jobs.evaluate.results import interaction, judge, write_rows


def config_of(base_url: str, **options: object) -> Config:
    panel = [{"kind": "openai", "name": "slow", "model": "m", "base_url": base_url, **options}]
    # The deadline of a record on the stream does not limit a row.
    settings = {"criteria": {"use": ["rag"]}, "judges": {"panel": panel}, "worker": {"deadline_seconds": 0.1}}
    return Config.model_validate(settings)


@pytest.mark.slow
def test_a_row_waits_for_a_model_on_this_machine(llama_server: LlamaServer, tmp_path: Path) -> None:
    """Whether a model of 135M gives verdicts is another matter: none of its calls is refused time."""
    file = write_rows(tmp_path / "one.jsonl", [interaction(0)])
    # How long a call takes depends on what else runs here; what a call may take is tested below.
    config = config_of(llama_server.base_url, timeout_seconds=600, max_tokens=16)
    config = Config.model_validate(
        config.model_dump(exclude_unset=True) | {"criteria": {"use": ["rag.clarity", "rag.harmfulness"]}}
    )
    outcome = evaluate(config, EvaluateRequest(file=str(file), folder=tmp_path / "out"))
    assert (outcome.judged, outcome.missed, outcome.problems) == (1, 0, [])


def test_a_model_that_answers_one_call_at_a_time_is_asked_within_the_time_of_one_call(tmp_path: Path) -> None:
    """Twelve sequential calls of 0.2 s each, where each may take 1.5 s."""
    file = write_rows(
        tmp_path / "two.jsonl", (interaction(number, answer=f"rec-{number} it is.") for number in range(2))
    )
    with JudgeEndpoint(lambda body: replace(best_verdict(body), delay=0.2)) as endpoint:
        config = config_of(endpoint.base_url, timeout_seconds=1.5 * patience(), limits={"concurrency": 1})
        outcome = judge(file, tmp_path / "out", config)
    assert (outcome.judged, outcome.failed) == (2, 0)
    assert len(endpoint.calls) == 12


def test_a_model_that_takes_too_long_is_called_slow_and_the_keys_are_named(tmp_path: Path) -> None:
    file = write_rows(tmp_path / "one.jsonl", [interaction(0)])
    with JudgeEndpoint(lambda body: replace(best_verdict(body), delay=3.0)) as endpoint:
        outcome = judge(file, tmp_path / "out", config_of(endpoint.base_url, timeout_seconds=0.2))
    assert outcome.missed == 1
    [problem] = outcome.problems
    assert problem.startswith("row 1: all judges were too slow: ")
    assert "gave no answer within 0.2 s" in problem
    assert problem.endswith("; raise the judge's timeout_seconds, or lower its limits.concurrency")
    assert json.loads((tmp_path / "out/results.jsonl").read_text().splitlines()[1])["again"] is True
