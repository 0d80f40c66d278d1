"""The configuration values that the log redacts."""

from pathlib import Path

from stream.config.model import Config
from stream.config.secrets import find_secrets


def test_every_password_key_and_token_is_found_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("from-a-file\n")
    options = {
        "security.protocol": "SASL_SSL",
        "sasl.username": "streamjury",
        "sasl.password": "of-kafka",
        "ssl.key.location": "/etc/kafka/client.key",
        "ssl.key.password": "of-the-key",
    }
    endpoints = [
        {
            "kind": "openai",
            "name": "a",
            "model": "m",
            "base_url": "http://localhost",
            "api_key": "from-the-environment",
        },
        {"kind": "openai", "name": "b", "model": "m", "base_url": "http://localhost", "api_key_file": str(file)},
        {
            "kind": "openai",
            "name": "c",
            "model": "m",
            "base_url": "http://localhost",
            "api_key_file": str(tmp_path / "missing"),
        },
    ]
    config = Config.model_validate(
        {
            "kafka": {"options": options},
            "judges": {"panel": endpoints[:1], "reserves": endpoints[1:]},
            "http": {"token": "of-metrics"},
            "telemetry": {"endpoint": "http://localhost:4318", "headers": {"x-key": "of-telemetry"}},
            "sinks": [
                {"kind": "telemetry", "name": "second", "endpoint": "http://b", "headers": {"x-key": "of-a-sink"}}
            ],
        }
    )
    assert find_secrets(config) == {
        "of-kafka",
        "of-the-key",
        "from-the-environment",
        "from-a-file",
        "of-metrics",
        "of-telemetry",
        "of-a-sink",
    }


def test_the_defaults_have_no_secrets() -> None:
    assert find_secrets(Config()) == frozenset()
