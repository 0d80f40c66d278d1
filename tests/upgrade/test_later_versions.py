"""Records of a later major version are refused with a clear reason, and never misread."""

import pytest
from prometheus_client import CollectorRegistry

from sinks.base import Headers
from sinks.metrics import Outcome, PipelineMetrics, ScoreMetrics, Stage
from stream.config.sections.stages import MonitorConfig
from stream.errors import RecordError
from stream.monitor.state import Monitor
from stream.records.envelope import read_sampling
from tests.upgrade.test_upgrade import read_recorded


def with_version(headers: Headers, version: bytes) -> Headers:
    return tuple((name, version if name == "sj-version" else value) for name, value in headers)


@pytest.mark.parametrize("version", [b"2", b"10", b"x", b"", b"\xff"])
def test_a_sampled_record_of_a_later_version_is_refused(version: bytes) -> None:
    with pytest.raises(RecordError, match="version") as caught:
        read_sampling(with_version(read_recorded("sampled").headers, version))
    assert caught.value.kind == "unsupported_version"


def test_a_sampled_record_without_a_version_is_of_version_1() -> None:
    headers = tuple(header for header in read_recorded("sampled").headers if header[0] != "sj-version")
    assert read_sampling(headers).rule == "checkout"


@pytest.mark.parametrize(
    ("schema", "outcome"), [(b"1", Outcome.SEEN), (None, Outcome.SEEN), (b"2", Outcome.DEADLETTER)]
)
def test_an_evaluation_of_a_later_version_is_not_read_as_ours(schema: bytes | None, outcome: Outcome) -> None:
    registry = CollectorRegistry()
    metrics = PipelineMetrics(registry)
    monitor = Monitor(MonitorConfig(), metrics, ScoreMetrics(registry))
    monitor.observe(read_recorded("evaluation-ok").value, schema)
    assert metrics.read_count(Stage.MONITOR, outcome) == 1
