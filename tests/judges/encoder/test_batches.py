"""Batches of the encoder judge: what happens to those that have not begun when the judge is closed."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from judges.encoder.batches import Batches, BatchesClosedError, Prepared, ScoredTask
from judges.encoder.inputs import Window
from judges.encoder.layouts import SentenceScore
from tests.parts.patience import patience, until


def test_closing_waits_for_the_batch_that_runs_and_for_no_other() -> None:
    """On a slow machine, all batches of the records in work would take longer than a worker waits for its judges."""
    entered, proceed, lengths = threading.Event(), threading.Event(), list[int]()

    def run(windows: Sequence[Window]) -> list[list[SentenceScore]]:
        lengths.extend(len(window.ids) for window in windows)
        entered.set()
        assert proceed.wait(30 * patience())
        return [[] for _ in windows]

    batches: Batches[None] = Batches(run, batch_tokens=1000, workers=1, name="closing", can_pad=False)
    windows = [Window(ids=[1] * length, types=[0] * length, spans=[], is_context_cut=False) for length in (5, 3)]

    async def close_while_busy() -> ScoredTask[None]:
        record = asyncio.create_task(batches.score(lambda: Prepared(task=None, windows=windows)))
        assert await asyncio.to_thread(entered.wait, 30 * patience())
        closing = asyncio.create_task(asyncio.to_thread(batches.close))
        await until(lambda: batches._closed)
        proceed.set()
        await closing
        return await record

    with pytest.raises(BatchesClosedError, match="closed before it could answer"):
        asyncio.run(close_while_busy())
    assert lengths == [5]
