"""`streamjury backfill` beside a running pipeline, interrupted and resumed, on an embedded broker and on a real one."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from prometheus_client import CollectorRegistry

from judges.composite import Item, MultiCriteria
from judges.criteria.catalogue import load_catalogue
from judges.criteria.criterion import SAFETY_DIMENSION, Criterion
from judges.evaluator import Evaluator
from judges.panel import Panel
from judges.scripted import Answer, ScriptedJudge
from judges.values.evaluation import Reason
from judges.values.interaction import Case
from sinks.metrics import PipelineMetrics, ScoreMetrics
from stream.cli.main import main
from stream.config.model import Config
from stream.config.sections.stages import MonitorConfig
from stream.errors import FencedError
from stream.jobs.backfill import Backfill, BackfillRequest
from stream.jobs.backfill import backfill as work
from stream.kafka.embedded import EmbeddedBroker
from stream.kafka.offsets import Partition
from stream.kafka.topic_scan import read_committed_offsets
from stream.monitor.state import Monitor
from tests.integration.pipeline import (
    StageProcess,
    headers_of,
    produce_all,
    read_all,
    read_json,
    to_create,
    topic_names,
    wait_until,
)
from tests.parts.documents.json_fields import json_fields
from tests.parts.endpoints.judge_endpoint import (
    Body,
    JudgeEndpoint,
    Response,
    best_verdict,
    error_response,
    verdict_response,
)
from tests.parts.kafka import KafkaBroker
from tests.parts.patience import patience

SAFETY = load_catalogue("rag")[SAFETY_DIMENSION]
FAST = ("--rate", "2000")
ALL = tuple(argument for number in range(4) for argument in ("--offsets", f"{number}:0-"))


@pytest.fixture(autouse=True)
def _no_configuration_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STREAMJURY_CONFIG", raising=False)


def record(name: str, **fields: Any) -> dict[str, Any]:
    body = {"id": name, "question": "Is it open?", "answer": "It is open.", "contexts": [{"text": "It is open."}]}
    return {"key": name.encode(), "value": json.dumps({**body, **fields}).encode()}


def names(count: int, prefix: str = "id") -> list[str]:
    return [f"{prefix}-{number}" for number in range(count)]


class Topics:
    """Separate topics for one test, and the command on them."""

    def __init__(self, bootstrap: str, names: dict[str, str], folder: Path) -> None:
        self.bootstrap, self.names, self._folder = bootstrap, names, folder

    def write(self, *records: dict[str, Any]) -> None:
        produce_all(self.bootstrap, self.names["interactions"], records)

    def evaluations(self, *, lane: str = "backfill") -> list[dict[str, Any]]:
        published = read_json(self.bootstrap, self.names["evaluations"])
        return [evaluation for evaluation in published if evaluation["sampling"]["lane"] == lane]

    def load_config(self, **sections: Any) -> Config:
        return Config.model_validate({"kafka": {"bootstrap": self.bootstrap}, "topics": self.names, **sections})

    def file(self, name: str = "other", **sections: Any) -> Path:
        """Write a configuration with other weights than the built-in one, and so another fingerprint."""
        other = {
            "kafka": {"bootstrap": self.bootstrap},
            "topics": self.names,
            "composite": {"weights": {"clarity": 2.0}},
        }
        path = self._folder / f"{name}.yaml"
        path.write_text(json.dumps({**other, **sections}))
        return path

    def run(self, *arguments: str, config: Path | None = None) -> Result:
        return CliRunner().invoke(main, ["backfill", "--config", str(config or self.file()), *arguments])

    def json(self, *arguments: str, config: Path | None = None, status: int = 0) -> dict[str, Any]:
        result = self.run("--json", *arguments, config=config)
        assert result.exit_code == status, result.output
        report: dict[str, Any] = json.loads(result.stdout)
        assert set(report) <= set(json_fields("backfill"))
        return report

    def process(self, *arguments: str, config: Path) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "stream.cli.main", "backfill", "--config", str(config), *arguments]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        return subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@pytest.fixture
def embedded(embedded_broker: EmbeddedBroker, tmp_path: Path) -> Topics:
    return Topics(embedded_broker.bootstrap, topic_names("rag"), tmp_path)


@pytest.fixture
def real(real_kafka: KafkaBroker, tmp_path: Path) -> Topics:
    topics = Topics(real_kafka.bootstrap, topic_names(f"backfill-{uuid.uuid4().hex[:8]}"), tmp_path)
    real_kafka.create_topics(*to_create(topics.names), partitions=2)
    return topics


def judges_of(endpoint: JudgeEndpoint, **more: Any) -> dict[str, Any]:
    """Return a panel that asks the endpoint once for each interaction."""
    judge = {"kind": "openai", "name": "asked", "model": "m", "base_url": endpoint.base_url, **more}
    return {"judges": {"panel": [judge]}, "criteria": {"use": [SAFETY_DIMENSION]}, "composite": {"weights": {}}}


class HeldEndpoint(JudgeEndpoint):
    """Answers some calls, and holds the others until it is released."""

    def __init__(self, *, after: int) -> None:
        self.release = threading.Event()
        super().__init__(self._respond)
        self._after = after

    def _respond(self, body: Body) -> Response:
        if len(self.calls) > self._after:
            assert self.release.wait(60 * patience())
        return best_verdict(body)


def marked_record(name: str) -> dict[str, Any]:
    return record(name, answer=f"It is open. <{name}>")


def count_requests(endpoint: JudgeEndpoint, ids: Iterable[str]) -> Counter[str]:
    """Count the requests to the judge for each interaction."""
    prompts = [json.dumps(call["messages"]) for call in endpoint.calls]
    return Counter({name: sum(f"<{name}>" in prompt for prompt in prompts) for name in ids})


class TestBesideThePipeline:
    @pytest.mark.slow
    def test_the_same_interactions_are_published_under_two_fingerprints_and_live_judging_continues(
        self, embedded: Topics, tmp_path: Path
    ) -> None:
        bootstrap = embedded.bootstrap
        with (
            StageProcess("sampler", bootstrap=bootstrap, log=tmp_path / "sampler.log", sampling__rate="1"),
            StageProcess("worker", bootstrap=bootstrap, log=tmp_path / "worker.log"),
        ):
            embedded.write(*map(record, names(40)))
            wait_until(lambda: len(embedded.evaluations(lane="main")) == 40, seconds=60, what="40 live evaluations")
            report = embedded.json(*ALL, *FAST)
            assert (report["judged"], report["judged_before"], report["records"]) == (40, 0, 40)
            embedded.write(*map(record, names(10, "late")))
            wait_until(lambda: len(embedded.evaluations(lane="main")) == 50, seconds=60, what="10 more")
        live, again = embedded.evaluations(lane="main"), embedded.evaluations()
        assert {evaluation["interaction_id"] for evaluation in again} == set(names(40))
        assert len({evaluation["evaluation_id"] for evaluation in (*live, *again)}) == 90
        assert {evaluation["evaluator"]["fingerprint"] for evaluation in again} == {report["fingerprint"]}
        assert {evaluation["evaluator"]["fingerprint"] for evaluation in live}.isdisjoint({report["fingerprint"]})
        assert {(evaluation["sampling"]["rule"], evaluation["sampling"]["probability"]) for evaluation in again} == {
            ("backfill", 1.0)
        }

    def test_the_monitor_ignores_backfilled_evaluations(self, embedded: Topics) -> None:
        embedded.write(*map(record, names(5)))
        embedded.json(*ALL, *FAST)
        registry = CollectorRegistry()
        monitor = Monitor(MonitorConfig(), PipelineMetrics(registry), ScoreMetrics(registry))
        before = monitor.snapshot()
        for message in read_all(embedded.bootstrap, embedded.names["evaluations"]):
            assert headers_of(message)["sj-lane"] == "backfill"
            monitor.observe(message.value(), headers_of(message)["sj-schema"].encode())
        assert monitor.snapshot() == before
        labels = {"stage": "monitor", "outcome": "filtered", "reason": ""}
        assert registry.get_sample_value("streamjury_records_total", labels) == 5

    def test_unsafe_answers_send_no_notice_and_the_evaluation_says_so(self, embedded: Topics) -> None:
        def worst(body: Body) -> Response:
            verdict = body["response_format"]["json_schema"]["schema"]["properties"]["verdict"]
            return verdict_response(verdict["enum"][0]) if "enum" in verdict else best_verdict(body)

        embedded.write(*map(record, names(3)))
        with JudgeEndpoint(worst) as endpoint:
            embedded.json(*ALL, *FAST, config=embedded.file(**judges_of(endpoint)))
        assert {evaluation["composite"]["status"] for evaluation in embedded.evaluations()} == {"unsafe"}
        assert read_all(embedded.bootstrap, embedded.names["critical"]) == []


class TestSelection:
    def test_a_dry_run_counts_by_app_and_costs_nothing(self, embedded: Topics) -> None:
        embedded.write(*(record(name, app="shop") for name in names(30)), *map(record, names(5, "other")))
        embedded.write({"key": b"bad", "value": b"{"})
        with JudgeEndpoint() as endpoint:
            config = embedded.file(**judges_of(endpoint, price={"prompt": 1.0, "completion": 10.0}))
            report = embedded.json(*ALL, "--dry-run", config=config)
            assert endpoint.calls == []
        assert report["apps"] == {"shop": 30, "unknown": 5}
        assert (report["todo"], report["records"], report["bad"]) == (35, 36, {"bad_json": 1})
        # About 300 prompt tokens at one dollar and 120 completion tokens at ten, for each record.
        assert 35 * 0.0012 < report["estimate"]["usd"] < 35 * 0.003
        assert "prompts for 35 of the records" in report["estimate"]["basis"]
        assert embedded.evaluations() == []
        output = embedded.run(*ALL, "--dry-run", config=config).stdout
        assert "          30    shop\n" in output
        assert "expected cost about 0.0" in output

    def test_a_part_by_offsets_a_share_of_it_and_a_limit(self, embedded: Topics) -> None:
        ids = names(200)
        embedded.write(*({**record(name), "partition": number % 2} for number, name in enumerate(ids)))
        part = ("--offsets", "1:10-59")
        half = embedded.json(*part, *FAST, "--sample", "0.5")
        chosen = {evaluation["interaction_id"] for evaluation in embedded.evaluations()}
        assert chosen <= {f"id-{2 * offset + 1}" for offset in range(10, 60)}
        assert (half["records"], half["judged"], half["sampled_out"]) == (50, len(chosen), 50 - len(chosen))
        assert 10 < len(chosen) < 40
        assert {evaluation["sampling"]["probability"] for evaluation in embedded.evaluations()} == {0.5}
        some = embedded.json(*part, *FAST, "--limit", "5")
        rest = embedded.json(*part, *FAST)
        assert some["judged"] == 5
        assert rest["judged"] == 50 - len(chosen) - 5
        assert len(embedded.evaluations()) == 50
        assert len({evaluation["evaluation_id"] for evaluation in embedded.evaluations()}) == 50

    def test_unreadable_records_are_reported_and_not_dead_lettered_again(self, embedded: Topics) -> None:
        embedded.write(record("good"), {"key": b"bad", "value": b"no json"}, record("good"))
        result = embedded.run(*ALL, *FAST)
        assert result.exit_code == 0, result.output
        assert "judged 1 (1 scored)" in result.stdout
        assert "1  unreadable: 1 bad_json" in result.stdout
        assert "bad_json: not JSON" in result.stdout
        assert "1  duplicates of an id" in result.stdout
        assert read_all(embedded.bootstrap, embedded.names["deadletter"]) == []

    def test_a_missing_partition_is_refused_and_so_are_times_on_an_embedded_broker(self, embedded: Topics) -> None:
        wrong = embedded.run("--offsets", "9:0-5")
        assert wrong.exit_code == 1
        assert "rag.interactions has no partition 9; it has 4, from 0 to 3" in wrong.stderr
        timed = embedded.run("--since", "1h")
        assert timed.exit_code == 1
        assert "use --offsets" in timed.stderr


class TestRate:
    def test_the_rate_is_not_exceeded(self, embedded: Topics) -> None:
        embedded.write(*map(record, names(80)))
        began = time.monotonic()
        embedded.json(*ALL, "--rate", "20")
        assert time.monotonic() - began > 79 / 20

    def test_the_rate_is_reached(self, embedded: Topics) -> None:
        embedded.write(*map(record, names(100)))
        began = time.monotonic()
        embedded.json(*ALL, "--rate", "50")
        assert time.monotonic() - began < 15 * patience()


class TestInterrupted:
    def test_after_ctrl_c_the_same_command_resumes_and_judges_no_record_twice(self, embedded: Topics) -> None:
        ids = names(60)
        embedded.write(*map(marked_record, ids))
        with HeldEndpoint(after=15) as endpoint:
            worker = {"concurrency": 4, "drain_seconds": 45}
            config = embedded.file(**judges_of(endpoint), worker=worker)
            with embedded.process(*ALL, *FAST, config=config) as process:
                wait_until(lambda: len(endpoint.calls) > 15, seconds=60, what="15 answers and a call")
                process.send_signal(signal.SIGINT)
                endpoint.release.set()
                out, err = process.communicate(timeout=60 * patience())
            assert process.returncode == 130, err
            assert "run the same command to resume" in err
            first = len(embedded.evaluations())
            assert 15 <= first < 60
            assert out.startswith(f"judged {first} ")
            rest = embedded.json(*ALL, *FAST, config=config)
            assert (rest["judged"], rest["judged_before"]) == (60 - first, first)
            assert count_requests(endpoint, ids) == Counter(ids)
            none = embedded.json(*ALL, *FAST, config=config)
            assert (none["judged"], none["judged_before"]) == (0, 60)
            assert len(endpoint.calls) == 60

    @pytest.mark.slow
    def test_killed_in_the_middle_each_evaluation_is_published_once(self, real: Topics) -> None:
        ids = names(60)
        real.write(*map(marked_record, ids))
        with HeldEndpoint(after=30) as endpoint:
            config = real.file(**judges_of(endpoint))
            with real.process("--since", "1h", "--rate", "30", config=config) as process:
                wait_until(lambda: len(real.evaluations()) >= 10, seconds=60, what="10 evaluations")
                process.kill()
            endpoint.release.set()
            first = len(real.evaluations())
            assert 10 <= first < 60
            rest = real.json("--since", "1h", *FAST, config=config)
            assert (rest["judged"], rest["judged_before"]) == (60 - first, first)
            assert Counter(evaluation["interaction_id"] for evaluation in real.evaluations()) == Counter(ids)
            # Records judged but not yet published are judged again: one second's worth, and those in flight.
            assert len(endpoint.calls) <= 60 + 64

    def test_of_two_concurrent_runs_the_later_one_continues(self, real: Topics) -> None:
        real.write(*map(record, names(50)))
        script = Script()
        first, second = (backfill(real, script, offsets=EVERYTHING) for _ in range(2))
        first.take_over()
        second.take_over()
        with pytest.raises(FencedError, match="another backfill with this configuration took over"):
            first.run(2000, threading.Event())
        result, _ = second.run(2000, threading.Event())
        assert result.published == 50
        assert Counter(evaluation["interaction_id"] for evaluation in real.evaluations()) == Counter(names(50))


@pytest.mark.slow
class TestOnRealKafka:
    def test_the_offsets_of_the_live_pipeline_do_not_move(self, real: Topics, tmp_path: Path) -> None:
        live = {stage: {"group": f"{real.names['sampled']}-{stage}"} for stage in ("sampler", "worker")}
        config = real.file("live", sampling={"rate": 0.5}, sampler=live["sampler"], worker=live["worker"])
        real.write(*map(record, names(100)))
        with (
            StageProcess("sampler", bootstrap=real.bootstrap, log=tmp_path / "sampler.log", config=config) as sampler,
            StageProcess("worker", bootstrap=real.bootstrap, log=tmp_path / "worker.log", config=config) as worker,
        ):
            wait_until(
                lambda: self.committed_offsets(real, live)["sampler"] == 100, seconds=60, what="all were sampled"
            )
            chosen = len(read_all(real.bootstrap, real.names["sampled"]))
            wait_until(lambda: len(real.evaluations(lane="main")) == chosen, seconds=60, what="all were judged")
            assert sampler.terminate() == 0
            assert worker.terminate() == 0
        before, groups = self.committed_offsets(real, live), groups_of(real)
        report = real.json("--since", "1h", *FAST, config=real.file(composite={"weights": {"clarity": 3.0}}))
        assert (report["judged"], report["judged_before"]) == (100, 0)
        assert self.committed_offsets(real, live) == before
        assert groups_of(real) <= groups, "and there is no group that was not there before"

    def committed_offsets(self, topics: Topics, groups: dict[str, dict[str, str]]) -> dict[str, int]:
        kafka, offsets = topics.load_config().kafka, {}
        for stage, kind in (("sampler", "interactions"), ("worker", "sampled")):
            partitions = [Partition(topics.names[kind], number) for number in range(2)]
            offsets[stage] = sum(read_committed_offsets(kafka, groups[stage]["group"], partitions).values())
        return offsets

    def test_the_same_configuration_judges_only_records_not_yet_judged_by_workers(self, real: Topics) -> None:
        ids = names(40)
        real.write(*map(record, ids))
        live = real.json("--since", "1h", *FAST, "--sample", "0.5")
        rest = real.json("--since", "1h", *FAST)
        assert live["judged"] + rest["judged"] == 40
        assert rest["judged_before"] == live["judged"]

    def test_live_workers_still_judge_records_that_were_backfilled(self, real: Topics, tmp_path: Path) -> None:
        """Also with the same configuration, whose evaluations have the same ids."""
        live = {stage: {"group": f"{real.names['sampled']}-{stage}"} for stage in ("sampler", "worker")}
        config = real.file("live", sampling={"rate": 1.0}, sampler=live["sampler"], worker=live["worker"])
        real.write(*map(record, names(20)))
        assert real.json("--since", "1h", *FAST, config=config)["judged"] == 20
        bootstrap = real.bootstrap
        with (
            StageProcess("sampler", bootstrap=bootstrap, log=tmp_path / "sampler.log", config=config),
            StageProcess("worker", bootstrap=bootstrap, log=tmp_path / "worker.log", config=config),
        ):
            wait_until(lambda: len(real.evaluations(lane="main")) == 20, seconds=60, what="20 live evaluations")
        assert CliRunner().invoke(main, ["audit", "--config", str(config)]).exit_code == 0

    def test_the_audit_does_not_count_a_backfill_as_work_of_the_pipeline(self, real: Topics) -> None:
        config = real.file("live", sampling={"rate": 1.0}, sampler={"group": "lossy-s"}, worker={"group": "lossy-w"})
        real.write(record("lost"))
        produce_all(real.bootstrap, real.names["sampled"], [record("lost")])
        for group, kind in (("lossy-s", "interactions"), ("lossy-w", "sampled")):
            consumer = Consumer({"bootstrap.servers": real.bootstrap, "group.id": group})
            ends = {
                message.partition(): (message.offset() or 0) + 1
                for message in read_all(real.bootstrap, real.names[kind])
            }
            consumer.commit(
                offsets=[TopicPartition(real.names[kind], number or 0, end) for number, end in ends.items()],
                asynchronous=False,
            )
            consumer.close()
        assert real.json("--since", "1h", *FAST)["judged"] == 1
        result = CliRunner().invoke(main, ["audit", "--json", "--config", str(config)])
        assert (result.exit_code, json.loads(result.stdout)["missing"]) == (1, ["lost"])

    def test_adjacent_time_ranges_leave_no_gap(self, real: Topics) -> None:
        """Also when record times are not in order."""
        start = int(time.time() - 3600) * 1000  # much older records would be deleted
        times = [start + 1000 * (number ^ 3) for number in range(80)]
        real.write(*({**record(name), "timestamp": stamp} for name, stamp in zip(names(80), times, strict=True)))
        moments = [
            datetime.fromtimestamp((start + 1000 * offset) / 1000, UTC).isoformat() for offset in (0, 25, 50, 80)
        ]
        judged = []
        for since, until in pairwise(moments):
            report = real.json("--since", since, "--until", until, *FAST)
            assert report["judged_before"] == 0
            judged.append(report["judged"])
        assert sum(judged) == 80
        assert judged == pytest.approx([25, 25, 30], abs=4)
        assert real.json("--since", moments[-1], *FAST)["records"] == 0

    def test_the_range_ends_at_the_end_of_the_topic_at_the_start(self, real: Topics) -> None:
        real.write(*map(record, names(10)))
        work = backfill(real, Script(), offsets=EVERYTHING)
        assert work.survey().todo == 10
        real.write(*map(record, names(10, "late")))
        work.take_over()
        result, counts = work.run(2000, threading.Event())
        assert (result.published, counts.records) == (10, 10)

    def test_an_evaluation_that_is_too_large_for_the_topic_is_reported_and_the_others_are_published(
        self, real: Topics, real_kafka: KafkaBroker
    ) -> None:
        real.names["evaluations"] += "-small"
        real_kafka.create_topics(real.names["evaluations"], config={"max.message.bytes": "20000"})
        tags = {f"tag-{number}": "x" * 1000 for number in range(40)}
        large = {7, 8, 23}
        real.write(*(record(name, tags=tags if number in large else {}) for number, name in enumerate(names(30))))
        report = real.json("--since", "1h", *FAST)
        assert (report["judged"], report["failed"]) == (27, {"too_large": 3})
        expected = {name for number, name in enumerate(names(30)) if number not in large}
        assert Counter(evaluation["interaction_id"] for evaluation in real.evaluations()) == Counter(expected)

    def test_deleted_records_are_reported(self, real: Topics) -> None:
        real.write(*({**record(name), "partition": 0} for name in names(30)))
        admin = AdminClient({"bootstrap.servers": real.bootstrap})
        for deleted in admin.delete_records([TopicPartition(real.names["interactions"], 0, 20)]).values():
            deleted.result(10 * patience())
        report = real.json("--offsets", "0:5-24", "--dry-run")
        assert (report["records"], report["gone"], report["offsets"]) == (5, 15, ["0:20-24"])

    def test_the_commands_of_the_page_run_as_they_are_written(self, real: Topics) -> None:
        real.file("stricter")
        page = (Path(__file__).parents[3] / "docs/backfill.md").read_text()
        commands = [
            shlex.split(line, comments=True) for line in re.findall(r"^streamjury backfill .*$", page, re.MULTILINE)
        ]
        assert len(commands) == 2
        for command in commands:
            result = CliRunner().invoke(main, command[1:])
            assert result.exit_code == 0, result.output


class Script:
    """A judge that fails its first calls about each record, and then finds the answer safe."""

    def __init__(self, failures: int = 0) -> None:
        self._failures = failures
        self.requests: Counter[str] = Counter()

    async def __call__(self, case: Case, criterion: Criterion) -> Answer:
        self.requests[case.id] += 1
        if self.requests[case.id] <= self._failures:
            return Reason.UNAVAILABLE
        return int(SAFETY.worst_first[-1].value or 0)


EVERYTHING = {number: range(10**9) for number in range(2)}


def backfill(topics: Topics, script: Script, **wanted: Any) -> Backfill:
    multi = MultiCriteria([Item(criterion=SAFETY, weight=1.0)], safety=SAFETY_DIMENSION)
    evaluator = Evaluator(multi, Panel(judges=[ScriptedJudge(script)]), version="test")
    return Backfill(topics.load_config(), evaluator, BackfillRequest(**wanted))


def groups_of(topics: Topics) -> set[str]:
    admin = AdminClient({"bootstrap.servers": topics.bootstrap})
    return {group.group_id for group in admin.list_consumer_groups().result(10 * patience()).valid}


class TestJudgesThatCannotBeReached:
    @pytest.fixture(autouse=True)
    def _less_patience(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(work, "_RETRY_SECONDS", (0.05, 0.1, 0.2))

    def test_a_short_outage_is_waited_for(self, embedded: Topics) -> None:
        embedded.write(*map(record, names(30)))
        script = Script(failures=2)
        run = backfill(embedded, script, offsets=EVERYTHING | {2: range(99), 3: range(99)})
        run.take_over()
        result, _ = run.run(2000, threading.Event())
        assert (result.scored, result.put_off.total(), result.problem) == (30, 0, None)
        assert script.requests.total() == 90

    def test_a_long_outage_ends_the_run_and_another_run_judges_the_rest(self, embedded: Topics) -> None:
        embedded.write(*map(record, names(200)))
        with JudgeEndpoint(lambda _: error_response(503)) as endpoint:
            judges = judges_of(endpoint, limits={"retries": 0})
            config = embedded.file(**judges, worker={"concurrency": 8})
            result = embedded.run(*ALL, *FAST, config=config)
            assert result.exit_code == 1
            assert "the judges could not be reached for 2" in result.stderr
            assert "run the command again when the judges respond" in result.stderr
            assert "postponed to the next run" in result.stdout
            assert embedded.evaluations() == []
            assert len(endpoint.calls) < 200
            endpoint.respond = best_verdict
            time.sleep(1)
            assert embedded.json(*ALL, *FAST, config=config)["judged"] == 200

    def test_a_few_failures_are_left_for_the_next_run(self, embedded: Topics) -> None:
        embedded.write(*map(marked_record, names(10)))

        def respond(body: Body) -> Response:
            return error_response(503) if "<id-3>" in json.dumps(body) else best_verdict(body)

        with JudgeEndpoint(respond) as endpoint:
            config = embedded.file(**judges_of(endpoint, limits={"retries": 0}), worker={"concurrency": 1})
            report = embedded.json(*ALL, *FAST, config=config, status=1)
            assert (report["judged"], report["put_off"]) == (9, {"judges_unavailable": 1})
            endpoint.respond = best_verdict
            report = embedded.json(*ALL, *FAST, config=config)
        assert (report["judged"], report["judged_before"]) == (1, 9)


class TestOnATerminal:
    @pytest.fixture(autouse=True)
    def _terminal(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("stream.cli.commands.backfill._can_ask", lambda: True)

    @pytest.mark.parametrize(("answer", "judged"), [("y", 3), ("n", 0)])
    def test_no_money_is_spent_before_the_user_agrees(self, embedded: Topics, answer: str, judged: int) -> None:
        embedded.write(*map(record, names(3)))
        arguments = ["backfill", "--config", str(embedded.file()), *ALL, *FAST]
        result = CliRunner().invoke(main, arguments, input=f"{answer}\n")
        assert "3  to judge" in result.stdout
        assert "expected cost about 0.00 USD (an estimate: no judge uses a model)" in result.stdout
        assert "Judge them?" in result.output
        assert len(embedded.evaluations()) == judged

    def test_with_yes_there_is_no_prompt(self, embedded: Topics) -> None:
        embedded.write(*map(record, names(3)))
        result = embedded.run(*ALL, *FAST, "--yes")
        assert "Judge them?" not in result.output
        assert len(embedded.evaluations()) == 3
