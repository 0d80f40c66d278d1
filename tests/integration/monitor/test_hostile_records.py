"""Whatever is written to our own topics, the monitor keeps running and dead-letters each refused record once."""

import json
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from sinks.metrics import Outcome, Stage
from stream.config.model import Config
from stream.kafka.embedded import EmbeddedBroker
from stream.kafka.offsets import Partition
from stream.kafka.topic_scan import read_committed_offsets
from stream.service.service import Service
from tests.integration.pipeline import headers_of, produce_all, read_all, to_create, topic_names, wait_until
from tests.parts.kafka import KafkaBroker
from tests.parts.patience import patience
from tests.parts.required import unavailable
from tests.stream.cli.terminal.test_run_summary import evaluation
from tests.stream.monitor.alerts.traffic import Traffic

DEEP = b"[" * 200_000
KIB = 1024
HIDDEN_DEPTH = b'{"v":1,"included":{"count":5},"evaluators":' + DEEP + b"]" * 200_000 + b"}"
AT = "2026-11-17T12:00:00Z"
STATE = {"v": 1, "included": {"reached": {}, "recent": "", "count": 3}, "announced": [], "evaluators": {}}


def score(**changes: Any) -> bytes:
    record = Traffic().next(at=time.time()).model_dump(mode="json")
    return json.dumps(record | changes).encode()


def many_verdicts() -> dict[str, Any]:
    """Return dimensions whose scores take more than a megabyte."""
    scored = {"status": "scored", "score": 0.5}
    names = [f"{number:0250}" for number in range(24)]
    judges = [{**scored, "judge": name, "samples": {"requested": 1}} for name in names]
    return {f"d{number}": {**scored, "judges": judges} for number in range(200)}


def hostile(topics: Mapping[str, str]) -> dict[str, list[dict[str, Any]]]:
    """Return records that must be refused, by topic."""
    good = json.loads(evaluation(0.5, "shop").model_dump_json())
    states = {
        "app:shop": json.dumps(STATE | {"evaluators": []}).encode(),
        "app:deep": DEEP,
        "app:hidden": HIDDEN_DEPTH,
        "app:infinite": json.dumps(STATE | {"evaluators": {"f": float("inf")}}).encode(),
        "canaries": b"?",
        "stranger": b"{}",
        "labels:0": json.dumps({"v": 1, "included": {"count": 3}, "first": 0, "entries": [[{}, None]]}).encode(),
        "answers:0": json.dumps({"v": 1, "included": {"count": 3}, "first": 0, "entries": DEEP.decode()}).encode(),
        "answers:" + "1" * 5000: b'{"included":{"count":1}}',
        "answers:9999": json.dumps({"v": 1, "included": {"count": 3}, "first": 0, "entries": []}).encode(),
    }
    label = {"label_id": "l", "interaction_id": "i", "criterion": "clarity", "who": "ada", "labelled_at": AT}
    return {
        topics["evaluations"]: [
            {"value": value}
            for value in (
                b"no evaluation",
                DEEP,
                json.dumps(good | {"dimensions": {"d" * 10_000: {"status": "scored", "score": 1.0}}}).encode(),
                json.dumps(good | {"app": "a" * 100_000}).encode(),
                # Accepted by its topic, but its scores are not by theirs.
                json.dumps(good | {"evaluation_id": "large", "dimensions": many_verdicts()}).encode(),
            )
        ],
        topics["scores"]: [
            {"key": "shop", "value": value}
            for value in (
                DEEP,
                score(at=1e308),
                score(at=time.time() + 1e6),
                score(source={"partition": 0, "offset": 10**30}),
                score(scores={"d" * 100_000: 0.0}),
            )
        ]
        + [{"key": "i", "value": b"no forwarded label", "headers": {"sj-kind": b"label"}}],
        topics["labels"]: [
            {"key": "i", "value": value}
            for value in (
                b"no label",
                DEEP,
                json.dumps(label | {"score": 2.0}).encode(),
                json.dumps(label | {"score": 1.0, "who": "a" * 100_000}).encode(),
                json.dumps(label | {"score": 1.0, "probability": 2.0**-53}).encode(),
            )
        ],
        topics["detection"]: [{"key": key, "value": value} for key, value in states.items()],
    }


def config(bootstrap: str, topics: Mapping[str, str], **more: Any) -> Config:
    groups = {stage: {"group": f"{topics['scores']}-{stage}"} for stage in ("sampler", "worker", "monitor")}
    return Config.model_validate(
        {"kafka": {"bootstrap": bootstrap}, "topics": topics, "http": {"port": 0}, **groups, **more}
    )


def evaluate(bootstrap: str, topic: str, name: str) -> None:
    record = evaluation(0.5, "shop").model_copy(update={"evaluation_id": name})
    produce_all(bootstrap, topic, [{"key": name, "value": record.model_dump_json()}])


