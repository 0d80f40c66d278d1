"""The digest of an interaction: the same for a repeat, different for any other content of the same id."""

from typing import Any

import pytest

from judges.values.interaction import Interaction
from stream.records.identity import content_digest

FIELDS: dict[str, Any] = {
    "id": "session-1",
    "app": "shop",
    "tenant": "acme",
    "model": "gpt-x",
    "question": "Is it open?",
    "answer": "It is.",
    "history": [{"role": "user", "text": "Hello"}],
    "contexts": [{"text": "Open until six."}, {"text": "Closed on Sunday."}],
    "reference": "Until six.",
    "candidates": [{"name": "b", "answer": "Until seven."}],
}


def digest(**fields: Any) -> str:
    return content_digest(Interaction.model_validate({**FIELDS, **fields}))


@pytest.mark.parametrize(
    "changes",
    [
        {"timestamp": "2026-01-01T00:00:00Z"},
        {"tags": {"feedback": "down"}},
        {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
        {"attempt": 2},
        {"contexts": [{"text": "Open until six.", "score": 0.5}, {"text": "Closed on Sunday."}]},
    ],
)
def test_fields_that_a_second_logging_attempt_may_change_are_not_content(changes: dict[str, Any]) -> None:
    assert digest(**changes) == digest()


@pytest.mark.parametrize(
    "changes",
    [
        {"app": "docs"},
        {"tenant": None},
        {"model": "gpt-y"},
        {"question": "Is it open"},
        {"answer": "It is. "},
        {"history": []},
        {"history": [{"role": "assistant", "text": "Hello"}]},
        {"contexts": [{"text": "Open until six.Closed on Sunday."}]},
        {"contexts": [{"text": "Closed on Sunday."}, {"text": "Open until six."}]},
        {"reference": None},
        {"candidates": []},
        {"question": "Is it", "answer": "open?It is."},
    ],
)
def test_everything_that_is_judged_is_content(changes: dict[str, Any]) -> None:
    assert digest(**changes) != digest()
