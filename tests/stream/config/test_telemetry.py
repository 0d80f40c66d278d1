"""Telemetry in the configuration: `config check` refuses what a worker would refuse at startup."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from stream.service.setup.config_file import ConfigError, load

SECRET = "Bearer hunter2"


def problems(tmp_path: Path, telemetry: dict[str, Any], **environ: str) -> dict[str, str]:
    file = tmp_path / "streamjury.yaml"
    file.write_text(yaml.safe_dump({"telemetry": telemetry}))
    with pytest.raises(ConfigError) as caught:
        load(file, environ)
    return {problem.path: problem.message for problem in caught.value.problems}


@pytest.mark.parametrize(
    ("telemetry", "words"),
    [
        ({"endpoint": "collector:4318"}, "must be an http or https URL"),
        ({"endpoint": "http://user:pw@collector:4318"}, "must be an http or https URL"),
        ({"endpoint": "http://collector:4318/v1/traces"}, "must be the base URL"),
        ({"endpoint": "http://collector:4317/here", "protocol": "grpc"}, "must have no path with gRPC"),
    ],
)
def test_an_address_that_cannot_be_a_collector_is_refused(
    tmp_path: Path, telemetry: dict[str, Any], words: str
) -> None:
    reported = problems(tmp_path, telemetry)
    assert words in reported["telemetry.endpoint"]
    assert "pw" not in str(reported)


@pytest.mark.parametrize(
    ("name", "protocol", "value"),
    [
        ("authorization", "http", f"{SECRET}\nX-Other: 1"),
        ("authorization", "grpc", f" {SECRET}"),
        ("two words", "http", SECRET),
        ("grpc-timeout", "grpc", SECRET),
    ],
)
def test_a_header_that_cannot_be_sent_is_named_without_its_value(
    tmp_path: Path, name: str, protocol: str, value: str
) -> None:
    telemetry = {"endpoint": "http://collector:4317", "protocol": protocol, "headers": {name: "${AUTH}"}}
    reported = problems(tmp_path, telemetry, AUTH=value)
    assert any("headers" in path for path in reported)
    assert "hunter2" not in str(reported)


def test_secrets_are_not_shown_and_reach_the_settings(tmp_path: Path) -> None:
    file = tmp_path / "streamjury.yaml"
    file.write_text("telemetry: {endpoint: 'http://collector:4318', headers: {authorization: '${AUTH}'}}")
    telemetry = load(file, {"AUTH": SECRET}).telemetry
    assert telemetry.headers["authorization"].get_secret_value() == SECRET
    assert "hunter2" not in repr(telemetry) + telemetry.model_dump_json()