def wait_for(service: Service, outcome: Outcome, count: int) -> None:
    def has_reached() -> bool:
        service.check()
        return service.metrics.read_count(Stage.MONITOR, outcome) >= count

    wait_until(
        has_reached, seconds=60, what=lambda: f"{count} {outcome}, {service.metrics.read_count(Stage.MONITOR, outcome)}"
    )


def wait_for_letters(service: Service, topics: Mapping[str, str], bootstrap: str, count: int) -> None:
    """Wait until the topic has the dead letters: most are counted before they are sent."""
    wait_for(service, Outcome.DEADLETTER, count)
    wait_until(
        lambda: len(read_all(bootstrap, topics["deadletter"])) >= count, seconds=60, what=f"{count} dead letters"
    )


def is_finished(settings: Config, topics: Mapping[str, str]) -> bool:
    """Return whether the monitor has committed all records that it would otherwise read again after a restart."""
    messages = [
        message
        for name in ("evaluations", "scores", "labels")
        for message in read_all(settings.kafka.bootstrap, topics[name])
    ]
    places = [
        (Partition(message.topic() or "", message.partition() or 0), message.offset() or 0) for message in messages
    ]
    committed = read_committed_offsets(settings.kafka, settings.monitor.group, {partition for partition, _ in places})
    return all(committed[partition] > offset for partition, offset in places)


def survive(bootstrap: str, topics: dict[str, str]) -> None:
    written = hostile(topics)
    for topic, records in written.items():
        produce_all(bootstrap, topic, [{"partition": 0, **record} for record in records])
    expected = Counter((topic, record["value"]) for topic, records in written.items() for record in records)
    settings = config(bootstrap, topics)
    with Service(settings, [Stage.MONITOR]) as service:
        evaluate(bootstrap, topics["evaluations"], "first")
        wait_for(service, Outcome.SEEN, 1)
        wait_for_letters(service, topics, bootstrap, expected.total())
        wait_until(
            lambda: len(read_all(bootstrap, topics["scores"])) == 7, seconds=30, what="the score of the good one"
        )
        wait_until(lambda: is_finished(settings, topics), seconds=60, what="all records are committed")
    letters = read_all(bootstrap, topics["deadletter"])
    assert Counter((headers_of(letter)["sj-source-topic"], letter.value()) for letter in letters) == expected
    for letter in letters:
        headers = headers_of(letter)
        assert headers["sj-error-stage"] == "monitor"
        assert headers["sj-error-message"]
    # After a restart it continues from its stored state: refused records are not read again.
    with Service(settings, [Stage.MONITOR]) as service:
        evaluate(bootstrap, topics["evaluations"], "second")
        wait_for(service, Outcome.SEEN, 1)
        wait_until(lambda: service.health.ready().ok, seconds=30, what="ready")
    assert len(read_all(bootstrap, topics["deadletter"])) == len(letters)


@pytest.mark.slow
def test_the_monitor_survives_hostile_records_on_the_embedded_broker(embedded_broker: EmbeddedBroker) -> None:
    survive(embedded_broker.bootstrap, topic_names("rag"))


@pytest.mark.slow
def test_the_monitor_survives_hostile_records_on_kafka(real_kafka: KafkaBroker) -> None:
    topics = topic_names("hostile")
    real_kafka.create_topics(*to_create(topics))
    survive(real_kafka.bootstrap, topics)


def test_without_detection_refused_records_are_dead_lettered_too(embedded_broker: EmbeddedBroker) -> None:
    topics = topic_names("rag")
    produce_all(embedded_broker.bootstrap, topics["evaluations"], [{"value": b"?"}, {"value": DEEP}])
    settings = config(embedded_broker.bootstrap, topics, detection={"enabled": False})
    with Service(settings, [Stage.MONITOR]) as service:
        evaluate(embedded_broker.bootstrap, topics["evaluations"], "good")
        wait_for(service, Outcome.SEEN, 1)
        wait_for_letters(service, topics, embedded_broker.bootstrap, 2)
    letters = read_all(embedded_broker.bootstrap, topics["deadletter"])
    assert sorted(letter.value() or b"" for letter in letters) == [b"?", DEEP]


