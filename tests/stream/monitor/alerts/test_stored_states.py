"""Stored states: the newest one of each key from any writer, without invalid ones."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream.kafka.offsets import Partition
from stream.kafka.record import Record
from stream.monitor.alerts.stored_states import StoredStates

SHOP = b"app:shop"


def state(count: object) -> bytes:
    return json.dumps({"included": {"count": count}}).encode()


def read_states(*records: tuple[bytes | None, bytes | None]) -> StoredStates:
    states = StoredStates()
    for offset, (key, value) in enumerate(records):
        states.add(Record(Partition("rag.detection", 0), offset, key, value, ()))
    return states


def test_of_two_writers_the_state_that_includes_more_records_wins() -> None:
    stored = read_states((SHOP, state(5)), (SHOP, state(9)), (SHOP, state(6)))
    assert stored.states() == {"app:shop": state(9)}
    assert stored.list_refused() == []
    assert read_states((SHOP, state(5)), (SHOP, None)).states() == {}


def test_traffic_has_no_state_under_the_app_of_the_canaries() -> None:
    [refused] = read_states((b"app:canaries", state(1))).list_refused()
    assert refused.error.kind == "bad_key"


@pytest.mark.parametrize(
    "place",
    [
        pytest.param(b"1" * 5000, id="long"),
        b"00",
        b"200",
        b"-1",
        b"+1",
        b" 1",
        b"",
        "\N{ARABIC-INDIC DIGIT ONE}".encode(),
    ],
)
def test_a_chunk_of_labels_has_one_key(place: bytes) -> None:
    """Python refuses to read a number of thousands of digits, which would end the monitor at every start."""
    stored = read_states((b"labels:1", state(1)), (b"labels:199", state(1)), (b"answers:" + place, state(1)))
    assert list(stored.states()) == ["labels:1", "labels:199"]
    assert [refused.error.kind for refused in stored.list_refused()] == ["bad_key"]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (b"", "bad_state"),
        (b"?", "bad_state"),
        (b"[]", "bad_state"),
        (b"\xff", "bad_state"),
        (b"[" * 200_000, "bad_state"),
        (b'{"included":{"count":1},"evaluators":' + b"[" * 200_000 + b"]" * 200_000 + b"}", "too_deep"),
        (b'{"included":{"count":Infinity}}', "bad_state"),
        (b'{"included":{"count":1},"evaluators":Infinity}', "bad_state"),
        (state(1e308), "bad_state"),
        (state(-1), "bad_state"),
        (state(10**30), "bad_state"),
        (state("5"), "bad_state"),
        (state(5) + b" " * (4 * 1024 * 1024), "too_large"),
    ],
)
def test_an_invalid_state_is_refused_and_replaced_by_an_older_one(value: bytes, kind: str) -> None:
    alone = read_states((SHOP, value))
    assert [refused_state.error.kind for refused_state in alone.list_refused()] == [kind]
    assert (alone.states(), alone.replacement(SHOP)) == ({}, None)
    after = read_states((SHOP, state(5)), (SHOP, value))
    assert [refused_state.record.value for refused_state in after.list_refused()] == [value]
    assert after.replacement(SHOP) == state(5)
    replaced = read_states((SHOP, value), (SHOP, state(1)))
    assert (replaced.list_refused(), replaced.states()) == ([], {"app:shop": state(1)})


@pytest.mark.parametrize("key", [None, b"", b"shop", b"app:\xff", b"app:" + b"a" * 257])
def test_an_invalid_key_is_refused(key: bytes | None) -> None:
    stored = read_states((key, state(1)))
    assert [refused_state.error.kind for refused_state in stored.list_refused()] == ["bad_key"]
    assert stored.states() == {}
    assert read_states((key, state(1)), (key, None)).list_refused() == [], "it was removed"


def test_a_state_that_turns_out_to_be_invalid_is_removed() -> None:
    stored = read_states((SHOP, state(1)), (b"canaries", state(1)))
    [error] = [refused_state.error for refused_state in read_states((SHOP, b"?")).list_refused()]
    stored.refuse("app:shop", error)
    assert stored.states() == {"canaries": state(1)}
    assert [refused_state.record.key for refused_state in stored.list_refused()] == [SHOP]
    assert stored.replacement(SHOP) is None


def test_if_there_are_too_many_apps_the_most_recently_written_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stream.monitor.alerts.stored_states.MOST_APPS", 1)
    monkeypatch.setattr("stream.monitor.alerts.stored_states.MOST_CHUNKS", 0)
    stored = read_states((b"app:a", state(1)), (b"app:b", state(1)), (b"app:a", state(2)), (b"app:c", state(1)))
    assert list(stored.states()) == ["app:a", "app:c"]


@given(st.binary(max_size=60) | st.none(), st.binary(max_size=200) | st.none())
def test_any_bytes_are_a_state_or_refused(key: bytes | None, value: bytes | None) -> None:
    stored = read_states((key, value))
    assert len(stored.states()) + len(stored.list_refused()) <= 1
