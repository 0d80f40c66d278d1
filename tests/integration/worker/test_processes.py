"""`streamjury worker --processes 2`: one worker of two processes that are killed, stopped and counted together."""

import json
import os
import re
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from stream.kafka.embedded import EmbeddedBroker
from tests.integration.pipeline import (
    StageProcess,
    produce_all,
    read_all,
    read_json,
    to_create,
    topic_names,
    wait_until,
)
from tests.parts import local_http
from tests.parts.endpoints.judge_endpoint import JudgeEndpoint, best_verdict, delayed
from tests.parts.kafka import KafkaBroker
from tests.parts.patience import patience

PROCESSES = ("worker-1", "worker-2")
START_SECONDS = 120.0
WORK_SECONDS = 90.0
PARTITIONS = 4
RUN_AHEAD = 16
DIMENSIONS = 6


class ManyProcesses:
    """A running worker of two processes, with its log and its pages."""

    def __init__(self, stage: StageProcess) -> None:
        self.stage = stage

    @property
    def url(self) -> str:
        wait_until(lambda: self.stage.has_logged("metrics and health at"), seconds=START_SECONDS, what=self.log)
        match = re.search(r"metrics and health at (\S+)", self.log())
        assert match is not None
        return match[1]

    def log(self) -> str:
        return self.stage.log.read_text()

    def pid(self, name: str) -> int:
        """Return the pid of the process that has this name now."""
        return int(re.findall(rf"{name} has the process id (\d+)", self.log())[-1])

    def is_ready(self) -> bool:
        return local_http.get(f"{self.url}/readyz", timeout=30 * patience()).is_success

    def wait_until_ready(self) -> None:
        wait_until(self.is_ready, seconds=START_SECONDS, what=lambda: f"all are ready: {self.log()}")

    def read_counter(self, name: str, **labels: str) -> Counter[str]:
        """Return a counter by process."""
        counts: Counter[str] = Counter()
        for family in text_string_to_metric_families(
            local_http.get(f"{self.url}/metrics", timeout=30 * patience()).text
        ):
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    counts[sample.labels["process"]] += int(sample.value)
        return counts

    def read_consumed(self) -> Counter[str]:
        return self.read_counter("streamjury_records_total", stage="worker", outcome="consumed")


