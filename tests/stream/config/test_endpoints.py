"""Judges of every endpoint kind in the configuration: their API keys, addresses and verdicts."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from judges.evaluator import Submission
from judges.values.evaluation import Evaluation, Sampling, Status
from judges.values.interaction import Interaction
from sinks.telemetry import JudgeModel
from stream.config.judge_kinds.model import ModelJudgeConfig
from stream.config.model import Config
from stream.service.setup.config_file import ConfigError, dump, load
from stream.service.setup.evaluator import build_evaluator
from stream.service.sinks import judge_models
from tests.parts.endpoints.judge_endpoint import Body, JudgeEndpoint, Response, json_response

KEY = "sk-hunter2-hunter2"
OPENAI = {"kind": "openai", "name": "a", "model": "m", "base_url": "http://localhost/v1"}
ANTHROPIC = {"kind": "anthropic", "name": "b", "model": "claude"}
OLLAMA = {"kind": "ollama", "name": "c", "model": "qwen2.5:7b"}
LOCAL = {"kind": "local"}
KINDS = {"openai": OPENAI, "anthropic": ANTHROPIC, "ollama": OLLAMA}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "streamjury.yaml"


def read(file: Path, *judges: Any, environ: Mapping[str, str] | None = None, seats: str = "panel") -> Config:
    file.write_text(json.dumps({"judges": {seats: judges}}))
    return load(file, environ or {})


def problems(file: Path, *judges: Any, **options: Any) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        read(file, *judges, **options)
    assert KEY not in f"{caught.value} {caught.value.problems}"
    return {problem.path: problem.message for problem in caught.value.problems}


def judge_in(config: Config) -> ModelJudgeConfig:
    judge = config.judges.panel[0]
    assert isinstance(judge, ModelJudgeConfig)
    return judge


# Keys


@pytest.mark.parametrize("seats", ["panel", "reserves"])
@pytest.mark.parametrize("key", [KEY, f"${{NOT_SET:-{KEY}}}", "***"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_key_in_the_file_is_refused(file: Path, kind: str, key: str, seats: str) -> None:
    reported = problems(file, {**KINDS[kind], "api_key": key}, seats=seats)
    assert reported == {
        f"judges.{seats}[0].api_key": "must come from the environment, as ${NAME}, or from a file named by api_key_file"
    }


def test_a_key_comes_from_the_environment(file: Path) -> None:
    by_reference = read(file, {**OPENAI, "api_key": "${MY_KEY}"}, environ={"MY_KEY": KEY})
    by_key = read(file, OPENAI, environ={"STREAMJURY__JUDGES__PANEL__0__API_KEY": KEY})
    by_panel = read(file, LOCAL, environ={"STREAMJURY__JUDGES__PANEL": json.dumps([{**OPENAI, "api_key": KEY}])})
    for config in (by_reference, by_key, by_panel):
        key = judge_in(config).api_key
        assert key is not None
        assert key.get_secret_value() == KEY
        assert KEY not in f"{dump(config)} {config!r}"


def test_an_empty_key_is_none(file: Path) -> None:
    assert judge_in(read(file, {**OPENAI, "api_key": "${NOT_SET:-}"})).api_key is None
    assert judge_in(read(file, {**OPENAI, "api_key": None})).api_key is None


def test_a_key_comes_from_a_file(file: Path, tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(f"  {KEY}\n")
    with JudgeEndpoint() as endpoint:
        config = read(file, {**OPENAI, "base_url": endpoint.base_url, "api_key_file": str(path)})
        evaluate(config)
        assert endpoint.headers[0]["authorization"] == f"Bearer {KEY}"
    assert KEY not in f"{dump(config)} {config!r}"


@pytest.mark.parametrize("content", [b"", b" \n", f"{KEY}\n{KEY}".encode(), f"{KEY} ключ".encode(), b"\xff\x00", None])
def test_a_file_without_a_key_is_a_problem_that_names_the_path_and_not_the_content(
    file: Path, tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "key"
    if content is not None:
        path.write_bytes(content)
    reported = problems(file, {**OPENAI, "api_key_file": str(path)})
    assert reported.keys() == {"judges.panel[0].api_key_file"}
    assert str(path) in reported["judges.panel[0].api_key_file"]
    assert "hunter2" not in str(reported)


@pytest.mark.parametrize("path", ["/", "a\0b"])
def test_a_path_that_is_not_a_file_is_a_problem(file: Path, path: str) -> None:
    assert "cannot be read" in problems(file, {**OPENAI, "api_key_file": path})["judges.panel[0].api_key_file"]


def test_a_key_and_a_key_file_exclude_each_other(file: Path) -> None:
    reported = problems(file, {**OPENAI, "api_key": "${K}", "api_key_file": "/key"}, environ={"K": KEY})
    assert reported == {"judges.panel[0].api_key_file": "cannot be used together with api_key; remove one of them"}


# Addresses


@pytest.mark.parametrize(
    ("judge", "address"),
    [
        (OPENAI, "http://localhost/v1"),
        ({**OPENAI, "base_url": None, "preset": "mistral"}, "https://api.mistral.ai/v1"),
        ({**OPENAI, "preset": "mistral"}, "http://localhost/v1"),
        (ANTHROPIC, "https://api.anthropic.com"),
        ({**ANTHROPIC, "base_url": "http://localhost:1"}, "http://localhost:1"),
        (OLLAMA, "http://localhost:11434"),
    ],
)
def test_an_address_may_be_left_out_if_there_is_a_default(file: Path, judge: Any, address: str) -> None:
    assert judge_in(read(file, judge)).address == address


@pytest.mark.parametrize("preset", [None, "azure"])
def test_an_address_is_required_if_there_is_no_default(file: Path, preset: str | None) -> None:
    reported = problems(file, {**OPENAI, "base_url": None, "preset": preset})
    assert reported.keys() == {"judges.panel[0].base_url"}
    assert reported["judges.panel[0].base_url"].startswith("is required unless a preset (other than azure)")


def test_a_key_that_is_a_word_of_another_suggests_it(file: Path) -> None:
    reported = problems(file, {**OPENAI, "url": "http://localhost/v1"})
    assert reported == {"judges.panel[0].url": "unknown key; did you mean 'base_url'?"}


@pytest.mark.parametrize(
    ("judge", "base_url"),
    [
        (OPENAI, "http://h/v1/chat/completions"),
        (ANTHROPIC, "http://h/v1"),
        (ANTHROPIC, "http://h/v1/messages/"),
        (OLLAMA, "http://h/api"),
        (OLLAMA, "http://h:11434/v1"),
    ],
)
def test_an_address_that_includes_the_api_path_is_refused_with_advice(file: Path, judge: Any, base_url: str) -> None:
    reported = problems(file, {**judge, "base_url": base_url})
    assert "must end before" in reported["judges.panel[0].base_url"]


def test_a_proxy_with_a_password_is_refused(file: Path) -> None:
    reported = problems(file, {**OPENAI, "proxy": f"http://me:{KEY}@proxy:3128"})
    assert reported.keys() == {"judges.panel[0].proxy"}


def test_options_that_an_api_does_not_accept_are_refused(file: Path) -> None:
    assert problems(file, {**ANTHROPIC, "temperature": 1.5}) == {
        "judges.panel[0].temperature": "must be at most 1 for this API, not 1.5"
    }
    assert problems(file, {**OLLAMA, "preset": "ollama"}).keys() == {"judges.panel[0].preset"}


# Verdicts and traces


def evaluate(config: Config) -> Evaluation:
    submission = Submission(
        interaction=Interaction(id="x", question="How long?", answer="Two years.", contexts=(), history=()),
        sampling=Sampling(),
    )

    async def once() -> Evaluation:
        evaluator = build_evaluator(config)
        try:
            return await evaluator.evaluate(submission, deadline=30, on_unsafe=lambda _: None)
        finally:
            await evaluator.aclose()

    return asyncio.run(once())


def best(body: Body) -> Response:
    """Return the best verdict in the form of the API."""
    schema = body["format"] if "format" in body else body["tools"][0]["input_schema"]
    verdict = {"explanation": "It is so.", "verdict": schema["properties"]["verdict"]["enum"][0]}
    if "format" in body:
        return json_response({"message": {"content": json.dumps(verdict)}, "done_reason": "stop"})
    return json_response({"content": [{"type": "tool_use", "input": verdict}], "stop_reason": "tool_use"})


@pytest.mark.parametrize("kind", ["anthropic", "ollama"])
def test_a_judge_of_the_other_kinds_gives_verdicts(file: Path, kind: str) -> None:
    with JudgeEndpoint(best) as endpoint:
        judge = {**KINDS[kind], "base_url": endpoint.address, "api_key": "${K}", "max_tokens": 77}
        evaluation = evaluate(read(file, judge, environ={"K": KEY}))
    assert evaluation.dimensions["clarity"].status is Status.SCORED
    assert KEY in str(endpoint.headers[0])
    assert "77" in str(endpoint.calls[0])


def test_traces_name_the_provider_and_the_address(file: Path) -> None:
    azure = {**OPENAI, "name": "z", "preset": "azure", "base_url": "https://me.openai.azure.com/openai/v1"}
    models = judge_models(read(file, OPENAI, ANTHROPIC, OLLAMA, azure).judges)
    assert models == {
        "a": JudgeModel(provider="openai", model="m", address="localhost", port=80),
        "b": JudgeModel(provider="anthropic", model="claude", address="api.anthropic.com", port=443),
        "c": JudgeModel(provider="ollama", model="qwen2.5:7b", address="localhost", port=11434),
        "z": JudgeModel(provider="azure.ai.openai", model="m", address="me.openai.azure.com", port=443),
    }