def test_header_names_that_are_not_utf_8_do_not_stop_the_monitor(embedded_broker: EmbeddedBroker) -> None:
    """Clients that write bytes can write such names. A good record counts, whatever its other headers are named."""
    if shutil.which("kcat") is None:
        unavailable("no kcat: install it (Debian: kcat)")
    bootstrap, topics = embedded_broker.bootstrap, topic_names("rag")

    def write(topic: str, value: bytes) -> None:
        command = ["kcat", "-P", "-b", bootstrap, "-t", topics[topic], "-k", "app:shop", "-H", b"bad\xffname=value"]
        subprocess.run(command, input=value, check=True, timeout=30 * patience())

    refused = {topic: f"not one of the {topic}".encode() for topic in ("evaluations", "scores", "labels", "detection")}
    for topic, value in refused.items():
        write(topic, value)
    write("evaluations", evaluation(0.5, "shop").model_dump_json().encode())
    with Service(config(bootstrap, topics), [Stage.MONITOR]) as service:
        wait_for(service, Outcome.SEEN, 1)
        wait_for_letters(service, topics, bootstrap, len(refused))
        wait_until(lambda: has_state(bootstrap, topics), seconds=30, what="the state of the good one")
    assert Counter(letter.value() for letter in read_all(bootstrap, topics["deadletter"])) == Counter(refused.values())


def has_state(bootstrap: str, topics: Mapping[str, str]) -> bool:
    return any((message.value() or b"").startswith(b'{"v":1') for message in read_all(bootstrap, topics["detection"]))


@pytest.mark.slow
def test_a_state_whose_key_is_too_large_to_be_removed_does_not_stop_the_monitor(real_kafka: KafkaBroker) -> None:
    topics = topic_names("key")
    real_kafka.create_topics(*(name for name in to_create(topics) if name != topics["detection"]))
    real_kafka.create_topics(topics["detection"], config={"max.message.bytes": str(4096 * KIB)})
    key = Random(1).randbytes(500 * KIB) * 20
    state = {"key": key, "value": b"{}", "partition": 0}
    produce_all(real_kafka.bootstrap, topics["detection"], [state], compression="zstd")
    with Service(config(real_kafka.bootstrap, topics), [Stage.MONITOR]) as service:
        evaluate(real_kafka.bootstrap, topics["evaluations"], "good")
        wait_for(service, Outcome.SEEN, 1)
        wait_for_letters(service, topics, real_kafka.bootstrap, 1)
        wait_until(lambda: has_state(real_kafka.bootstrap, topics), seconds=30, what="the state of the good one")
    [letter] = read_all(real_kafka.bootstrap, topics["deadletter"])
    assert (letter.key(), headers_of(letter)["sj-error-type"]) == (key, "bad_key")


@pytest.mark.parametrize("topic", ["evaluations", "detection"])
@pytest.mark.slow
def test_a_small_record_that_unpacks_to_more_than_a_request_may_have_does_not_stop_the_monitor(
    real_kafka: KafkaBroker, topic: str
) -> None:
    """The letters are compressed too, but not by all that another client can."""
    topics = topic_names(f"bomb.{topic}")
    real_kafka.create_topics(*to_create(topics))
    value = Random(1).randbytes(500 * KIB) * 215
    produce_all(
        real_kafka.bootstrap, topics[topic], [{"key": "app:shop", "value": value, "partition": 0}], compression="zstd"
    )
    with Service(config(real_kafka.bootstrap, topics), [Stage.MONITOR]) as service:
        wait_for_letters(service, topics, real_kafka.bootstrap, 1)
        evaluate(real_kafka.bootstrap, topics["evaluations"], "good")
        wait_for(service, Outcome.SEEN, 1)
    [letter] = read_all(real_kafka.bootstrap, topics["deadletter"])
    assert headers_of(letter)["sj-value-truncated-from"] == str(len(value))


@pytest.mark.parametrize("topic", ["evaluations", "scores", "detection"])
@pytest.mark.slow
def test_a_letter_that_is_too_large_for_its_topic_is_cut_and_the_monitor_goes_on(
    real_kafka: KafkaBroker, topic: str
) -> None:
    topics = topic_names(f"cut.{topic}")
    real_kafka.create_topics(*(name for name in to_create(topics) if name != topics["deadletter"]))
    real_kafka.create_topics(topics["deadletter"], config={"max.message.bytes": str(400 * KIB)})
    # Random, so that compression does not shrink it.
    value = Random(1).randbytes(800 * KIB)
    produce_all(real_kafka.bootstrap, topics[topic], [{"key": "app:shop", "value": value}])
    with Service(config(real_kafka.bootstrap, topics), [Stage.MONITOR]) as service:
        wait_for_letters(service, topics, real_kafka.bootstrap, 1)
        evaluate(real_kafka.bootstrap, topics["evaluations"], "good")
        wait_for(service, Outcome.SEEN, 1)
        wait_until(lambda: has_state(real_kafka.bootstrap, topics), seconds=30, what="the state of the good one")
    [letter] = read_all(real_kafka.bootstrap, topics["deadletter"])
    assert value.startswith(letter.value() or b"?")
    assert headers_of(letter)["sj-value-truncated-from"] == str(len(value))
