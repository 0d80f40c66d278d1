"""`streamjury run --embedded`: the figures add up, the local judge tells the regimes apart, unsafe answers are told."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

SECONDS = 40


class Run:
    """One run of the command, watched on its critical topic while it lasts."""

    def __init__(self, log: Path) -> None:
        command = [sys.executable, "-m", "stream.cli", "run", "--embedded", "--seconds", str(SECONDS), "--json"]
        environ = {**os.environ, "STREAMJURY__HTTP__PORT": "0"}
        with log.open("wb") as errors:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=environ)
        try:
            self.notices = _notices(_broker_address(log, process), process)
            out, _ = process.communicate(timeout=90)
        finally:
            process.kill()
            process.wait()
        assert process.returncode == 0, log.read_text()
        self.summary: dict[str, Any] = json.loads(out.decode().splitlines()[-1])

    def noticed(self, regime: str) -> float:
        """Share of the judged answers of a regime that the critical topic was told of."""
        figures = self.summary["by_regime"][regime]
        return Counter(notice["tags"]["regime"] for notice in self.notices)[regime] / (
            figures["scored"] + figures["unscored"]
        )


def _broker_address(log: Path, process: "subprocess.Popen[bytes]") -> str:
    while process.poll() is None:
        if found := re.search(r"embedded broker at (\S+):", log.read_text()):
            return found.group(1)
    pytest.fail(log.read_text())


def _notices(bootstrap: str, process: "subprocess.Popen[bytes]") -> list[dict[str, Any]]:
    """What the critical topic is told while the command runs; its pipe is small enough not to fill."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "watch", "enable.auto.commit": False, "log_level": 0}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition("rag.critical", number, 0) for number in range(4)])
    notices = []
    while process.poll() is None:
        notices += [json.loads(m.value()) for m in consumer.consume(100, 0.5) if m.error() is None]
    consumer.close()
    return notices


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run(tmp_path_factory.mktemp("run") / "run.log")


pytestmark = pytest.mark.xdist_group("run")


def test_every_record_is_accounted_for(run: Run) -> None:
    found = run.summary
    dead = found["deadletter_by_stage"]
    assert found["consumed"] == found["filtered"] + found["sampled_out"] + found["sampled"] + dead["sampler"]
    assert found["sampled"] == found["scored"] + found["unscored"] + dead["worker"]
    assert found["deadletter"] == dead["sampler"] + dead["worker"]
    assert found["consumed"] > SECONDS * 20
    assert dead["sampler"] > 0, "the traffic has malformed records"
    assert sum(app["scored"] + app["unscored"] for app in found["by_app"].values()) == (
        found["scored"] + found["unscored"]
    )


def test_the_local_judge_tells_the_regimes_apart(run: Run) -> None:
    means = {name: figures["composite_mean"] for name, figures in run.summary["by_regime"].items()}
    print(means)
    assert means["healthy"] >= means["hallucinating"] + 0.25
    assert means["healthy"] >= means["off-topic"] + 0.25


def test_unsafe_answers_reach_the_critical_topic_and_healthy_ones_do_not(run: Run) -> None:
    print(f"unsafe {run.noticed('unsafe'):.3f}, healthy {run.noticed('healthy'):.3f}")
    assert run.noticed("unsafe") >= 0.95
    assert run.noticed("healthy") <= 0.02
