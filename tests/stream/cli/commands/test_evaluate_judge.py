"""`streamjury evaluate --judge PROVIDER/MODEL`: judge a file with a model that is in no configuration."""

import json
from functools import partial
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from stream.cli.main import main
from stream.config.judge_kinds import JUDGE_KINDS
from stream.config.walk import kind_of
from stream.jobs import evaluate
from stream.service.setup.judge_reference import PROVIDERS, judge_section
from tests.parts.endpoints.judge_endpoint import (
    Body,
    JudgeEndpoint,
    Response,
    best_verdict,
    json_response,
    verdict_response,
)
from tests.stream.jobs.evaluate.results import lines_in

NOWHERE = "http://127.0.0.1:9/v1"


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STREAMJURY_CONFIG", raising=False)
    for provider in PROVIDERS.values():
        if provider.key is not None:
            monkeypatch.delenv(provider.key, raising=False)
    monkeypatch.setattr(evaluate, "evaluate", partial(evaluate.evaluate, pauses=()))
    Path("a.csv").write_text("question,answer,contexts\nIs it open?,It is.,It is open.\nAnd now?,It is.,It is open.\n")


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["evaluate", "a.csv", *map(str, arguments)])


def best_of_ollama(body: Body) -> Response:
    verdict = body["format"]["properties"]["verdict"]
    labels = [label for label in verdict.get("enum", ()) if label != "not_applicable"]
    best = labels[-1] if labels else dict.fromkeys(verdict["required"], True)
    content = json.dumps({"explanation": "So.", "verdict": best})
    return json_response({"message": {"role": "assistant", "content": content}, "done": True, "done_reason": "stop"})


def judges_of_the_run() -> list[str]:
    [first, *_rest] = lines_in(Path("a-results"))
    return list(first["evaluator"]["judges"])


def test_an_ollama_model_judges_without_a_configuration_and_without_a_key() -> None:
    with JudgeEndpoint(best_of_ollama) as endpoint:
        result = run("--judge", "ollama/qwen2.5:7b", "--base-url", endpoint.address)
        assert result.exit_code == 0, result.output
        assert set(endpoint.paths) == {"/api/chat"}
        assert {body["model"] for body in endpoint.calls} == {"qwen2.5:7b"}
        assert not any("authorization" in map(str.lower, headers) for headers in endpoint.headers)
    assert result.stdout.startswith("rows       2\ncomposite  1.0000, ")
    assert judges_of_the_run() == ["ollama/qwen2.5:7b"]


def test_a_mistral_model_uses_the_key_of_its_variable_and_its_dialect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MISTRAL_API_KEY", "k-123456")
    with JudgeEndpoint() as endpoint:
        arguments = ("--judge", "mistral/mistral-small", "--base-url", endpoint.base_url, "--seed", "7")
        result = run(*arguments, "--temperature", "0.5")
        assert result.exit_code == 0, result.output
        assert set(endpoint.paths) == {"/v1/chat/completions"}
        sent = {(body["model"], body["random_seed"], body["temperature"]) for body in endpoint.calls}
        assert sent == {("mistral-small", 7, 0.5)}
        keys = {
            value for headers in endpoint.headers for name, value in headers.items() if name.lower() == "authorization"
        }
        assert keys == {"Bearer k-123456"}
    for file in Path("a-results").iterdir():
        assert "k-123456" not in file.read_text(encoding="utf-8")


def test_several_models_make_a_panel_beside_judges_of_the_configuration() -> None:
    panel = [{"kind": "local", "name": "rules"}, {"kind": "local", "name": "other"}]
    Path("streamjury.yaml").write_text(yaml.safe_dump({"judges": {"panel": panel}, "criteria": {"use": ["rag"]}}))
    with JudgeEndpoint() as endpoint:
        names = ("rules", "openai/one", "vllm/two", "local")
        chosen = [argument for name in names for argument in ("--judge", name)]
        result = run(*chosen, "--base-url", endpoint.base_url)
        assert result.exit_code == 0, result.output
        assert {body["model"] for body in endpoint.calls} == {"one", "two"}
    assert judges_of_the_run() == ["rules", "openai/one", "vllm/two", "local"]


