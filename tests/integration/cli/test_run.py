"""`streamjury run --embedded`: the figures add up, the local judge separates the regimes, unsafe answers are notified.

Failing judges, and the records a run still waits for, are reported too.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.parts.local_judge import LOCAL_JUDGE
from tests.parts.patience import patience

SECONDS = 40
ENVIRON = {**os.environ, **LOCAL_JUDGE, "STREAMJURY__HTTP__PORT": "0"}


class Run:
    """One run of the command; its critical topic is read meanwhile."""

    def __init__(self, log: Path) -> None:
        command = [sys.executable, "-m", "stream.cli.main", "run", "--embedded", "--seconds", str(SECONDS), "--json"]
        with (
            log.open("wb") as errors,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=ENVIRON) as process,
        ):
            try:
                self.notices = _notices(_broker_address(log, process), process)
                out, _ = process.communicate(timeout=90 * patience())
            finally:
                process.kill()
        assert process.returncode == 0, log.read_text()
        self.summary: dict[str, Any] = json.loads(out.decode().splitlines()[-1])

    def notified_share(self, regime: str) -> float:
        """Return the share of the judged answers of a regime that have a notice on the critical topic."""
        figures = self.summary["by_regime"][regime]
        return Counter(notice["tags"]["regime"] for notice in self.notices)[regime] / (
            figures["scored"] + figures["unscored"]
        )


def _broker_address(log: Path, process: "subprocess.Popen[bytes]") -> str:
    while process.poll() is None:
        if match := re.search(r"embedded broker at (\S+:\d+)", log.read_text()):
            return match.group(1)
    pytest.fail(log.read_text())


def _notices(bootstrap: str, process: "subprocess.Popen[bytes]") -> list[dict[str, Any]]:
    """Read the critical topic while the command runs; its pipe is small enough not to fill."""
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


pytestmark = [pytest.mark.xdist_group("run"), pytest.mark.slow]


def test_a_run_with_canaries_ends_when_everything_is_judged(tmp_path: Path) -> None:
    """The monitor counts canaries separately, and they are not among the records of the traffic."""
    canaries = {"file": str(Path("docs/examples/canaries.jsonl").resolve()), "every_minutes": 0.25}
    (tmp_path / "streamjury.json").write_text(json.dumps({"detection": {"canaries": canaries}}))
    options = ["--embedded", "--seconds", "8", "--json", "--config", str(tmp_path / "streamjury.json")]
    ended = subprocess.run(
        [sys.executable, "-m", "stream.cli.main", "run", *options],
        env=ENVIRON,
        capture_output=True,
        text=True,
        timeout=120 * patience(),
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout.splitlines()[-1])["left"] == 0


def test_every_record_is_accounted_for(run: Run) -> None:
    summary = run.summary
    dead = summary["deadletter_by_stage"]
    assert summary["consumed"] == summary["filtered"] + summary["sampled_out"] + summary["sampled"] + dead["sampler"]
    assert summary["sampled"] == summary["scored"] + summary["unscored"] + dead["worker"]
    assert summary["deadletter"] == dead["sampler"] + dead["worker"]
    assert summary["left"] == 0
    assert summary["consumed"] > SECONDS * 10, "the traffic of a busy machine may be late, but not by half"
    assert summary["deadletter"] > 0, "the traffic has malformed records"
    assert sum(app["scored"] + app["unscored"] for app in summary["by_app"].values()) == (
        summary["scored"] + summary["unscored"]
    )


def test_the_local_judge_separates_the_regimes(run: Run) -> None:
    means = {name: figures["composite_mean"] for name, figures in run.summary["by_regime"].items()}
    print(means)
    assert means["healthy"] >= means["hallucinating"] + 0.25
    assert means["healthy"] >= means["off-topic"] + 0.25


def test_unsafe_answers_reach_the_critical_topic_and_healthy_ones_do_not(run: Run) -> None:
    print(f"unsafe {run.notified_share('unsafe'):.3f}, healthy {run.notified_share('healthy'):.3f}")
    assert run.notified_share("unsafe") >= 0.95
    assert run.notified_share("healthy") <= 0.02


@pytest.fixture
def endpoint() -> Iterator[socket.socket]:
    """A bound socket: nothing listens on it, or a listener never answers."""
    with closing(socket.socket()) as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound


def start(folder: Path, endpoint: socket.socket, drain_seconds: float = 1) -> "tuple[subprocess.Popen[bytes], Path]":
    """Start a run of five seconds whose only judge is at an address; return it and its log."""
    url = f"http://127.0.0.1:{endpoint.getsockname()[1]}/v1"
    judge = {"kind": "openai", "name": "small", "model": "m", "base_url": url, "timeout_seconds": 50}
    config, log = folder / "streamjury.yaml", folder / "run.log"
    config.write_text(
        json.dumps({"judges": {"panel": [judge]}, "worker": {"drain_seconds": drain_seconds}, "http": {"port": 0}})
    )
    command = [sys.executable, "-m", "stream.cli.main", "run", "--embedded", "--json", "--seconds", "5", "--rate", "5"]
    with log.open("wb") as errors:
        return subprocess.Popen([*command, "-c", str(config)], stdout=subprocess.PIPE, stderr=errors), log


def read_summary(process: "subprocess.Popen[bytes]", status: int) -> dict[str, Any]:
    """Wait for a run to end with this status, and return its summary."""
    out, _ = process.communicate(timeout=60 * patience())
    assert process.returncode == status
    summary: dict[str, Any] = json.loads(out.decode().splitlines()[-1])
    judged = summary["scored"] + summary["unscored"] + summary["deadletter_by_stage"]["worker"]
    assert summary["sampled"] == judged + summary["left"]
    return summary


def test_an_unreachable_judge_is_logged(endpoint: socket.socket, tmp_path: Path) -> None:
    process, log = start(tmp_path, endpoint)
    summary = read_summary(process, 0)
    assert summary["left"] > 0
    warnings = re.findall(
        r"WARNING .* judge small: judge_unavailable, \d+ verdicts lost.*: .*ConnectError", log.read_text()
    )
    assert 1 <= len(warnings) <= 2, "at once, and what came after at the end"
    assert re.search(r"\bparked=[1-9]", log.read_text())


@pytest.mark.parametrize(("signals", "status"), [(1, 0), (2, 130)])
def test_a_run_with_slow_judges_reports_what_it_waits_for_and_keeps_its_summary(
    endpoint: socket.socket, tmp_path: Path, signals: int, status: int
) -> None:
    endpoint.listen(512)
    endpoint.settimeout(60 * patience())
    # The second Ctrl-C comes while the run still waits, not after.
    process, log = start(tmp_path, endpoint, drain_seconds=1 if signals == 1 else 40)
    # A worker that stops finishes only records that a judge was asked about.
    connection, _ = endpoint.accept()
    with connection:
        steps = (r"traffic ended; finishing \d+ records", r"stage: finishing \d+ records, for up to \d+ s")
        for words in steps[:signals]:
            while not re.search(f"{words}; Ctrl-C abandons them", log.read_text()):
                assert process.poll() is None, log.read_text()
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
        assert read_summary(process, status)["left"] > 0
    assert log.read_text().count("not finished in time") == (1 if signals == 1 else 0)
