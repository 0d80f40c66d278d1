"""Retries: a parked record keeps its content, waits on the topic of its attempt, and is given up after the last."""

import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinks.base import Headers, Message
from stream.config.model import Config
from stream.kafka.offsets import Partition
from stream.kafka.record import Record
from stream.worker.retries import Arrival, Retries

RETRIES = Retries(Config.model_validate({"worker": {"retry_seconds": [60, 300]}}))
ENVELOPE: Headers = (("sj-probability", b"0.5"), ("sj-rule", b"default"), ("trace", None))
RECORD = Record(partition=Partition("rag.sampled", 3), offset=41, key=b"id", value=b"{}", headers=ENVELOPE)


def read_again(message: Message) -> Record:
    """Return a sent record as a worker reads it from its new topic."""
    place = Partition(message.topic, 0)
    return Record(partition=place, offset=7, key=message.key, value=message.value, headers=message.headers)


def test_a_record_of_the_work_queue_may_be_judged_at_once() -> None:
    assert RETRIES.read_arrival(RECORD) == Arrival(RECORD, RECORD, 0, 0.0)


def test_forged_retry_headers_on_the_work_queue_are_ignored_and_removed() -> None:
    forged = RECORD._replace(headers=(("sj-attempts", b"9"), ("sj-retry-at", b"2999-01-01T00:00:00Z")))
    assert RETRIES.read_arrival(forged) == Arrival(forged, forged, 0, 0.0)
    arrival = RETRIES.read_arrival(read_again(RETRIES.defer(RETRIES.read_arrival(forged))))
    assert (arrival.attempts, arrival.due_at, arrival.origin.headers) == (0, 0.0, ())


def test_a_record_keeps_its_partition_number_on_other_topics() -> None:
    """A worker owns the same partition of all these topics, and so all records of an interaction."""
    parked = RETRIES.park(RETRIES.read_arrival(RECORD), error="x", message="")
    assert parked is not None
    assert (parked.partition, RETRIES.defer(RETRIES.read_arrival(RECORD)).partition) == (3, 3)


def test_a_parked_record_waits_longer_each_time_until_the_last_attempt() -> None:
    arrival, topics = RETRIES.read_arrival(RECORD), []
    for seconds in (60, 300):
        before = time.time()
        message = RETRIES.park(arrival, error="unscored_timeout", message="slow")
        assert message is not None
        topics.append(message.topic)
        arrival = RETRIES.read_arrival(read_again(message))
        assert before - 0.001 <= arrival.due_at - seconds <= time.time()
        assert arrival.origin == RECORD
    assert topics == ["rag.retry.1", "rag.retry.2"]
    assert arrival.attempts == 2
    assert RETRIES.park(arrival, error="unscored_timeout", message="slow") is None


@pytest.mark.parametrize("retry_at", ["2999-01-01T00:00:00Z", "9999-12-31T23:59:59-23:59"])
@pytest.mark.parametrize(("topic", "wait"), [("rag.retry.1", 60), ("rag.retry.2", 300), ("rag.overflow", 0)])
def test_no_record_waits_longer_than_the_delay_of_its_topic(topic: str, wait: float, retry_at: str) -> None:
    """All records behind it on the partition, of any app, wait for it."""
    headers = (("sj-attempts", b"1"), ("sj-retry-at", retry_at.encode()))
    before = time.time()
    arrival = RETRIES.read_arrival(RECORD._replace(partition=Partition(topic, 0), headers=headers))
    assert before <= arrival.due_at - wait <= time.time()


def test_a_record_that_is_read_late_does_not_wait_again() -> None:
    headers = (("sj-attempts", b"1"), ("sj-retry-at", b"2999-01-01T00:00:00Z"))
    forged = RECORD._replace(partition=Partition("rag.retry.2", 0), headers=headers)
    now = time.time()
    assert RETRIES.read_arrival(forged._replace(written_at=now - 500)).due_at == now - 200
    assert now <= RETRIES.read_arrival(forged._replace(written_at=now + 1e6)).due_at - 300 <= time.time()


def test_a_parked_record_is_due_at_the_time_in_its_header() -> None:
    """The record is written right after its header."""
    message = RETRIES.park(RETRIES.read_arrival(RECORD), error="x", message="")
    assert message is not None
    stated = datetime.fromisoformat((dict(message.headers)["sj-retry-at"] or b"").decode()).timestamp()
    arrival = RETRIES.read_arrival(read_again(message)._replace(written_at=time.time()))
    assert arrival.due_at == stated


def test_a_parked_record_has_its_reason_and_its_source() -> None:
    message = RETRIES.park(RETRIES.read_arrival(RECORD), error="unscored_timeout", message="slow " * 1000)
    assert message is not None
    assert (message.key, message.value, message.headers[: len(ENVELOPE)]) == (b"id", b"{}", ENVELOPE)
    headers = dict(message.headers)
    assert datetime.fromisoformat((headers["sj-retry-at"] or b"").decode()) > datetime.now(UTC)
    assert (headers["sj-attempts"], headers["sj-error-type"]) == (b"1", b"unscored_timeout")
    assert len(headers["sj-error-message"] or b"") == 1000
    source = [headers[f"sj-source-{part}"] for part in ("topic", "partition", "offset")]
    assert source == [b"rag.sampled", b"3", b"41"]


def test_a_parked_or_deferred_record_keeps_the_mark_of_a_sent_safety_notice() -> None:
    arrival = RETRIES.read_arrival(RECORD)._replace(noticed=True)
    for message in (RETRIES.park(arrival, error="unscored_timeout", message=""), RETRIES.defer(arrival)):
        assert message is not None
        again = RETRIES.read_arrival(read_again(message))
        assert (again.noticed, again.origin) == (True, RECORD)
    forged = RECORD._replace(headers=(("sj-noticed", b"1"),))
    assert not RETRIES.read_arrival(read_again(RETRIES.defer(RETRIES.read_arrival(forged)))).noticed


def test_a_deferred_record_is_unchanged_when_it_is_read_again() -> None:
    message = RETRIES.defer(RETRIES.read_arrival(RECORD))
    assert message.topic == "rag.overflow"
    arrival = RETRIES.read_arrival(read_again(message))
    assert (arrival.origin, arrival.attempts, arrival.due_at) == (RECORD, 0, 0.0)


@given(
    st.lists(st.tuples(st.sampled_from(["sj-attempts", "sj-retry-at", "sj-source-offset"]), st.binary() | st.none()))
)
def test_a_record_is_read_whatever_its_retry_headers_contain(headers: list[tuple[str, bytes | None]]) -> None:
    record = Record(partition=Partition("rag.retry.1", 0), offset=1, key=None, value=None, headers=tuple(headers))
    arrival = RETRIES.read_arrival(record)
    assert arrival.record == record
    assert arrival.attempts >= 0
    assert arrival.origin.offset >= 0
    RETRIES.park(arrival, error="x", message="\ud800")