def test_a_configured_judge_of_that_name_takes_precedence() -> None:
    with JudgeEndpoint(best_verdict) as endpoint:
        judge = {"kind": "openai", "name": "openai/x", "model": "configured", "base_url": endpoint.base_url}
        Path("streamjury.yaml").write_text(yaml.safe_dump({"judges": {"panel": [judge]}}))
        result = run("--judge", "openai/x")
        assert result.exit_code == 0, result.output
        assert {body["model"] for body in endpoint.calls} == {"configured"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--judge", "mistral/mistral-small"),
            "--judge mistral/mistral-small: needs a key: set MISTRAL_API_KEY, as in",
        ),
        (("--judge", "anthropic/claude"), "needs a key: set ANTHROPIC_API_KEY"),
        (
            ("--judge", "mistrall/x"),
            "--judge mistrall/x: unknown provider; did you mean 'mistral'? Write provider/model",
        ),
        (("--judge", "nobody/x"), "as in ollama/qwen2.5:7b or mistral/mistral-small-latest"),
        (("--judge", "ollama/"), "has no model; add it after the slash, as in ollama/qwen2.5:7b"),
        (("--judge", "azure/mine"), "needs the URL of your endpoint: --base-url https://NAME.openai.azure.com/"),
        (("--judge", "ollama/x", "--base-url", "localhost"), "base_url: must be"),
        (("--judge", "gpt"), "--judge gpt: unknown judge"),
    ],
)
def test_a_model_that_cannot_be_called_is_an_error_with_the_next_step(arguments: tuple[str, ...], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert not Path("a-results").exists()


def test_all_problems_are_reported_at_once() -> None:
    result = run("--judge", "openai/x", "--judge", "nobody/x")
    assert len(result.stderr.splitlines()) == 2


def test_an_address_without_a_model_is_refused() -> None:
    result = run("--judge", "local", "--base-url", NOWHERE)
    assert result.exit_code == 2
    assert "--base-url needs a model given as --judge PROVIDER/MODEL" in result.stderr


def test_if_the_server_is_not_running_the_error_says_how_to_start_it() -> None:
    result = run("--judge", "ollama/qwen2.5:7b", "--base-url", "http://127.0.0.1:9")
    assert result.exit_code == 1
    assert "`ollama serve`" in result.stderr
    assert "`ollama pull qwen2.5:7b`" in result.stderr
    assert "no judge could be reached for 2" in result.stdout


def test_every_provider_is_a_judge_that_can_be_configured() -> None:
    sections = {kind_of(section): section for section in JUDGE_KINDS}
    for name, provider in PROVIDERS.items():
        content = judge_section(f"{name}/{provider.example}", {provider.key or "": "k"}, provider.address)
        judge = sections[content["kind"]].model_validate(content)
        assert judge.name == f"{name}/{provider.example}"
        assert judge.asked_model is not None


def test_an_invalid_judge_name_is_made_valid() -> None:
    assert judge_section("ollama/my model@home", {})["name"] == "ollama/my-model-home"
    assert len(judge_section(f"ollama/{'x' * 100}", {})["name"]) == 64


def test_the_verdicts_come_from_the_model() -> None:
    worst = {"none", "very unclear", "major parts missing", "verbose", "hallucinated", "harmful"}

    def respond(body: Body) -> Response:
        verdict = body["response_format"]["json_schema"]["schema"]["properties"]["verdict"]
        label = next((label for label in verdict.get("enum", ()) if label in worst), None)
        return best_verdict(body) if label is None else verdict_response(label)

    with JudgeEndpoint(respond) as endpoint:
        result = run("--judge", "vllm/m", "--base-url", endpoint.base_url)
    assert "statuses   unsafe 2" in result.stdout
