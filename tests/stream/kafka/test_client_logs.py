"""librdkafka's log lines go through the program's log, never directly to standard error."""

import ast
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from stream.config.model import Config
from stream.errors import StageError
from stream.kafka import topic_scan
from stream.kafka.topic_scan import TopicScan
from tests.parts.patience import patience

CLIENTS = {"Consumer", "Producer", "AdminClient"}
# The embedded broker runs in a separate process without a log.
EXEMPT = ["stream/kafka/embedded.py"]
ROOT = Path(__file__).parents[3]


def clients_without_a_logger() -> Iterator[str]:
    for path in (ROOT / "stream").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for call in ast.walk(ast.parse(text)) if "from confluent_kafka" in text else ():
            if isinstance(call, ast.Call) and _name(call) in CLIENTS and not _has_logger(call):
                yield str(path.relative_to(ROOT))


def _name(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _has_logger(call: ast.Call) -> bool:
    return any(keyword.arg == "logger" for keyword in call.keywords)


def test_every_client_is_given_a_logger() -> None:
    assert list(clients_without_a_logger()) == EXEMPT


def test_a_scan_without_a_broker_logs_the_lines_of_its_client(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_scan, "_CALL_SECONDS", 0.5 * patience())
    kafka = Config.model_validate({"kafka": {"bootstrap": "127.0.0.1:1"}}).kafka
    with caplog.at_level(logging.INFO), TopicScan(kafka, "rag.evaluations") as scan:
        for _ in range(2):
            with pytest.raises(StageError):
                list(scan.read())
    refused = {record.name for record in caplog.records if "Connection refused" in record.getMessage()}
    assert refused == {"stream.kafka.topic_scan"}
    assert capfd.readouterr().err == ""
