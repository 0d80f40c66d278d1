"""The small commands against brokers: records arrive unchanged, and commands read what the topics hold."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from confluent_kafka import ConsumerGroupState, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType

from stream.cli.commands.send import send
from stream.cli.commands.tail import tail
from stream.cli.commands.topics import topics
from stream.cli.commands.traffic import traffic
from stream.cli.demo import Traffic, generate, load_corpus, plan
from stream.cli.demo.generator import TrafficGenerator
from stream.config.sections.kafka import KafkaConfig
from stream.config.sections.sampling import DEFAULT_SALT
from stream.errors import StageError
from stream.kafka.embedded import EmbeddedBroker
from stream.kafka.producers import counting
from tests.integration.pipeline import headers_of, produce_all, read_all, wait_until
from tests.parts.documents.json_fields import json_fields
from tests.parts.kafka import KafkaBroker
from tests.parts.patience import patience

TOPICS = (
    "interactions",
    "sampled",
    "overflow",
    "evaluations",
    "critical",
    "deadletter",
    "scores",
    "detection",
    "alerts",
    "labels",
)
# Those, and one for each retry delay.
MADE = len(TOPICS) + 3


class Place:
    """A broker with unique topic names."""

    def __init__(self, bootstrap: str) -> None:
        name = uuid.uuid4().hex[:8]
        self.bootstrap = bootstrap
        self.kafka = KafkaConfig(bootstrap=bootstrap)
        self.topic: Mapping[str, str] = {topic: f"{name}-{topic}" for topic in TOPICS}
        self.environment = {
            "STREAMJURY__KAFKA__BOOTSTRAP": bootstrap,
            "STREAMJURY__SAMPLING__SALT": name,
            "STREAMJURY__TOPICS__RETRY": f"{name}-retry",
            **{f"STREAMJURY__TOPICS__{topic.upper()}": own for topic, own in self.topic.items()},
        }

    def invoke(self, command: click.Command, *arguments: str, stdin: bytes = b"", **topics: int) -> Result:
        numbers = {f"STREAMJURY__TOPICS__{name.upper()}": str(number) for name, number in topics.items()}
        return CliRunner(env={**self.environment, **numbers}).invoke(command, arguments, input=stdin)

    def start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start the command in a separate process, as a shell would."""
        command = [sys.executable, "-m", "stream.cli.main", name, *arguments]
        pipe = subprocess.PIPE
        environment = {**os.environ, **self.environment, "PYTHONPATH": os.pathsep.join(sys.path)}
        return subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe)

    def publish(self, topic: str, *values: bytes, **fields: object) -> None:
        produce_all(self.bootstrap, self.topic[topic], [{"value": value, **fields} for value in values])

    def values(self, topic: str) -> list[bytes]:
        return [message.value() or b"" for message in read_all(self.bootstrap, self.topic[topic])]


@pytest.fixture(autouse=True)
def _no_configuration_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STREAMJURY_CONFIG", raising=False)


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


@pytest.fixture
def place(broker: EmbeddedBroker) -> Place:
    return Place(broker.bootstrap)


@pytest.fixture
def real_place(real_kafka: KafkaBroker) -> Place:
    return Place(real_kafka.bootstrap)


def healthy_traffic(seed: int = 1) -> Traffic:
    return generate(load_corpus(), plan("healthy", seconds=60), seed=seed)


