"""Stored detector states: invalid ones are refused."""

import json

import pytest

from stream.monitor.detection import State, StateError, VersionState


def with_fields(stored: str, **fields: object) -> str:
    return json.dumps(json.loads(stored) | fields)


def test_a_new_state_survives_json_unchanged() -> None:
    assert State.from_json(State().as_json()) == State()
    assert State.from_json(State().as_json().encode()) == State()
    assert VersionState.from_json(VersionState().as_json()) == VersionState()


@pytest.mark.parametrize(
    "stored",
    [
        "",
        "[]",
        "{}",
        "null",
        with_fields(State().as_json(), v=2),
        with_fields(State().as_json(), evidence=[0.0]),
        with_fields(State().as_json(), onsets=[]),
        with_fields(State().as_json(), windows=[]),
    ],
)
def test_an_invalid_state_or_one_of_another_version_is_refused(stored: str) -> None:
    with pytest.raises(StateError, match="not the state of a detector"):
        State.from_json(stored)


@pytest.mark.parametrize("stored", ["", "{}", "[]", with_fields(VersionState().as_json(), v=0), State().as_json()])
def test_an_invalid_comparison_or_one_of_another_version_is_refused(stored: str) -> None:
    with pytest.raises(StateError, match="not the state of a comparison"):
        VersionState.from_json(stored)