def is_running(pid: int) -> bool:
    """Return whether the process is running; a zombie does not count."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@contextmanager
def start_worker(
    broker: EmbeddedBroker | KafkaBroker, folder: Path, endpoint: JudgeEndpoint, **worker: object
) -> Iterator[tuple[ManyProcesses, dict[str, str]]]:
    """Start two processes on separate topics; yield them and the topic names."""
    names = topic_names(folder.name.replace("_", "-"))
    if isinstance(broker, EmbeddedBroker):
        broker.make_topics(to_create(names))
    else:
        broker.create_topics(*to_create(names), partitions=PARTITIONS)
    config = folder / "worker.json"
    judge = {"kind": "openai", "name": "judge", "model": "m", "base_url": endpoint.base_url}
    section = {"group": names["sampled"], "concurrency": 8, "run_ahead": RUN_AHEAD, **worker}
    settings = {"topics": names, "criteria": {"use": ["rag"]}, "judges": {"panel": [judge]}, "worker": section}
    config.write_text(json.dumps(settings))
    process = StageProcess(
        "worker",
        bootstrap=broker.bootstrap,
        log=folder / "worker.log",
        config=config,
        options=("--processes", "2"),
    )
    with process:
        yield ManyProcesses(process), names


def write_records(bootstrap: str, topic: str, numbers: range) -> set[str]:
    """Write the same number of records to each partition, so that both processes have work."""
    contexts = [{"text": "All shops are open."}]
    documents = [
        {"id": f"rec-{number:04}", "question": f"Is shop {number} open?", "answer": "Yes.", "contexts": contexts}
        for number in numbers
    ]
    records = [
        {"key": document["id"], "value": json.dumps(document).encode(), "partition": number % PARTITIONS}
        for number, document in enumerate(documents)
    ]
    produce_all(bootstrap, topic, records)
    return {document["id"] for document in documents}


def count_evaluations(bootstrap: str, topic: str) -> Counter[str]:
    """Count the evaluations of each record."""
    return Counter(evaluation["interaction_id"] for evaluation in read_json(bootstrap, topic))


@pytest.mark.slow
def test_two_processes_share_the_work_and_answer_as_one(embedded_broker: EmbeddedBroker, tmp_path: Path) -> None:
    """Every record is judged once, by both; one page has the metrics of both; SIGTERM drains both."""
    with (
        JudgeEndpoint(lambda body: delayed(best_verdict(body), 0.02)) as endpoint,
        start_worker(embedded_broker, tmp_path, endpoint, instance="node") as (worker, names),
    ):
        worker.wait_until_ready()
        ids = write_records(embedded_broker.bootstrap, names["sampled"], range(80))
        wait_until(lambda: worker.read_consumed().total() >= len(ids), seconds=WORK_SECONDS, what=worker.log)
        assert count_evaluations(embedded_broker.bootstrap, names["evaluations"]) == Counter(ids)
        read_consumed = worker.read_consumed()
        assert read_consumed.total() == len(ids)
        assert set(read_consumed) == set(PROCESSES), "both have partitions"
        verdicts = worker.read_counter("streamjury_judge_verdicts_total", judge="judge")
        assert verdicts.total() == DIMENSIONS * len(ids)
        assert worker.read_counter("streamjury_process_restarts_total") == Counter()
        pids = [worker.pid(name) for name in PROCESSES]
        more = write_records(embedded_broker.bootstrap, names["sampled"], range(80, 200))
        wait_until(lambda: worker.read_consumed().total() > len(ids), seconds=WORK_SECONDS, what=worker.log)
        assert worker.stage.terminate(WORK_SECONDS) == 0, worker.log()
    log = worker.log()
    assert not any(map(is_running, pids))
    assert log.count("worker started with 2 processes") == 1
    for name in PROCESSES:
        assert re.search(rf"INFO    {name} stream\.kafka\.consume_produce: assigned: ", log), log
    counts = count_evaluations(embedded_broker.bootstrap, names["evaluations"])
    assert set(counts) <= ids | more
    assert max(counts.values()) == 1


@pytest.mark.slow
def test_a_killed_process_is_started_again_and_nothing_is_lost_or_doubled(
    real_kafka: KafkaBroker, tmp_path: Path
) -> None:
    with (
        JudgeEndpoint(lambda body: delayed(best_verdict(body), 0.05)) as endpoint,
        start_worker(real_kafka, tmp_path, endpoint) as (worker, names),
    ):
        worker.wait_until_ready()
        ids = write_records(real_kafka.bootstrap, names["sampled"], range(400))
        wait_until(lambda: len(worker.read_consumed()) == 2, seconds=WORK_SECONDS, what=lambda: f"both: {worker.log()}")
        victim = worker.pid("worker-2")
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda: not worker.is_ready(), seconds=10, what="not ready while one is missing")
        assert local_http.get(f"{worker.url}/healthz", timeout=30 * patience()).is_success, (
            "it can still come to its work"
        )
        restarts = Counter({"worker-2": 1})
        wait_until(
            lambda: worker.read_counter("streamjury_process_restarts_total") == restarts, seconds=30, what=worker.log
        )
        worker.wait_until_ready()
        assert worker.pid("worker-2") != victim
        wait_until(
            lambda: set(count_evaluations(real_kafka.bootstrap, names["evaluations"])) == ids,
            seconds=WORK_SECONDS,
            what=lambda: f"all are evaluated: {worker.log()}",
        )
        assert worker.stage.terminate(WORK_SECONDS) == 0, worker.log()
    assert count_evaluations(real_kafka.bootstrap, names["evaluations"]) == Counter(ids)
    assert read_all(real_kafka.bootstrap, names["deadletter"]) == []
    assert "worker-2 ended: killed by SIGKILL; restarting it in 1 s" in worker.log()


@pytest.mark.slow
@pytest.mark.parametrize("end", ["the supervisor is killed", "a second signal"])
def test_no_process_outlives_the_supervisor(embedded_broker: EmbeddedBroker, tmp_path: Path, end: str) -> None:
    with (
        JudgeEndpoint(lambda body: delayed(best_verdict(body), 300)) as endpoint,
        start_worker(embedded_broker, tmp_path, endpoint, drain_seconds=45) as (worker, names),
    ):
        worker.wait_until_ready()
        write_records(embedded_broker.bootstrap, names["sampled"], range(8))
        wait_until(lambda: len(endpoint.calls) > 0, seconds=WORK_SECONDS, what=worker.log)
        pids = [worker.pid(name) for name in PROCESSES]
        assert all(map(is_running, pids))
        if end == "a second signal":
            worker.stage.request_stop()
            wait_until(lambda: worker.stage.has_logged("finishing"), seconds=20, what=worker.log)
            assert worker.stage.terminate(10) == 130
        else:
            worker.stage.kill()
        wait_until(lambda: not any(map(is_running, pids)), seconds=20, what="the processes end")


@pytest.mark.slow
def test_invalid_settings_end_all_processes_at_once_and_are_reported_once(
    embedded_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    stage = StageProcess(
        "worker",
        bootstrap=embedded_broker.bootstrap,
        log=tmp_path / "worker.log",
        options=("--processes", "2"),
        judges__cache__path=str(tmp_path / "missing" / "cache.db"),
    )
    with stage:
        assert stage.wait(START_SECONDS) == 1
    log = stage.log.read_text()
    assert log.count("judges.cache.path: ") == 1, log
    assert "Error: judges.cache.path: " in log
    assert "Traceback" not in log
    assert "restarting it" not in log


@pytest.mark.slow
def test_a_worker_that_keeps_failing_at_its_start_ends_with_the_reason(real_kafka: KafkaBroker, tmp_path: Path) -> None:
    """Its topics do not exist; they may be being created, so the start is retried several times."""
    config = tmp_path / "worker.json"
    config.write_text(json.dumps({"topics": topic_names("not-made"), "worker": {"group": "not-made"}}))
    stage = StageProcess(
        "worker",
        bootstrap=real_kafka.bootstrap,
        log=tmp_path / "worker.log",
        config=config,
        options=("--processes", "2"),
    )
    with stage:
        assert stage.wait(5 * START_SECONDS) == 1
    log = stage.log.read_text()
    ended = "ended 5 times in a row soon after its start; last reason: worker failed: "
    assert re.search(rf"^Error: worker-[12] {ended}.*not-made", log, re.MULTILINE), log
    assert "restarting it in 8 s" in log
    assert "Traceback" not in log


@pytest.mark.slow
def test_a_worker_whose_name_was_taken_over_ends_instead_of_taking_it_back(
    real_kafka: KafkaBroker, tmp_path: Path
) -> None:
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
    with (
        JudgeEndpoint() as endpoint,
        start_worker(real_kafka, tmp_path / "first", endpoint, instance="one") as (first, names),
    ):
        first.wait_until_ready()
        config = tmp_path / "first" / "worker.json"
        later = StageProcess(
            "worker",
            bootstrap=real_kafka.bootstrap,
            log=tmp_path / "second" / "worker.log",
            config=config,
            options=("--processes", "2"),
        )
        with later:
            second = ManyProcesses(later)
            assert first.stage.wait(START_SECONDS) == 1, first.log()
            second.wait_until_ready()
            write_records(real_kafka.bootstrap, names["sampled"], range(8))
            wait_until(lambda: second.read_consumed().total() == 8, seconds=WORK_SECONDS, what=second.log)
    assert f"Error: worker failed: another process took over the instance name {names['sampled']}-one-" in first.log()
    assert "restarting it" not in first.log()
