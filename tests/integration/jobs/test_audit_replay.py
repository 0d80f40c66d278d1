"""`streamjury audit` and `streamjury replay` on a real broker, over topics with known contents."""

import json
import os
import re
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Consumer, Producer, TopicPartition

from judges.values.evaluation import (
    Composite,
    CompositeStatus,
    Evaluation,
    EvaluatorInfo,
    Safety,
    SafetyStatus,
    Sampling,
    evaluation_id,
)
from stream.cli.main import main
from stream.config.model import Config
from stream.errors import FencedError
from stream.jobs.replay import Replay, ReplayRequest
from stream.kafka.embedded import EmbeddedBroker
from stream.records.decision import Cohort
from tests.integration.pipeline import headers_of, produce_all, read_all
from tests.parts.documents.json_fields import json_fields
from tests.parts.kafka import KafkaBroker
from tests.parts.patience import patience

MUST_EXIST = ("interactions", "sampled", "evaluations", "deadletter")
RATE = 0.5


class Topics:
    """Separate topics and groups for one test, written to directly."""

    def __init__(self, broker: KafkaBroker, *, missing: Iterable[str] = (), aside: bool = True) -> None:
        name = f"books-{uuid.uuid4().hex[:8]}"
        self.bootstrap, self._broker = broker.bootstrap, broker
        self.names = {kind: f"{name}-{kind}" for kind in (*MUST_EXIST, "retry", "overflow")}
        self.groups = {stage: f"{name}-{stage}" for stage in ("sampler", "worker")}
        to_create = [self.names[kind] for kind in MUST_EXIST if kind not in missing]
        broker.create_topics(*to_create, *([f"{self.names['retry']}.1", self.names["overflow"]] if aside else []))
        self.names["retry.1"] = f"{self.names['retry']}.1"
        self._letters = 0

    @property
    def environment(self) -> dict[str, str]:
        topics = {kind: name for kind, name in self.names.items() if "." not in kind}
        return {
            "STREAMJURY__KAFKA__BOOTSTRAP": self.bootstrap,
            "STREAMJURY__SAMPLING__RATE": str(RATE),
            **{f"STREAMJURY__TOPICS__{kind.upper()}": name for kind, name in topics.items()},
            **{f"STREAMJURY__{stage.upper()}__GROUP": group for stage, group in self.groups.items()},
        }

    @property
    def config(self) -> Config:
        topics = {kind: name for kind, name in self.names.items() if "." not in kind}
        groups = {stage: {"group": group} for stage, group in self.groups.items()}
        return Config.model_validate({"kafka": {"bootstrap": self.bootstrap}, "topics": topics, **groups})

    def run(self, *arguments: str, **env: str) -> Result:
        return CliRunner(env={**self.environment, **env}).invoke(main, arguments)

    def audit(self, *, status: int = 0, **env: str) -> dict[str, Any]:
        result = self.run("audit", "--json", **env)
        assert result.exit_code == status, result.output
        report: dict[str, Any] = json.loads(result.stdout)
        assert list(report) == json_fields("audit")
        balance = sum(report["outcomes"].values()) + sum(report["waiting"].values()) + report["missing_total"]
        assert report["interactions"] + report["direct"] == report["repeats"] + report["replayed"] + balance
        return report

    def write(self, kind: str, *records: Mapping[str, Any]) -> None:
        produce_all(self.bootstrap, self.names[kind], records)

    def read(self, kind: str) -> list[Any]:
        return read_all(self.bootstrap, self.names[kind])

    def commit(self, stage: str, **offsets: int) -> None:
        """Commit offsets as the stage does when it has come this far."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": self.groups[stage]})
        positions = [TopicPartition(self.names[kind.replace("_", ".")], 0, offset) for kind, offset in offsets.items()]
        consumer.commit(offsets=positions, asynchronous=False)
        consumer.close()

    def interactions(self, *ids: str) -> None:
        self.write("interactions", *(record(name) for name in ids))

    def letter(self, source: str, offset: int, reason: str, value: bytes | None, **headers: str) -> None:
        self.write("deadletter", self.letter_record(source, offset, reason, value, **headers))

    def letter_record(
        self, source: str, offset: int, reason: str, value: bytes | None, **headers: str
    ) -> dict[str, Any]:
        all_headers = {
            "sj-error-stage": "sampler" if source == "interactions" else "worker",
            "sj-error-type": reason,
            "sj-error-message": "why",
            "sj-attempts": "1",
            "sj-source-topic": self.names.get(source, source),
            "sj-source-partition": "0",
            "sj-source-offset": str(offset),
            "sj-failed-at": "2026-11-15T10:00:00+00:00",
            **{name.replace("_", "-"): text for name, text in headers.items()},
        }
        return {
            "key": b"k-%d" % offset,
            "value": value,
            "headers": [(n, text.encode()) for n, text in all_headers.items()],
        }

    def evaluation(self, name: str, *, scored: bool = True) -> None:
        self.write("evaluations", {"value": evaluation(name, scored=scored)})


def record(name: str, **fields: str) -> dict[str, Any]:
    body = {"id": name, "question": "Is it open?", "answer": "It is open.", **fields}
    return {"key": name.encode(), "value": json.dumps(body).encode()}


def evaluation(name: str, *, scored: bool = True) -> bytes:
    composite = Composite(
        score=0.5 if scored else None,
        status=CompositeStatus.OK if scored else CompositeStatus.INCOMPLETE,
        coverage=1.0 if scored else 0.0,
        safety=Safety(level=2, status=SafetyStatus.SAFE),
    )
    judged = Evaluation.model_validate(
        {
            "evaluation_id": evaluation_id(name, "print"),
            "interaction_id": name,
            "evaluator": EvaluatorInfo(fingerprint="print", criteria=(), judges=(), version="1"),
            "sampling": Sampling(probability=0.5, rule="default"),
            "evaluated_at": "2026-11-15T10:00:00Z",
            "dimensions": {},
            "composite": composite,
        }
    )
    return judged.model_dump_json().encode()


def source(topic: str, offset: int) -> list[tuple[str, bytes]]:
    place = {"topic": topic, "partition": "0", "offset": str(offset)}
    return [(f"sj-source-{part}", text.encode()) for part, text in place.items()]


def ids(count: int, *, chosen: bool) -> list[str]:
    """Return ids that the sampler chooses, or leaves out."""
    draw = Cohort("streamjury").draw
    names = (f"id-{number}" for number in range(10 * count + 100))
    return [name for name in names if (draw(name) < RATE) is chosen][:count]


@pytest.fixture(autouse=True)
def _no_configuration_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STREAMJURY_CONFIG", raising=False)


@pytest.fixture
def topics(real_kafka: KafkaBroker) -> Topics:
    return Topics(real_kafka)


class TestAudit:
    def test_every_place_where_a_record_can_be_is_distinguished(self, topics: Topics) -> None:
        chosen = ids(8, chosen=True)
        out = ids(3, chosen=False)
        topics.interactions(*chosen, *out)
        topics.write("interactions", {"value": b"no json"}, record(chosen[0]), record("late"))
        topics.commit("sampler", interactions=13)
        topics.letter("interactions", 11, "bad_json", b"no json")
        topics.write("sampled", *(record(name) for name in (*chosen, chosen[0])))
        topics.commit("worker", sampled=7, retry_1=0)
        for name in chosen[:2]:
            topics.evaluation(name, scored=name == chosen[0])
        topics.letter("sampled", 2, "unscored_timeout", record(chosen[2])["value"])
        topics.letter("sampled", 3, "bad_envelope", record(chosen[3])["value"])
        topics.write("retry.1", {**record(chosen[4]), "headers": source(topics.names["sampled"], 4)})
        topics.write("overflow", {**record(chosen[5]), "headers": source(topics.names["sampled"], 5)})
        topics.evaluation(chosen[6])
        report = topics.audit()
        assert report["outcomes"] == {
            "filtered": 0,
            "sampled_out": 3,
            "shed": 0,
            "scored": 2,
            "unscored.not_applicable": 1,
            "unscored_deadlettered.timeout": 1,
            "deadlettered.bad_envelope": 1,
            "deadlettered.bad_json": 1,
        }
        assert report["waiting"] == {"waiting_sampler": 1, "waiting_worker": 1, "parked": 1, "deferred": 1}
        assert (report["interactions"], report["repeats"], report["estimated"]) == (14, 1, 0)
        assert report["balanced"]

    def test_losses_at_either_stage_and_doubles_are_named(self, topics: Topics) -> None:
        unsampled, unjudged, parked, doubled = ids(4, chosen=True)
        topics.interactions(unsampled, unjudged, parked, doubled)
        topics.commit("sampler", interactions=4)
        topics.write("sampled", record(unjudged), record(parked), record(doubled))
        topics.write("retry.1", {**record(parked), "headers": source(topics.names["sampled"], 1)})
        topics.commit("worker", sampled=3, retry_1=1)
        topics.evaluation(doubled)
        topics.evaluation(doubled)
        report = topics.audit(status=1)
        assert report["missing"] == sorted([unsampled, unjudged, parked])
        assert report["duplicates"] == [evaluation_id(doubled, "print")]
        result = topics.run("audit", "--limit", "2")
        assert result.exit_code == 1
        assert re.search(r"^ +4  interactions\n +4  ids$", result.stdout, re.MULTILINE)
        assert "missing, by interaction id, 2 of 3:" in result.stdout
        assert "evaluated twice, by evaluation id, 1 of 1:" in result.stdout
        last, hint = result.stdout.splitlines()[-2:]
        assert last == "not every interaction is accounted for"
        assert hint.startswith("this need not be a loss if `sampling` was changed: ")

    def test_after_a_change_of_the_rate_the_output_says_what_to_do(self, topics: Topics) -> None:
        left_out, evaluated = *ids(1, chosen=False), *ids(1, chosen=True)
        topics.interactions(left_out, evaluated)
        topics.commit("sampler", interactions=2)
        topics.write("sampled", record(evaluated))
        topics.commit("worker", sampled=1)
        topics.evaluation(evaluated)
        hint = "use --since with the time of the change"
        assert hint not in topics.run("audit").stdout
        changed = topics.run("audit", STREAMJURY__SAMPLING__RATE="1")
        assert changed.exit_code == 1
        assert f"  {left_out}\n" in changed.stdout
        assert hint in changed.stdout

    def test_a_record_without_a_key_that_cannot_be_read_is_named_by_its_place(self, topics: Topics) -> None:
        topics.write("interactions", {"value": b"no json"})
        topics.commit("sampler", interactions=1)
        assert topics.audit(status=1)["missing"] == [f"{topics.names['interactions']}/0/0"]

    def test_decisions_that_depended_on_the_traffic_are_left_out_and_reported(self, topics: Topics) -> None:
        topics.interactions(*(f"id-{number}" for number in range(50)))
        topics.commit("sampler", interactions=50)
        report = topics.audit(STREAMJURY__SAMPLING__RATE="null", STREAMJURY__SAMPLING__TARGET_PER_MINUTE="10")
        assert report["outcomes"]["sampled_out"] == report["estimated"] == 50
        report = topics.audit(STREAMJURY__SAMPLING__RATE="1", STREAMJURY__SAMPLING__MAX_PER_MINUTE="5")
        assert report["outcomes"]["shed"] == report["estimated"] == 50
        result = topics.run("audit", STREAMJURY__SAMPLING__RATE="1", STREAMJURY__SAMPLING__MAX_PER_MINUTE="5")
        assert "50  uncertain outcomes" in result.stdout

    def test_a_rate_of_zero_is_a_filter(self, topics: Topics) -> None:
        topics.interactions("a", "b")
        topics.commit("sampler", interactions=2)
        assert topics.audit(STREAMJURY__SAMPLING__RATE="0")["outcomes"]["filtered"] == 2

    def test_only_interactions_from_a_time_on(self, topics: Topics) -> None:
        old, new = ids(2, chosen=True)
        topics.write("interactions", {**record(old), "timestamp": 1_700_000_000_000}, record(new))
        topics.commit("sampler", interactions=2)
        result = topics.run("audit", "--json", "--since", "1h")
        assert json.loads(result.stdout)["missing"] == [new]
        assert topics.audit(status=1)["missing_total"] == 2

    def test_an_embedded_broker_cannot_be_read_from_a_time_on(self, embedded_broker: EmbeddedBroker) -> None:
        bootstrap = {"STREAMJURY__KAFKA__BOOTSTRAP": embedded_broker.bootstrap}
        result = CliRunner().invoke(main, ["audit", "--since", "1h"], env=bootstrap)
        assert result.exit_code == 2
        assert "an embedded broker cannot look up records by time; leave --since out" in result.stderr

    def test_optional_topics_may_be_absent_and_the_others_may_not(self, real_kafka: KafkaBroker) -> None:
        assert Topics(real_kafka, aside=False).audit()["interactions"] == 0
        lacking = Topics(real_kafka, missing=["sampled"])
        result = lacking.run("audit")
        assert result.exit_code == 3, "unlike missing interactions"
        assert f"{lacking.names['sampled']} does not exist; create it with `streamjury topics create`" in result.stderr

    @pytest.mark.slow
    def test_an_open_transaction_hides_nothing_that_others_committed(self, topics: Topics) -> None:
        """Evaluations after the beginning of an open transaction become visible when it ends."""
        [name] = ids(1, chosen=True)
        topics.interactions(name)
        topics.commit("sampler", interactions=1)
        topics.write("sampled", record(name))
        topics.commit("worker", sampled=1)
        producer = Producer(
            {
                "bootstrap.servers": topics.bootstrap,
                "transactional.id": f"open-{uuid.uuid4().hex}",
                "transaction.timeout.ms": 3000,
            }
        )
        producer.init_transactions(10 * patience())
        producer.begin_transaction()
        producer.produce(topics.names["evaluations"], value=evaluation("undone"))
        producer.flush(10 * patience())
        topics.evaluation(name)
        assert topics.audit()["outcomes"]["scored"] == 1


# At the latest before the last transactions of 300, it waits to be killed.
_PAUSING_REPLAY = """
import time
from stream.cli.main import main
from stream.jobs.replay import Replay

