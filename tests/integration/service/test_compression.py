"""Topics with every compression codec can be read by all stages and commands."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from benchmarks.span_data import encode, make_trace
from sinks.metrics import Outcome, Stage
from stream.cli.main import main
from stream.config.model import Config
from stream.kafka.codecs import CODECS
from stream.kafka.topic_scan import TopicScan
from stream.service.service import Service
from tests.integration.pipeline import (
    JUDGING,
    count_archived,
    produce_all,
    read_json,
    to_create,
    topic_names,
    wait_until,
)
from tests.parts.kafka import KafkaBroker

RECORDS = 20


class Compressed:
    """An installation whose topics all use one codec, whatever its producers send."""

    def __init__(self, broker: KafkaBroker, codec: str, archive: Path) -> None:
        self.bootstrap, prefix = broker.bootstrap, f"{codec}-topics"
        self.names = topic_names(prefix) | {kind: f"{prefix}.{kind}" for kind in ("spans", "traces")}
        self.otlp = f"{prefix}.otlp"
        broker.create_topics(*to_create(self.names), self.otlp, config={"compression.type": codec})
        groups = {stage: {"group": f"{codec}-{stage}"} for stage in ("sampler", "worker", "monitor")}
        self.settings = {
            "kafka": {"bootstrap": broker.bootstrap},
            "topics": self.names,
            "input": {"otlp": {"topics": [self.otlp], "group": f"{codec}-assembler", "quiet_seconds": 0.2}},
            "sampling": {"rate": 1.0},
            "http": {"port": 0},
            "archive": {"url": f"sqlite:///{archive}", "group": f"{codec}-archivist"},
            **groups,
        }
        self.config = Config.model_validate(self.settings)

    def command(self, folder: Path, *arguments: str) -> Result:
        file = folder / "streamjury.yaml"
        file.write_text(json.dumps(self.settings))
        result = CliRunner().invoke(main, [*arguments, "--config", str(file)])
        assert result.exit_code == 0, result.output
        return result

    def count(self, topic: str) -> int:
        with TopicScan(self.config.kafka, self.names[topic], whole=True) as scan:
            return sum(1 for _ in scan.read())


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.slow
def test_every_consumer_reads_topics_of_this_codec(real_kafka: KafkaBroker, tmp_path: Path, codec: str) -> None:
    there = Compressed(real_kafka, codec, tmp_path / "archive.db")
    # One interaction more comes as a trace.
    values = [{"id": f"i-{n}", "question": "Is it open?", "answer": "It is open. " * 50} for n in range(1, RECORDS)]
    produce_all(there.bootstrap, there.otlp, [{"value": encode(make_trace(0))}])
    documents = [json.dumps(value).encode() for value in values]
    produce_all(there.bootstrap, there.names["interactions"], [{"value": value} for value in (*documents, b"{" * 200)])
    with Service(there.config, (Stage.ASSEMBLER, *JUDGING, Stage.ARCHIVIST)) as service:

        def all_seen() -> bool:
            service.check()
            observed = service.metrics.read_count(Stage.MONITOR, Outcome.SEEN) == RECORDS
            [monitor] = [stage for stage in service._stages if stage.stage is Stage.MONITOR]
            return observed and monitor.pulse.done >= 2 * RECORDS  # including its scores

        wait_until(all_seen, seconds=60, what="all stages have read all")
        wait_until(lambda: count_archived(tmp_path / "archive.db") == RECORDS, seconds=60, what="all are archived")
        wait_until(lambda: there.count("detection") > 0, seconds=30, what="the monitor has stored its state")
    with Service(there.config, [Stage.MONITOR]) as service:  # which starts from the stored state
        wait_until(lambda: service.health.ready().ok, seconds=30, what="a monitor that starts again is ready")
        service.check()
    assert (there.count("evaluations"), there.count("deadletter")) == (RECORDS, 1)
    tailed = there.command(tmp_path, "tail", "--from-beginning", "--json", "--limit", str(RECORDS))
    assert len(tailed.stdout.splitlines()) == RECORDS
    there.command(tmp_path, "audit")
    there.command(tmp_path, "replay", "--yes")
    assert len(read_json(there.bootstrap, there.names["evaluations"])) == RECORDS
    assert there.count("interactions") == RECORDS + 2
