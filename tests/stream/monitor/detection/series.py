"""Simulated series for tests of the detector."""

import random
from collections.abc import Iterable, Iterator

from stream.monitor.detection import Event, Settings, State, observe

START = 1_700_000_000.0
STEP = 72.0
"""Fifty scores an hour."""


def passes(mean: float, count: int, rng: random.Random) -> Iterator[float]:
    return (float(rng.random() < mean) for _score in range(count))


def watch_scores(
    settings: Settings,
    scores: Iterable[float],
    *,
    state: State | None = None,
    probability: float = 1.0,
    step: float = STEP,
) -> tuple[State, list[tuple[int, Event]]]:
    """Return the state after these scores, and each event with the number of its score."""
    state = state or State()
    timestamp = (state.at or START) if state.at is not None else START - step
    events = []
    for number, score in enumerate(scores):
        timestamp += step
        state, event = observe(state, settings, score, probability, at=timestamp)
        if event is not None:
            events.append((number, event))
    return state, events