class TestSend:
    LINES = (b'{"id": "a", "question": "?"}', b"not json \xff\x00", b'{"no": "id"}', '{"id": "ключ"}'.encode())

    def test_every_line_arrives_as_it_is_under_its_id(self, place: Place, tmp_path: Path) -> None:
        file = tmp_path / "in.jsonl"
        file.write_bytes(b"\n\n" + b"\r\n".join(self.LINES) + b"\n   \n")
        result = place.invoke(send, str(file))
        assert result.exit_code == 0
        assert result.stdout.startswith(f"delivered 4, failed 0, to {place.topic['interactions']} at ")
        assert not result.stderr
        arrived = {m.value(): m.key() for m in read_all(place.bootstrap, place.topic["interactions"])}
        assert arrived == dict(zip(self.LINES, (b"a", None, None, "ключ".encode()), strict=True))

    def test_the_result_as_json(self, place: Place) -> None:
        result = place.invoke(send, "-", "--json", stdin=b"\n".join(self.LINES))
        document = json.loads(result.stdout)
        assert (result.exit_code, list(document)) == (0, json_fields("send"))
        assert (document["delivered"], document["failed"], document["complete"]) == (4, 0, True)
        assert document["topic"] == place.topic["interactions"]

    def test_reads_standard_input(self, place: Place) -> None:
        result = place.invoke(send, "-", stdin=b"\n".join(self.LINES))
        assert result.exit_code == 0
        assert sorted(place.values("interactions")) == sorted(self.LINES)

    def test_keeps_to_the_rate(self, place: Place) -> None:
        began = time.monotonic()
        result = place.invoke(send, "-", "--rate", "20", stdin=b"x\n" * 21)
        assert result.exit_code == 0
        assert 1.0 <= time.monotonic() - began < 4 * patience()

    def test_a_record_that_does_not_arrive_is_named_and_the_others_are_sent(
        self, place: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(counting, "MAX_MESSAGE_BYTES", 2000)
        result = place.invoke(send, "-", stdin=b"first\n" + b"x" * 5000 + b"\nlast\n")
        assert result.exit_code == 1
        assert result.stdout.startswith("delivered 2, failed 1, ")
        assert re.fullmatch(r"line 2: .*too large.*\n", result.stderr)
        assert sorted(place.values("interactions")) == [b"first", b"last"]

    def test_ctrl_c_ends_a_wait_for_input_and_reports_the_sent_records(self, place: Place) -> None:
        with place.start("send", "-") as process:
            assert process.stdin is not None
            process.stdin.write(b"one\ntwo\n")
            process.stdin.flush()
            wait_until(lambda: len(place.values("interactions")) == 2, seconds=20, what="both lines")
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=20 * patience())
        assert process.returncode == 130
        assert out.startswith(b"delivered 2, failed 0, ")
        assert not err

    @pytest.mark.slow
    def test_a_broker_that_stops_ends_it_with_the_failed_records(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(counting, "DELIVERY_SECONDS", 2.0 * patience())
        with EmbeddedBroker() as passing, ThreadPoolExecutor(1) as pool:
            place = Place(passing.bootstrap)

            def stop_in_the_middle() -> None:
                wait_until(lambda: bool(place.values("interactions")), seconds=60, what="a record")
                passing.stop()

            stopping = pool.submit(stop_in_the_middle)
            result = place.invoke(send, "-", "--rate", "50", stdin=b"x\n" * 5000)
            stopping.result(10 * patience())
        assert result.exit_code == 1
        assert re.match(r"delivered [1-9]\d*, failed [1-9]\d*, ", result.stdout)
        assert "lost the broker; the rest of the input was not sent" in result.stderr

    def test_a_topic_that_does_not_exist_is_not_waited_for(self, real_place: Place) -> None:
        result = real_place.invoke(send, "-", stdin=b"x\n")
        assert result.exit_code == 3
        topic = real_place.topic["interactions"]
        assert result.stderr == f"Error: topic {topic} does not exist; create it with `streamjury topics create`\n"


class TestTopics:
    def test_an_embedded_broker_gets_all_topics_with_its_own_settings(self, place: Place) -> None:
        def list_topics() -> set[str]:
            return set(AdminClient({"bootstrap.servers": place.bootstrap}).list_topics(timeout=10 * patience()).topics)

        dry = place.invoke(topics, "create", "--dry-run")
        assert (dry.exit_code, place.topic["overflow"] in list_topics()) == (0, False)
        result = place.invoke(topics, "create")
        assert result.exit_code == 0
        assert "embedded broker: it has all topics now" in result.stdout
        assert {*place.topic.values()} <= list_topics()
        document = json.loads(place.invoke(topics, "create", "--json").stdout)
        assert list(document) == json_fields("topics create")
        assert (document["embedded"], document["topics"]) == (True, [])

    def test_the_results_as_json(self, real_place: Place) -> None:
        def statuses(*arguments: str, **settings: int) -> tuple[int, list[str]]:
            result = real_place.invoke(topics, "create", "--json", *arguments, stdin=b"", **settings)
            return result.exit_code, [topic["status"] for topic in json.loads(result.stdout)["topics"]]

        assert statuses("--dry-run") == (0, ["would create"] * MADE)
        assert statuses(replication=3) == (1, ["refused"] * MADE)
        assert statuses(partitions=1) == (0, ["created"] * MADE)
        assert statuses(partitions=1) == (0, ["exists"] * MADE)

    def test_creates_missing_topics_with_their_settings_and_leaves_existing_ones(self, real_place: Place) -> None:
        first = real_place.invoke(topics, "create", partitions=2, retention_hours=5)
        assert first.exit_code == 0, first.output
        assert first.stdout.count("created ") == MADE
        settings = {topic: _settings(real_place, topic) for topic in TOPICS}
        assert settings["evaluations"]["retention.ms"] == str(5 * 3_600_000)
        assert settings["alerts"]["cleanup.policy"] == "compact"
        assert int(settings["deadletter"]["max.message.bytes"]) == 16 * 1024 * 1024
        second = real_place.invoke(topics, "create", partitions=2)
        assert (second.exit_code, second.stdout.count("exists "), second.stderr) == (0, MADE, "")

    def test_a_dry_run_creates_nothing(self, real_place: Place) -> None:
        result = real_place.invoke(topics, "create", "--dry-run")
        assert result.exit_code == 0
        assert result.stdout.count("would create ") == MADE
        existing = AdminClient({"bootstrap.servers": real_place.bootstrap}).list_topics(timeout=10 * patience()).topics
        assert not set(real_place.topic.values()) & set(existing)

    def test_other_partitions_than_configured_are_a_warning(self, real_place: Place) -> None:
        real_place.invoke(topics, "create", partitions=2)
        result = real_place.invoke(topics, "create", partitions=3)
        assert result.exit_code == 0
        warning = f"warning: {real_place.topic['sampled']} has 2 partitions, but topics.partitions is 3"
        assert warning in result.stderr

    @pytest.mark.parametrize(("options", "words"), [((), "was not created"), (("--dry-run",), "cannot be created")])
    def test_refusals_of_the_broker_are_reported_per_topic_also_in_a_dry_run(
        self, real_place: Place, options: tuple[str, ...], words: str
    ) -> None:
        result = real_place.invoke(topics, "create", *options, replication=3)
        assert result.exit_code == 1
        assert result.stdout == ""
        refused = result.stderr.splitlines()
        assert len(refused) == MADE
        assert refused[0].startswith(f"{real_place.topic['interactions']} {words}: ")
        assert "eplication factor" in refused[0]
        assert refused[0].endswith("; set topics.replication")

    def test_a_random_salt_is_suggested_instead_of_the_public_one(self, real_place: Place) -> None:
        real_place.environment["STREAMJURY__SAMPLING__SALT"] = DEFAULT_SALT
        suggested = []
        for _ in range(2):
            result = real_place.invoke(topics, "create", "--dry-run")
            assert result.exit_code == 0
            [salt] = re.findall(r'sampling: \{salt: "(\w{32})"\}$', result.stderr)
            suggested.append(salt)
        assert suggested[0] != suggested[1]

    def test_the_created_topics_accept_large_originals(self, real_place: Place) -> None:
        real_place.invoke(topics, "create", partitions=1)
        large = os.urandom(10 * 1024 * 1024)
        for topic in ("interactions", "deadletter"):
            real_place.publish(topic, large)
            assert real_place.values(topic) == [large]


def _settings(place: Place, topic: str) -> dict[str, str]:
    admin = AdminClient({"bootstrap.servers": place.bootstrap})
    (future,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, place.topic[topic])]).values()
    return {name: entry.value for name, entry in future.result(10 * patience()).items()}


