"""From the probabilities of sentences to that of their answer."""

import pytest

from judges.encoder.layouts import join_sentences


@pytest.mark.parametrize(
    ("aggregation", "probabilities", "joined"),
    [
        ("max", [0.1, 0.8, 0.5], 0.8),
        ("mean", [0.1, 0.8, 0.3], 0.4),
        ("two_highest", [0.8], 0.8),
        ("two_highest", [0.1, 0.9, 0.1], 0.5),
        ("two_highest", [0.9, 0.9, 0.0], 0.9),
        # A sentence that stands in a context word for word does not hide one that is surely unsupported.
        ("two_highest", [0.0, 0.98], 0.5),
        ("two_highest", [1.0, 1.0], 1.0),
    ],
)
def test_sentences_become_an_answer(aggregation: str, probabilities: list[float], joined: float) -> None:
    assert join_sentences(probabilities, aggregation) == pytest.approx(joined, abs=1e-6)
