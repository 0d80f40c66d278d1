"""No record on the input topic stops the pipeline, and none is lost."""

import json
import random
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from sinks.metrics import Outcome, Stage
from stream.config.model import Config
from stream.kafka.embedded import EmbeddedBroker
from stream.service.service import Service
from tests.integration.pipeline import (
    headers_of,
    produce_all,
    read_all,
    read_json,
    to_create,
    topic_names,
    wait_until,
)
from tests.parts.kafka import KafkaBroker
from tests.parts.patience import patience
from tests.parts.required import unavailable

MIB = 1024 * 1024
GOOD = 50


def good(number: int) -> bytes:
    return json.dumps({"id": f"good-{number}", "question": "Is it open?", "answer": "It is open."}).encode()


def poison(rng: random.Random) -> list[bytes]:
    """Return 10,000 random byte strings and every other kind of invalid record."""
    wrong_types: list[object] = [
        17,
        "text",
        None,
        [1, 2],
        {},
        {"id": 1, "question": "q", "answer": "a"},
        {"id": "x", "question": ["q"], "answer": "a"},
        {"id": "x", "question": "q", "answer": {"text": "a"}},
        {"id": "x", "question": "q", "answer": "a", "contexts": "none"},
        {"id": "x", "question": "q", "answer": "a", "contexts": [{"text": 5}]},
        {"id": "x", "question": "q", "answer": "a", "history": [{"role": 1}]},
        {"id": "x", "question": "q", "answer": "a", "timestamp": "yesterday"},
        {"id": "", "question": "q", "answer": "a"},
        {"id": "x", "question": "q", "answer": "a", "tags": [1]},
    ]
    return [
        *(rng.randbytes(rng.randint(0, 200)) for _ in range(10_000)),
        b"\xff\xfe" + "кодировка".encode("utf-16"),
        good(0)[:-5],
        good(0).replace(b"open?", b"\xc3\x28"),
        *(json.dumps(value).encode() for value in wrong_types),
        b'{"id": "x", "question": "q", "answer": "a", "answer": "b"}',
        b'{"id": "x", "question": "q", "answer": "a", "score": NaN}',
        b'{"id": "\\ud800", "question": "q", "answer": "a"}',
        b'{"id": "x", "question": "q", "answer": "a", "deep": ' + b"[" * 500 + b"]" * 500 + b"}",
        b"[" * 100_000,
        b'{"a":' * 50_000,
        json.dumps({"id": "x", "question": "q", "answer": "a" * 70_000}).encode(),
    ]


@contextmanager
def running(
    bootstrap: str, stages: Sequence[Stage] = (Stage.SAMPLER, Stage.WORKER), **topics: str
) -> Iterator[Service]:
    config = Config.model_validate(
        {"kafka": {"bootstrap": bootstrap}, "sampling": {"rate": 1.0}, "http": {"port": 0}, "topics": topics}
    )
    with Service(config, stages) as service:
        yield service


def survive(bootstrap: str, records: Sequence[bytes], topics: dict[str, str]) -> None:
    """Mix good and bad records; then check that the good are scored and the bad are dead-lettered, byte for byte.

    All are sampled by their keys, so that the workers read them.
    """
    rng = random.Random(1)
    mixed = [*records, *(good(number) for number in range(GOOD))]
    rng.shuffle(mixed)
    keyed = ({"value": value, "key": b"key-%d" % number} for number, value in enumerate(mixed))
    produce_all(bootstrap, topics["interactions"], keyed)
    with running(bootstrap, **topics) as service:
        count = service.metrics.read_count

        def is_settled() -> bool:
            service.check()
            return count(Stage.SAMPLER, Outcome.SAMPLED) == count(Stage.WORKER, Outcome.CONSUMED) == len(mixed)

        wait_until(is_settled, seconds=90, what=lambda: f"{count(Stage.WORKER, Outcome.CONSUMED)} of {len(mixed)} read")
        assert service.health.alive().ok
    letters = read_all(bootstrap, topics["deadletter"])
    values = Counter(letter.value() or b"" for letter in letters)
    assert values.total() == len(records)
    assert values == Counter(records)
    for letter in letters:
        headers = headers_of(letter)
        assert headers["sj-error-stage"] == "worker"
        assert headers["sj-error-message"]
        assert headers["sj-source-topic"] == topics["sampled"]
        assert (letter.key() or b"").startswith(b"key-")
    evaluated = {evaluation["interaction_id"] for evaluation in read_json(bootstrap, topics["evaluations"])}
    assert evaluated == {f"good-{number}" for number in range(GOOD)}


