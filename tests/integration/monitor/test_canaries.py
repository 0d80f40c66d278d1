"""Canaries have a separate lane, really reach the judges, and do not count as traffic."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sinks.metrics import Stage
from stream.cli.main import main
from stream.kafka.embedded import EmbeddedBroker
from stream.kafka.offsets import Partition
from stream.kafka.topic_scan import read_committed_offsets
from stream.monitor.canary_sender import CanarySender
from stream.service.service import Service
from stream.service.setup.config_file import load
from tests.integration.pipeline import StageProcess, produce_all, read_all, read_json, wait_until
from tests.parts.endpoints.judge_endpoint import Body, JudgeEndpoint, Response, verdict_response

TEXTS = (
    {"question": "Is it open?", "answer": "It is open.", "contexts": [{"text": "It is open."}]},
    {"question": "Is it far?", "answer": "It is far.", "contexts": [{"text": "It is far."}]},
)
PERIOD = 60.0


def worst_verdict(body: Body) -> Response:
    schema = body["response_format"]["json_schema"]["schema"]
    return verdict_response(schema["properties"]["verdict"]["enum"][0])


class Pipeline:
    """An embedded broker, an endpoint for a judge with a cache, and the configuration of both."""

    def __init__(self, bootstrap: str, endpoint: JudgeEndpoint, folder: Path) -> None:
        self.bootstrap, self.folder = bootstrap, folder
        canaries = "\n".join(json.dumps({"id": f"c{index}", **text}) for index, text in enumerate(TEXTS))
        (folder / "canaries.jsonl").write_text(canaries)
        judge = {"kind": "openai", "name": "gpt", "model": "m", "base_url": endpoint.base_url}
        content = {
            "kafka": {"bootstrap": bootstrap},
            "sampling": {"rate": 1.0},
            "criteria": {"use": ["rag.harmfulness"]},
            "judges": {"panel": [judge]},
            "detection": {"canaries": {"file": "canaries.jsonl", "every_minutes": PERIOD / 60}},
        }
        self.config = folder / "streamjury.yaml"
        self.config.write_text(json.dumps(content))

    def stage(self, command: str) -> StageProcess:
        log = self.folder / f"{command}.log"
        return StageProcess(command, bootstrap=self.bootstrap, log=log, config=self.config)

    def write(self, *names: str) -> None:
        """Write interactions whose texts are those of the canaries, in turn."""
        bodies = ({"id": name, "app": "shop", **TEXTS[index % 2]} for index, name in enumerate(names))
        records = ({"key": body["id"], "value": json.dumps(body)} for body in bodies)
        produce_all(self.bootstrap, "rag.interactions", records)

    def send_round(self, number: int) -> None:
        queued = len(read_all(self.bootstrap, "rag.sampled"))
        sender = CanarySender(load(self.config, {}))
        for fraction in (-0.1, 0.4, 0.9):
            sender.send_due((number + fraction) * PERIOD)
        # Closing waits for a moment only.
        wait_until(
            lambda: len(read_all(self.bootstrap, "rag.sampled")) == queued + len(TEXTS),
            seconds=30,
            what=f"the canaries of round {number} in the work queue",
        )
        sender.close()

    def evaluations(self, count: int) -> dict[str, dict[str, Any]]:
        """Return the evaluations by interaction once there are `count`."""
        published: list[dict[str, Any]] = []

        def enough() -> bool:
            published[:] = read_json(self.bootstrap, "rag.evaluations")
            return len(published) >= count

        wait_until(enough, seconds=60, what=lambda: f"{count} evaluations, not {len(published)}")
        assert len(published) == count
        return {evaluation["interaction_id"]: evaluation for evaluation in published}

    def wait_until_done(self, count: int) -> None:
        """Wait until the work queue has `count` records and the worker has finished them all."""
        config = load(self.config, {})
        queued: list[tuple[Partition, int]] = []
        reached: dict[Partition, int] = {}

        def done() -> bool:
            messages = read_all(self.bootstrap, "rag.sampled")
            queued[:] = [(Partition("rag.sampled", each.partition() or 0), each.offset() or 0) for each in messages]
            partitions = {partition for partition, _ in queued}
            reached.update(read_committed_offsets(config.kafka, config.worker.group, partitions))
            return len(queued) == count and all(reached[partition] > offset for partition, offset in queued)

        wait_until(done, seconds=60, what=lambda: f"{count} records done: queued {queued}, committed {reached}")

    def audit(self) -> dict[str, Any]:
        result = CliRunner().invoke(main, ["audit", "--json", "--config", str(self.config)])
        assert result.exit_code == 0, result.output
        report: dict[str, Any] = json.loads(result.stdout)
        return report


@pytest.fixture(autouse=True)
def _no_configuration_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STREAMJURY_CONFIG", raising=False)


@pytest.mark.slow
def test_canaries_bypass_the_cache_and_the_audit_balances(embedded_broker: EmbeddedBroker, tmp_path: Path) -> None:
    with JudgeEndpoint() as endpoint:
        subject = Pipeline(embedded_broker.bootstrap, endpoint, tmp_path)
        with subject.stage("sampler"), subject.stage("worker"):
            subject.write("a", "b")
            subject.evaluations(2)
            subject.write("c", "d")
            subject.evaluations(4)
            assert len(endpoint.calls) == 2, "the texts are in the cache"
            endpoint.respond = worst_verdict
            subject.send_round(1000)
            evaluations = subject.evaluations(6)
            assert len(endpoint.calls) == 4, "canaries are put to the judge all the same"
            subject.send_round(1000)
            subject.write("e", "f")
            subject.wait_until_done(10)
            evaluations = subject.evaluations(8)
            assert len(endpoint.calls) == 4, "what it said of canaries is not kept, nor are they judged twice"
        canaries = {name: evaluation for name, evaluation in evaluations.items() if evaluation["app"] == "canaries"}
        assert canaries.keys() == {"canary:c0:1000", "canary:c1:1000"}
        for canary in canaries.values():
            assert canary["sampling"] == {"probability": 1.0, "rule": "canary", "lane": "canary"}
            assert canary["tags"]["canary"] == canary["interaction_id"].split(":")[1]
            assert canary["composite"]["status"] == "unsafe"
        assert {
            evaluation["composite"]["status"] for name, evaluation in evaluations.items() if name not in canaries
        } == {"ok"}
        assert read_all(subject.bootstrap, "rag.critical") == [], "nobody is called for a canary"
        balance = subject.audit()
        assert balance["balanced"]
        assert (balance["interactions"], balance["direct"], balance["outcomes"]["scored"]) == (6, 0, 6)


@pytest.mark.slow
def test_canaries_without_workers_are_missing_after_two_rounds(
    embedded_broker: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A monitor without workers sends canaries, and no evaluation comes back."""
    monkeypatch.setattr("stream.monitor.canary_rounds._GRACE_SECONDS", 0.0)
    (tmp_path / "canaries.jsonl").write_text("\n".join(json.dumps({"id": name, **TEXTS[0]}) for name in "ab"))
    content = {
        "kafka": {"bootstrap": embedded_broker.bootstrap},
        "http": {"port": 0},
        "detection": {"canaries": {"file": "canaries.jsonl", "every_minutes": 0.05}},
    }
    (tmp_path / "streamjury.yaml").write_text(json.dumps(content))
    with Service(load(tmp_path / "streamjury.yaml", {}), [Stage.MONITOR]) as service:

        def missing() -> float | None:
            service.check()
            return service.registry.get_sample_value("streamjury_canaries_missing")

        wait_until(lambda: missing() == 0, seconds=30, what="the canaries are followed")
        wait_until(lambda: missing() == 2, seconds=30, what="both are missing")
