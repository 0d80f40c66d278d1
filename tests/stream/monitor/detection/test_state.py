"""The state: what cannot be read says so."""

import json

import pytest

from stream.monitor.detection import State, StateError, VersionState


def changed(stored: str, **fields: object) -> str:
    return json.dumps(json.loads(stored) | fields)


def test_a_new_state_goes_through_json_unchanged() -> None:
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
        changed(State().as_json(), v=2),
        changed(State().as_json(), evidence=[0.0]),
        changed(State().as_json(), onsets=[]),
        changed(State().as_json(), windows=[]),
    ],
)
def test_a_state_that_is_none_or_of_another_version_is_refused(stored: str) -> None:
    with pytest.raises(StateError, match="not the state of a detector"):
        State.from_json(stored)


@pytest.mark.parametrize("stored", ["", "{}", "[]", changed(VersionState().as_json(), v=0), State().as_json()])
def test_a_comparison_that_is_none_or_of_another_version_is_refused(stored: str) -> None:
    with pytest.raises(StateError, match="not the state of a comparison"):
        VersionState.from_json(stored)