@pytest.mark.parametrize("name", ["sampler", "worker", "run"])
@pytest.mark.slow
def test_a_process_that_uses_the_public_salt_warns_when_it_starts(real_place: Place, name: str) -> None:
    real_place.environment |= {"STREAMJURY__SAMPLING__SALT": DEFAULT_SALT, "STREAMJURY__HTTP__PORT": "0"}
    with real_place.start(name) as process:
        assert process.stderr is not None
        try:
            assert any(b"sampling.salt is the public default" in line for line in process.stderr)
        finally:
            process.kill()


@pytest.mark.slow
class TestTail:
    @staticmethod
    def results(number: int, app: str = "shop") -> list[bytes]:
        return [json.dumps({"app": app, "number": index}).encode() for index in range(number)]

    def test_prints_existing_records_unchanged(self, place: Place) -> None:
        published = self.results(5)
        place.publish("evaluations", *published)
        result = place.invoke(tail, "--from-beginning", "--json", "--limit", "5")
        assert result.exit_code == 0
        assert sorted(result.stdout_bytes.splitlines()) == published

    def test_shows_one_app_only(self, place: Place) -> None:
        place.publish("evaluations", *self.results(10), *self.results(2, "bank"), b"\xff")
        result = place.invoke(tail, "--from-beginning", "--json", "--app", "bank", "--limit", "2")
        assert sorted(result.stdout_bytes.splitlines()) == self.results(2, "bank")

    def test_without_following_it_shows_existing_records_and_ends(self, place: Place) -> None:
        place.publish("evaluations", *self.results(5), *self.results(2, "bank"))
        result = place.invoke(tail, "--no-follow", "--json")
        assert (result.exit_code, len(result.stdout_bytes.splitlines())) == (0, 7), result.output
        limited = place.invoke(tail, "--no-follow", "--json", "--app", "bank", "--limit", "1")
        [line] = limited.stdout_bytes.splitlines()
        assert line in self.results(2, "bank"), "partitions are read in any order"

    @pytest.mark.parametrize("kind", ["place", "real_place"])
    def test_since_shows_recent_records_only(self, kind: str, request: pytest.FixtureRequest) -> None:
        place: Place = request.getfixturevalue(kind)
        place.invoke(topics, "create", partitions=2)
        now = int(time.time() * 1000)
        place.publish("evaluations", *self.results(5, "old"), timestamp=now - 7_200_000)
        place.publish("evaluations", *self.results(3, "new"), timestamp=now - 600_000)
        ended = place.invoke(tail, "--since", "1h", "--no-follow", "--json")
        assert (ended.exit_code, sorted(ended.stdout_bytes.splitlines())) == (0, self.results(3, "new")), ended.output
        followed = place.invoke(tail, "--since", "1h", "--json", "--limit", "3")
        assert sorted(followed.stdout_bytes.splitlines()) == self.results(3, "new")
        none = place.invoke(tail, "--since", "1m", "--no-follow")
        assert (none.exit_code, none.output) == (0, "")

    def test_without_following_a_missing_topic_is_not_waited_for(self, place: Place, real_place: Place) -> None:
        empty = place.invoke(tail, "--no-follow", "--json")
        assert (empty.exit_code, empty.output) == (0, "")
        missing = real_place.invoke(tail, "--no-follow")
        assert missing.exit_code == 3
        assert "does not exist; create it with `streamjury topics create`" in missing.stderr

    def test_without_from_beginning_it_shows_new_records(self, place: Place) -> None:
        place.publish("evaluations", *self.results(20, "old"))
        with place.start("tail", "--json", "--limit", "3") as process:
            while process.poll() is None:  # it does not say when it has found the end of the topic
                place.publish("evaluations", *self.results(3, "new"))
                time.sleep(0.2)
            out, err = process.communicate()
        lines = out.splitlines()
        assert len(lines) == 3
        assert {*lines} <= {*self.results(3, "new")}
        topic = place.topic["evaluations"]
        hint = f"waiting for new results on {topic}; --from-beginning shows older ones (Ctrl-C to stop)\n"
        assert err.decode() == hint

    def test_waits_for_a_topic_and_misses_no_record(self, place: Place) -> None:
        with place.start("tail", "--topic", "critical", "--json", "--limit", "3") as process:
            assert process.stderr is not None
            line = process.stderr.readline().decode()
            place.publish("critical", *self.results(3))
            out, _err = process.communicate(timeout=30 * patience())
        assert line.startswith(f"waiting for topic {place.topic['critical']}; ")
        assert "topics create" in line
        assert sorted(out.splitlines()) == self.results(3)

    def test_dead_letters_show_where_they_come_from(self, place: Place) -> None:
        headers = {"sj-error-stage": "sampler", "sj-error-type": "bad_json", "sj-error-message": "not JSON"}
        source = {"sj-source-topic": "in", "sj-source-partition": "3", "sj-source-offset": "42"}
        place.publish("deadletter", b"oops\xff", headers={**headers, **source})
        result = place.invoke(tail, "--topic", "deadletter", "--from-beginning", "--limit", "1")
        assert "sampler bad_json not JSON  in/3/42" in result.stdout
        assert "         oops\\xff\n" in result.stdout

    def test_ctrl_c_ends_it_quietly(self, place: Place) -> None:
        place.publish("evaluations", *self.results(1))
        with place.start("tail", "--from-beginning", "--json") as process:
            assert process.stdout is not None
            assert process.stdout.readline()
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=20 * patience())
        assert (process.returncode, err) == (0, b"")

    @pytest.mark.parametrize("options", [["--json"], []])
    def test_a_reader_that_leaves_ends_it_quietly(self, place: Place, options: list[str]) -> None:
        place.publish("evaluations", *self.results(1))
        with place.start("tail", "--from-beginning", *options) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline()
            process.stdout.close()
            place.publish("evaluations", *self.results(5))
            assert process.wait(20 * patience()) == 0
            assert process.stderr.read() == b""

    def test_leaves_no_group_and_shows_only_committed_records(self, real_place: Place) -> None:
        real_place.invoke(topics, "create", partitions=1)
        topic = real_place.topic["evaluations"]
        producer = Producer({"bootstrap.servers": real_place.bootstrap, "transactional.id": topic})
        producer.init_transactions(20 * patience())
        for value, end in ((b'"given up"', producer.abort_transaction), (b'"kept"', producer.commit_transaction)):
            producer.begin_transaction()
            producer.produce(topic, value)
            producer.flush(10 * patience())
            end(20 * patience())
        result = real_place.invoke(tail, "--from-beginning", "--json", "--limit", "1")
        assert result.stdout_bytes == b'"kept"\n'
        admin = AdminClient({"bootstrap.servers": real_place.bootstrap})
        groups = admin.list_consumer_groups(states=set(ConsumerGroupState)).result(10 * patience()).valid
        assert not [group.group_id for group in groups if "tail" in group.group_id]