move = Replay.move

def pause(self, survey):
    moving = move(self, survey)
    for _ in range(20):
        yield next(moving)
    time.sleep(600)

Replay.move = pause
main(["replay"])
"""


class TestReplay:
    def letters(self, topics: Topics, count: int, reason: str = "unscored_timeout") -> None:
        topics.write(
            "deadletter",
            *(
                topics.letter_record("sampled", number, reason, record(f"id-{number}")["value"], sj_probability="0.5")
                for number in range(count)
            ),
        )

    def test_a_letter_goes_back_as_the_record_it_was_and_is_moved_once(self, topics: Topics) -> None:
        topics.letter("sampled", 4, "unscored_timeout", b"body", sj_probability="0.5", sj_retry_at="x", own="header")
        topics.letter("interactions", 5, "bad_json", None)
        topics.letter(f"{topics.names['retry']}.1", 6, "internal_error", b"aside")
        result = topics.run("replay")
        assert result.exit_code == 0, result.output
        assert result.stdout == "moved 3\n"
        moved = {m.key(): m for m in topics.read("sampled")}
        assert moved.keys() == {b"k-4", b"k-6"}
        assert moved[b"k-4"].value() == b"body"
        assert headers_of(moved[b"k-4"]) == {"sj-probability": "0.5", "own": "header"}
        assert [(m.key(), m.value(), m.headers()) for m in topics.read("interactions")] == [(b"k-5", None, None)]
        marks = [headers_of(m) for m in topics.read("deadletter") if "sj-replayed-at" in headers_of(m)]
        assert sorted((mark["sj-replayed-offset"], mark["sj-replayed-to"]) for mark in marks) == [
            ("0", topics.names["sampled"]),
            ("1", topics.names["interactions"]),
            ("2", topics.names["sampled"]),
        ]
        again = topics.run("replay")
        assert again.exit_code == 0
        assert again.stdout == "moved 0\n3 already moved\n"
        assert len(topics.read("sampled")) == 2

    def test_options_select_letters(self, topics: Topics) -> None:
        shop, other = (record("a", app=app)["value"] for app in ("shop", "other"))
        topics.letter("sampled", 0, "unscored_timeout", shop)
        topics.letter("sampled", 1, "unscored_judges_unavailable", other)
        topics.letter("sampled", 2, "bad_json", b"{")
        topics.letter("interactions", 3, "bad_json", b"{", sj_failed_at="2026-11-14T10:00:00+00:00")

        def matching_letters(*arguments: str) -> set[int]:
            wanted = topics.run("replay", "--dry-run", *arguments)
            assert wanted.exit_code == 0, wanted.output
            return {int(line.split()[0]) for line in wanted.stdout.splitlines() if line.endswith("to move")}

        assert matching_letters() == {4}
        assert matching_letters("--reason", "unscored_*") == {2}
        assert matching_letters("--reason", "unscored_t*", "--reason", "bad_json") == {3}
        assert matching_letters("--stage", "sampler") == {1}
        assert matching_letters("--app", "shop") == {1}
        assert matching_letters("--since", "2026-11-15T00:00:00Z") == {3}
        assert matching_letters("--until", "2026-11-15T00:00:00Z") == {1}
        assert matching_letters("--limit", "2") == {2}
        assert not topics.read("sampled")
        assert topics.run("replay", "--reason", "unscored_*", "--app", "shop").stdout == "moved 1\n"
        assert [m.key() for m in topics.read("sampled")] == [b"k-0"]

    def test_a_dry_run_counts_letters_by_reason_and_stage(self, topics: Topics) -> None:
        self.letters(topics, 3)
        topics.letter("interactions", 9, "bad_json", b"{")
        lines = topics.run("replay", "--dry-run").stdout.splitlines()
        assert [line.split()[:3] for line in lines[1:3]] == [
            ["3", "unscored_timeout", "worker"],
            ["1", "bad_json", "sampler"],
        ]
        assert lines[3] == "4 to move"
        document = json.loads(topics.run("replay", "--dry-run", "--json").stdout)
        assert list(document) == json_fields("replay")
        assert (document["dry_run"], document["selected"], document["moved"], document["left"]) == (True, 4, 0, 4)
        assert [(kind["reason"], kind["stage"], kind["count"]) for kind in document["letters"]] == [
            ("unscored_timeout", "worker", 3),
            ("bad_json", "sampler", 1),
        ]

    def test_the_result_as_json(self, topics: Topics) -> None:
        self.letters(topics, 3)
        result = topics.run("replay", "--json", "--limit", "2")
        document = json.loads(result.stdout)
        assert (result.exit_code, document["selected"], document["moved"], document["left"]) == (0, 2, 2, 0)
        assert json.loads(topics.run("replay", "--json").stdout)["already_moved"] == 2

    def test_letters_cut_short_or_of_other_topics_stay(self, topics: Topics) -> None:
        topics.letter("sampled", 0, "too_large", b"beginning", sj_value_truncated_from="999")
        topics.letter(topics.names["evaluations"], 1, "bad_json", b"x")
        result = topics.run("replay")
        assert result.stdout.splitlines() == [
            "moved 0",
            "1 not moved: truncated because of their size",
            "1 not moved: they did not come from a topic that replay can move records to",
        ]

    @pytest.mark.slow
    def test_killed_in_the_middle_it_resumes(self, topics: Topics) -> None:
        count = 8_000
        self.letters(topics, count)
        command = [sys.executable, "-c", _PAUSING_REPLAY]
        environment = {**os.environ, **topics.environment, "PYTHONPATH": os.pathsep.join(sys.path)}
        with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
            assert process.stderr is not None
            assert process.stderr.readline().startswith(b"moving: 300 of 8,000")
            process.kill()
        result = json.loads(topics.run("replay", "--json").stdout)
        assert 300 <= result["already_moved"] < count
        assert result["moved"] == count - result["already_moved"]
        moved = Counter(json.loads(m.value())["id"] for m in topics.read("sampled"))
        assert moved == Counter(f"id-{number}" for number in range(count))

    @pytest.mark.slow
    def test_of_two_concurrent_runs_the_later_one_continues(self, topics: Topics) -> None:
        self.letters(topics, 700)
        first, second = (Replay(topics.config, ReplayRequest()) for _ in range(2))
        todo = first.take_over()
        moving = first.move(todo)
        assert next(moving) == 300
        rest = second.take_over()
        with pytest.raises(FencedError, match="another replay"):
            list(moving)
        assert (rest.moved_before, list(second.move(rest))) == (300, [300, 400])
        moved = Counter(json.loads(m.value())["id"] for m in topics.read("sampled"))
        assert moved == Counter(f"id-{number}" for number in range(700))

    def test_a_topic_that_refuses_a_letter_for_its_size_is_named(self, real_kafka: KafkaBroker) -> None:
        topics = Topics(real_kafka, missing=["sampled"])
        real_kafka.create_topics(topics.names["sampled"], config={"max.message.bytes": "300000"})
        topics.letter("sampled", 0, "unscored_timeout", b"x" * 400_000)
        result = topics.run("replay")
        assert result.exit_code == 1
        # 400,000 bytes of value and three of the key.
        assert f"{topics.names['sampled']} rejects a record of 400003 bytes; raise its max" in result.stderr

    def test_tail_shows_letters_and_no_marks(self, topics: Topics) -> None:
        topics.letter("sampled", 0, "unscored_timeout", b"x")
        topics.run("replay")
        topics.letter("sampled", 1, "bad_json", b"y")
        output = topics.run("tail", "--topic", "deadletter", "--from-beginning", "--limit", "2", "--json").stdout
        assert [json.loads(line)["error_type"] for line in output.splitlines()] == ["unscored_timeout", "bad_json"]


@pytest.mark.slow
class TestReplayInTheAudit:
    def test_a_letter_moved_back_and_scored_is_scored(self, topics: Topics) -> None:
        name, other = ids(2, chosen=True)
        topics.interactions(name, other)
        topics.write("sampled", record(name), record(other))
        topics.commit("sampler", interactions=2)
        topics.commit("worker", sampled=2)
        for offset, id_ in enumerate((name, other)):
            letter = topics.letter_record("sampled", offset, "unscored_timeout", record(id_)["value"])
            topics.write("deadletter", {**letter, "key": id_.encode()})
        assert topics.audit()["outcomes"]["unscored_deadlettered.timeout"] == 2
        topics.run("replay", "--limit", "1")
        assert topics.audit()["waiting"]["waiting_worker"] == 1
        topics.commit("worker", sampled=3)
        assert topics.audit(status=1)["missing"] == [name]
        topics.evaluation(name)
        report = topics.audit()
        assert report["outcomes"]["scored"] == report["outcomes"]["unscored_deadlettered.timeout"] == 1
        assert report["interactions"] == 2

    def test_a_record_without_an_id_is_distinguished_from_the_one_it_was_moved_to(self, topics: Topics) -> None:
        topics.write("interactions", {"value": b"no json"})
        topics.commit("sampler", interactions=1)
        letter = topics.letter_record("interactions", 0, "bad_json", b"no json")
        topics.write("deadletter", {**letter, "key": None})
        topics.run("replay")
        assert topics.audit()["waiting"]["waiting_sampler"] == 1
        topics.commit("sampler", interactions=2)
        assert topics.audit(status=1)["missing"] == [f"{topics.names['interactions']}/0/1"]
        topics.letter("interactions", 1, "bad_json", b"no json")
        report = topics.audit()
        assert (report["interactions"], report["replayed"], report["outcomes"]["deadlettered.bad_json"]) == (2, 1, 1)
