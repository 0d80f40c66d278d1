"""Dead letters: the source record as it was, and the reason in headers, whatever the reason says."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinks.base import Headers, Message
from sinks.topics.dead_letters import DeadLetter, DeadLetterTopic

REASON = {
    "sj-schema",
    "sj-error-stage",
    "sj-error-type",
    "sj-error-message",
    "sj-attempts",
    "sj-source-topic",
    "sj-source-partition",
    "sj-source-offset",
    "sj-failed-at",
}


def letter(**changes: Any) -> DeadLetter:
    basis: dict[str, Any] = {
        "stage": "sampler",
        "error_type": "bad_json",
        "error_message": "not JSON",
        "attempts": 3,
        "topic": "rag.interactions",
        "partition": 7,
        "offset": 2**40,
        "failed_at": datetime(2026, 11, 15, 10, 30, tzinfo=UTC),
        "key": b"key",
        "value": b"{",
        "headers": (),
    }
    return DeadLetter(**{**basis, **changes})


def write_letter(**changes: Any) -> Message:
    [message] = DeadLetterTopic("rag.deadletter").messages(letter(**changes))
    return message


def test_the_reason_is_in_the_headers() -> None:
    message = write_letter()
    assert message.topic == "rag.deadletter"
    assert dict(message.headers) == {
        "sj-schema": b"1",
        "sj-error-stage": b"sampler",
        "sj-error-type": b"bad_json",
        "sj-error-message": b"not JSON",
        "sj-attempts": b"3",
        "sj-source-topic": b"rag.interactions",
        "sj-source-partition": b"7",
        "sj-source-offset": b"1099511627776",
        "sj-failed-at": b"2026-11-15T10:30:00+00:00",
    }


headers = st.lists(
    st.tuples(
        st.text(st.characters(codec="utf-8"), max_size=10) | st.sampled_from(sorted(REASON)), st.none() | st.binary()
    ),
    max_size=6,
).map(tuple)


@given(st.none() | st.binary(), st.none() | st.binary(), headers, st.text(st.characters()))
def test_any_record_is_kept_as_it_was_and_any_reason_is_written(
    key: bytes | None, value: bytes | None, headers: Headers, reason: str
) -> None:
    message = write_letter(key=key, value=value, headers=headers, error_message=reason)
    assert (message.key, message.value) == (key, value)
    assert message.headers[: -len(REASON)] == tuple(header for header in headers if header[0] not in REASON)
    added = dict(message.headers[-len(REASON) :])
    assert added.keys() == REASON
    assert (added["sj-error-message"] or b"").decode("utf-8") is not None


def test_headers_of_the_source_stay_in_order_repeats_included() -> None:
    headers = (("a", b"1"), ("traceparent", b"00"), ("a", None), ("sj-probability", b"0.5"))
    assert write_letter(headers=headers).headers[:4] == headers


def test_a_record_that_failed_before_keeps_only_its_newest_reason() -> None:
    first = write_letter(error_message="first", attempts=1)
    again = write_letter(error_message="second", attempts=2, headers=first.headers)
    assert len(again.headers) == len(REASON)
    assert dict(again.headers)["sj-error-message"] == b"second"


@pytest.mark.parametrize(
    ("reason", "written_as"),
    [
        ("duplicate key '\ud800'", rb"duplicate key '\ud800'"),
        ("ключ", "ключ".encode()),
        ("", b""),
        ("x" * 5000, b"x" * 1000),
    ],
)
def test_reasons_are_short_utf_8_text(reason: str, written_as: bytes) -> None:
    assert dict(write_letter(error_message=reason).headers)["sj-error-message"] == written_as
