"""Sinks in the configuration: every problem at its path, and the section `telemetry` as a sink."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from stream.config.model import Config
from stream.config.sink_kinds import SINK_KINDS
from stream.errors import StageError
from stream.service.setup.config_file import ConfigError, load
from stream.service.sinks import make_sinks

COLLECTOR = {"kind": "telemetry", "endpoint": "http://collector:4318"}
FILE = {"kind": "jsonl", "path": "evaluations.jsonl"}


def problems(tmp_path: Path, sinks: Any, **sections: Any) -> dict[str, str]:
    file = tmp_path / "streamjury.yaml"
    file.write_text(yaml.safe_dump({"sinks": sinks, **sections}))
    with pytest.raises(ConfigError) as caught:
        load(file, {})
    return {problem.path: problem.message for problem in caught.value.problems}


def test_every_problem_is_listed_by_its_path(tmp_path: Path) -> None:
    sinks = [
        {"kind": "jsonl", "when_full": "explode"},
        {**COLLECTOR, "headers": {"x": "a\nb"}, "when_full": "wait"},
        {"kind": "telemetry", "name": "Über"},
        {"kind": "jsnol", "path": "x"},
        {"path": "x"},
        {**FILE, "queue": 0},
    ]
    reported = problems(tmp_path, sinks)
    assert set(reported) == {
        "sinks[0].path",
        "sinks[0].when_full",
        "sinks[1].headers.x",
        "sinks[1].when_full",
        "sinks[2].endpoint",
        "sinks[2].name",
        "sinks[3].kind",
        "sinks[4].kind",
        "sinks[5].queue",
    }


def test_two_sinks_of_one_name_are_refused(tmp_path: Path) -> None:
    reported = problems(tmp_path, [FILE, COLLECTOR, {**FILE, "path": "other.jsonl"}])
    assert reported == {"sinks": "sinks must have different names; [0] and [2] are the same"}


def test_the_section_telemetry_and_a_sink_of_that_name_are_refused(tmp_path: Path) -> None:
    reported = problems(tmp_path, [FILE, COLLECTOR], telemetry={"endpoint": "http://other:4318"})
    assert reported == {
        "sinks[1].name": "telemetry is the name of the sink in the telemetry section; choose another name, "
        "or remove one of them"
    }


def test_the_section_telemetry_is_a_sink_if_it_has_an_endpoint() -> None:
    section = {"endpoint": "http://collector:4318", "protocol": "grpc", "service_name": "s", "explanations": True}
    old = Config.model_validate({"telemetry": section}).sinks_by_place()
    new = Config.model_validate({"sinks": [{"kind": "telemetry", **section}]}).sinks_by_place()
    assert old == {"telemetry": new["sinks[0]"]}
    assert Config.model_validate({"telemetry": {"protocol": "grpc"}}).sinks_by_place() == {}
    assert Config.model_validate({"telemetry": {"protocol": "grpc"}, "sinks": [COLLECTOR]}).sinks


def test_a_sink_is_named_after_its_kind_unless_it_has_a_name() -> None:
    config = Config.model_validate({"sinks": [{**COLLECTOR, "name": "eu"}, COLLECTOR, FILE]})
    sinks = make_sinks(config, CollectorRegistry()).queued
    try:
        assert [sink.name for sink in sinks] == ["eu", "telemetry", "jsonl"]
        assert len({section.model_fields["kind"].default for section in SINK_KINDS}) == len(SINK_KINDS)
    finally:
        for sink in sinks:
            sink._sink.close(0.1)


def test_a_sink_that_cannot_work_is_reported_with_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(StageError, match=r"^sinks\[1\]\.endpoint: the OTLP exporter for http is not installed"):
        make_sinks(Config.model_validate({"sinks": [FILE, COLLECTOR]}), CollectorRegistry())


def test_without_sinks_there_are_no_sink_metrics() -> None:
    registry = CollectorRegistry()
    assert make_sinks(Config(), registry) == ([], [])
    assert list(registry.collect()) == []


LANGFUSE = {"kind": "langfuse", "public_key": "pk", "secret_key": "sk"}


def test_problems_of_a_langfuse_sink_are_listed_by_their_path(tmp_path: Path) -> None:
    sinks = [
        {"kind": "langfuse"},
        {**LANGFUSE, "name": "b", "host": "langfuse.example", "environment": "Prod", "level": "session"},
        {**LANGFUSE, "name": "c", "secret_key": "two words", "queue": 1, "batch": 0},
    ]
    reported = problems(tmp_path, sinks)
    assert set(reported) == {
        "sinks[0].public_key",
        "sinks[0].secret_key",
        "sinks[1].host",
        "sinks[1].environment",
        "sinks[1].level",
        "sinks[2].secret_key",
        "sinks[2].queue",
        "sinks[2].batch",
    }
    assert "two words" not in str(reported)


def test_a_group_that_another_reader_has_is_refused(tmp_path: Path) -> None:
    sinks = [
        {**LANGFUSE, "name": "a", "group": "streamjury-worker"},
        {**LANGFUSE, "name": "b"},
        {**LANGFUSE, "name": "c", "group": "streamjury-sink-b"},
    ]
    assert problems(tmp_path, sinks) == {
        "sinks[0].group": "must differ from worker.group",
        "sinks[2].group": "must differ from sinks[1].group",
    }
    archive = {"group": "streamjury-sink-langfuse"}
    assert problems(tmp_path, [LANGFUSE], archive=archive) == {"archive": "group must differ from sinks[0].group"}


def test_a_langfuse_sink_reads_the_topic_and_has_no_queue() -> None:
    made = make_sinks(Config.model_validate({"sinks": [LANGFUSE, FILE]}), CollectorRegistry())
    assert ([sink.name for sink in made.queued], [sink.name for sink in made.consumers]) == (["jsonl"], ["langfuse"])