@pytest.mark.slow
def test_poison_on_the_embedded_broker_becomes_dead_letters(embedded_broker: EmbeddedBroker) -> None:
    """Without records beyond the 5 MiB a partition that this broker keeps."""
    topics = topic_names("rag")
    survive(embedded_broker.bootstrap, [*poison(random.Random(7)), b"x" * (MIB + MIB // 2)], topics)


@pytest.mark.slow
def test_poison_on_kafka_becomes_dead_letters_up_to_10_mib(real_kafka: KafkaBroker) -> None:
    """All records on a real broker, some ten times larger than the limit."""
    topics = topic_names("poison")
    real_kafka.create_topics(*to_create(topics), partitions=2)
    huge = [
        b"x" * (10 * MIB),
        json.dumps({"id": "huge", "question": "q", "answer": "a", "pad": "p" * (10 * MIB - 100)}).encode(),
        random.Random(3).randbytes(10 * MIB),
    ]
    survive(real_kafka.bootstrap, [*poison(random.Random(8)), *huge], topics)


def test_a_dead_letter_that_the_broker_refuses_for_its_size_is_cut_and_marked(real_kafka: KafkaBroker) -> None:
    """The dead-letter topic accepts less than the input topic: the record is accounted for and the worker continues."""
    topics = topic_names("cut")
    others = [name for name in to_create(topics) if name != topics["deadletter"]]
    real_kafka.create_topics(*others)
    real_kafka.create_topics(topics["deadletter"], config={"max.message.bytes": str(MIB)})
    value = b"y" * (3 * MIB)
    produce_all(real_kafka.bootstrap, topics["interactions"], [{"value": value}, {"value": good(1)}])
    with running(real_kafka.bootstrap, **topics) as service:
        wait_until(
            lambda: service.check() is None and service.metrics.read_count(Stage.WORKER, Outcome.SCORED) == 1,
            seconds=60,
            what="the good record behind it is scored",
        )
    [letter] = read_all(real_kafka.bootstrap, topics["deadletter"])
    assert value.startswith(letter.value() or b"?")
    assert headers_of(letter)["sj-value-truncated-from"] == str(len(value))


@pytest.mark.parametrize(("compression", "number"), [("gzip", 1), ("zstd", 3)])
@pytest.mark.slow
def test_small_records_that_unpack_to_more_than_a_request_may_have_do_not_stop_the_sampler(
    real_kafka: KafkaBroker, compression: str, number: int
) -> None:
    """A broker measures compressed batches, and closes the connection of a client that sends more than 100 MiB.

    To compress one with gzip takes seconds.
    """
    topics = topic_names(f"bomb.{compression}")
    real_kafka.create_topics(*to_create(topics))
    spaces = b" " * (105 * MIB)
    # The sampler reads a record without a key itself, and samples one with a key unread.
    bombs: list[dict[str, Any]] = [
        {"value": spaces},
        {"value": spaces, "key": b"k"},
        {"value": good(GOOD), "key": b"k", "headers": [("h", spaces)]},
    ]
    for bomb in bombs[:number]:
        produce_all(real_kafka.bootstrap, topics["interactions"], [bomb], compression=compression)
    records = [{"value": good(place), "key": b"good"} for place in range(GOOD)]
    produce_all(real_kafka.bootstrap, topics["interactions"], records)
    with running(real_kafka.bootstrap, [Stage.SAMPLER], **topics) as service:
        wait_until(
            lambda: service.check() is None and service.metrics.read_count(Stage.SAMPLER, Outcome.SAMPLED) == GOOD,
            seconds=60,
            what="the good records are sampled",
        )
    assert len(read_all(real_kafka.bootstrap, topics["sampled"])) == GOOD
    letters = [headers_of(letter) for letter in read_all(real_kafka.bootstrap, topics["deadletter"])]
    assert [letter["sj-error-type"] for letter in letters] == ["too_large"] * number
    assert {letter.get("sj-value-truncated-from") for letter in letters[:2]} == {str(len(spaces))}
    assert all(letter["sj-headers-dropped"] for letter in letters[2:])


def test_a_sampler_whose_rules_read_the_body_finds_invalid_json(embedded_broker: EmbeddedBroker) -> None:
    """The workers find the rest: valid JSON with invalid contents."""
    records = [b"{", b"\xff", b"[]", b'{"id": 5}', b'{"id": "x", "question": 1}', good(1)]
    produce_all(embedded_broker.bootstrap, "rag.interactions", [{"value": value} for value in records])
    with running(embedded_broker.bootstrap) as service:
        wait_until(
            lambda: (
                service.check() is None
                and service.metrics.read_count(Stage.SAMPLER, Outcome.CONSUMED) == len(records)
                and service.metrics.read_count(Stage.WORKER, Outcome.CONSUMED) == 2
            ),
            seconds=30,
            what="all are read, and the two with an id are sampled",
        )
    stages = {
        letter.value(): headers_of(letter)["sj-error-stage"]
        for letter in read_all(embedded_broker.bootstrap, "rag.deadletter")
    }
    assert stages == {value: "worker" if b'"x"' in value else "sampler" for value in records[:-1]}


def test_a_header_name_that_is_not_utf_8_becomes_a_dead_letter(embedded_broker: EmbeddedBroker) -> None:
    """Clients that write bytes can write such names, and our client cannot read them."""
    if shutil.which("kcat") is None:
        unavailable("no kcat: install it (Debian: kcat)")
    command = ["kcat", "-P", "-b", embedded_broker.bootstrap, "-t", "rag.interactions", "-H", b"bad\xffname=value"]
    subprocess.run(command, input=good(1), check=True, timeout=30 * patience())
    with running(embedded_broker.bootstrap) as service:
        wait_until(
            lambda: service.check() is None and service.metrics.read_count(Stage.SAMPLER, Outcome.DEADLETTER) == 1,
            seconds=30,
            what="the record is dead-lettered",
        )
    [letter] = read_all(embedded_broker.bootstrap, "rag.deadletter")
    assert letter.value() == good(1)
    assert headers_of(letter)["sj-error-type"] == "bad_headers"


def test_records_that_are_too_large_only_with_key_headers_or_envelope_become_dead_letters(
    real_kafka: KafkaBroker,
) -> None:
    """The input topic accepts more than the others: this causes neither a crash loop nor an endless transaction."""
    topics = topic_names("edge")
    others = [name for name in to_create(topics) if name != topics["interactions"]]
    real_kafka.create_topics(topics["interactions"])
    real_kafka.create_topics(*others, config={"max.message.bytes": str(MIB + 12)})
    padded = json.dumps({"id": "edge", "question": "q?", "answer": "a.", "pad": "p" * (MIB - 200)}).encode()
    poisons: list[dict[str, Any]] = [
        {"value": padded, "key": b"k"},
        {"value": b"junk", "key": b"k" * (2 * MIB)},
        {"value": b"junk", "key": b"k", "headers": [("h", b"h" * (2 * MIB))]},
        {"value": good(GOOD), "key": b"k", "headers": [("h", b"h" * (2 * MIB))]},
        # The sampler reads a record without a key itself, and copies all headers to the letter.
        {"value": b"{", "headers": [("sj-x", b"h" * (2 * MIB))]},
    ]
    produce_all(real_kafka.bootstrap, topics["interactions"], [*poisons, {"value": good(1), "key": b"k"}])
    with running(real_kafka.bootstrap, **topics) as service:

        def is_settled() -> bool:
            service.check()
            return service.metrics.read_count(Stage.WORKER, Outcome.CONSUMED) == 1

        wait_until(is_settled, seconds=30, what="the good record is judged")
    letters = [headers_of(letter) for letter in read_all(real_kafka.bootstrap, topics["deadletter"])]
    assert sorted(letter["sj-source-offset"] for letter in letters) == ["0", "1", "2", "3", "4"]
    assert Counter(letter["sj-error-type"] for letter in letters) == {"too_large": 4, "bad_json": 1}
