"""Stored states: the newest of each key, whoever wrote it, and nothing that cannot be a state."""

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


def stored(*records: tuple[bytes | None, bytes | None]) -> StoredStates:
    found = StoredStates()
    for offset, (key, value) in enumerate(records):
        found.add(Record(Partition("rag.detection", 0), offset, key, value, ()))
    return found


def test_of_two_writers_the_one_who_has_included_more_is_believed() -> None:
    found = stored((SHOP, state(5)), (SHOP, state(9)), (SHOP, state(6)))
    assert found.states() == {"app:shop": state(9)}
    assert found.list_refused() == []
    assert stored((SHOP, state(5)), (SHOP, None)).states() == {}


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
def test_what_is_no_state_is_refused_and_an_older_one_takes_its_place(value: bytes, kind: str) -> None:
    alone = stored((SHOP, value))
    assert [each.error.kind for each in alone.list_refused()] == [kind]
    assert (alone.states(), alone.replacement(SHOP)) == ({}, None)
    after = stored((SHOP, state(5)), (SHOP, value))
    assert [each.record.value for each in after.list_refused()] == [value]
    assert after.replacement(SHOP) == state(5)
    replaced = stored((SHOP, value), (SHOP, state(1)))
    assert (replaced.list_refused(), replaced.states()) == ([], {"app:shop": state(1)})


@pytest.mark.parametrize("key", [None, b"", b"shop", b"app:\xff", b"app:" + b"a" * 257])
def test_a_key_that_names_nothing_is_refused(key: bytes | None) -> None:
    found = stored((key, state(1)))
    assert [each.error.kind for each in found.list_refused()] == ["bad_key"]
    assert found.states() == {}
    assert stored((key, state(1)), (key, None)).list_refused() == [], "it was removed"


def test_a_state_that_turns_out_to_be_none_is_removed() -> None:
    found = stored((SHOP, state(1)), (b"canaries", state(1)))
    [error] = [each.error for each in stored((SHOP, b"?")).list_refused()]
    found.refuse("app:shop", error)
    assert found.states() == {"canaries": state(1)}
    assert [each.record.key for each in found.list_refused()] == [SHOP]
    assert found.replacement(SHOP) is None


def test_of_more_apps_than_are_watched_those_written_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stream.monitor.alerts.stored_states.MOST_APPS", 1)
    found = stored((b"app:a", state(1)), (b"app:b", state(1)), (b"app:a", state(2)), (b"app:c", state(1)))
    assert list(found.states()) == ["app:a", "app:c"]


@given(st.binary(max_size=60) | st.none(), st.binary(max_size=200) | st.none())
def test_no_bytes_are_more_than_refused(key: bytes | None, value: bytes | None) -> None:
    found = stored((key, value))
    assert len(found.states()) + len(found.list_refused()) <= 1