class TestTraffic:
    def test_writes_labelled_records_and_reports_the_number_of_each_regime(self, place: Place) -> None:
        result = place.invoke(traffic, "--limit", "200", "--rate", "1000", "--regime", "scenario", "--seed", "7")
        assert result.exit_code == 0
        reported = {
            regime: int(number) for regime, number in re.findall(r"^  (\S+) +(\d+)$", result.stdout, re.MULTILINE)
        }
        messages = read_all(place.bootstrap, place.topic["interactions"])
        assert len(messages) == sum(reported.values()) == 200
        regimes = [headers_of(message)["regime"] for message in messages]
        assert {regime: regimes.count(regime) for regime in set(regimes)} == reported
        assert len(reported) > 1

    def test_ctrl_c_is_a_clean_end(self, place: Place) -> None:
        with place.start("traffic", "--rate", "50") as process:
            wait_until(lambda: len(place.values("interactions")) > 20, seconds=20, what="traffic")
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=20 * patience())
        assert process.returncode == 0
        delivered = re.match(rb"delivered (\d+) to ", out)
        assert delivered is not None
        assert int(delivered[1]) == len(place.values("interactions"))
        assert err.count(b"\n") == 1

    def test_the_generator_keeps_its_rate_and_counts_delivered_records(
        self, place: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("stream.cli.demo.generator._GRACE_SECONDS", 60.0)
        topic = place.topic["interactions"]
        generator = TrafficGenerator(place.kafka, topic, healthy_traffic(), rate=100)
        began = time.monotonic()
        sent = generator.run(threading.Event(), seconds=1.5)
        assert 1.4 <= time.monotonic() - began < 4 * patience()
        assert sent == {"healthy": 150}
        assert generator.delivered == 150 == len(place.values("interactions"))

    def test_the_generator_makes_the_same_records_on_a_slow_machine(self, place: Place) -> None:
        """The time in the plan is the scheduled one, so ids and regimes do not depend on the clock."""

        def ids(rate: float) -> set[str]:
            other = Place(place.bootstrap)
            traffic = generate(load_corpus(), plan("healthy", seconds=60), seed=5)
            TrafficGenerator(other.kafka, other.topic["interactions"], traffic, rate).run(threading.Event(), count=40)
            return {json.loads(value)["id"] for value in other.values("interactions")}

        assert ids(50) == ids(100_000)

    def test_the_generator_can_be_stopped_from_another_thread(self, place: Place) -> None:
        generator = TrafficGenerator(place.kafka, place.topic["interactions"], healthy_traffic(), rate=20)
        stop = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            run = pool.submit(generator.run, stop)
            wait_until(lambda: generator.delivered >= 10, seconds=30, what="traffic")
            stop.set()
            sent = run.result(5 * patience())
        assert 10 <= sum(sent.values()) == generator.delivered

    @pytest.mark.slow
    def test_the_generator_raises_when_records_do_not_arrive(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(counting, "DELIVERY_SECONDS", 2.0 * patience())
        with EmbeddedBroker() as passing, ThreadPoolExecutor(1) as pool:
            place = Place(passing.bootstrap)
            generator = TrafficGenerator(place.kafka, place.topic["interactions"], healthy_traffic(), rate=50)
            run = pool.submit(generator.run, threading.Event())
            wait_until(lambda: generator.delivered > 10, seconds=20, what="traffic")
            passing.stop()
            with pytest.raises(
                StageError, match=r"records were not delivered to .*-interactions; traffic: .*timed out"
            ):
                run.result(30 * patience())

    @pytest.mark.parametrize("rate", [0, -1, float("nan"), float("inf")])
    def test_the_generator_rejects_an_invalid_rate(self, place: Place, rate: float) -> None:
        with pytest.raises(ValueError, match="is not a positive number"):
            TrafficGenerator(place.kafka, "t", healthy_traffic(), rate)
