"""A queue and a thread in front of a sink, so that a slow or failing one never holds up the stage that writes to it.

Delivery: a stage hands evaluations over after they are committed to their topic. Each reaches the sink at most once in
a run of the process, in order. What waits in the queue is lost in a crash, and so is what a stop leaves no time for;
the latter is counted and logged. The topic is the source of truth and can be read again.
"""

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Literal

from judges.values.evaluation import Evaluation
from sinks.base import Sink, SinkUnavailable
from sinks.metrics.sinks import Delivery, SinkMetrics

log = logging.getLogger(__name__)

WhenFull = Literal["drop", "wait"]

CLOSE_SECONDS = 3.0
"""Time for what waits when the process stops."""

DEFAULT_QUEUE = 10_000

_BATCH = 500
# How long a batch that is not full yet waits for more.
_BATCH_SECONDS = 0.2
# What was written is made durable after this long at the latest.
_FLUSH_SECONDS = 1.0
_FIRST_DELAY_SECONDS = 0.25
_LONGEST_DELAY_SECONDS = 30.0
_LOG_SECONDS = 60.0
# A sink keeps to the deadline of its close by itself; this is for it to return.
_GRACE_SECONDS = 0.5


class QueuedSink(Sink):
    """Writes to another sink in batches from a bounded queue. `write` never blocks and never raises.

    A batch that the sink cannot take now is tried again, with growing delays, while the queue fills. Any other error
    of the sink costs the batch. When the queue is full, `when_full` decides: "drop" drops the newest, "wait" asks the
    stage to start no more records. What the stage had started by then is still taken, so the queue grows beyond its
    size by that much.
    """

    def __init__(
        self,
        sink: Sink,
        metrics: SinkMetrics,
        *,
        size: int = DEFAULT_QUEUE,
        when_full: WhenFull = "drop",
        batch: int = _BATCH,
    ) -> None:
        self.name = sink.name
        self._sink = sink
        self._metrics = metrics
        self._size = size
        self._waits = when_full == "wait"
        self._batch = batch
        # A batch stays in the queue until it is written: it counts as waiting, and is left over if it never is.
        self._queue: deque[Evaluation] = deque()
        self._changed = threading.Condition()
        self._deadline: float | None = None
        """When to have closed; None until that is asked for."""
        self._is_abandoned = False
        self._flush_asked = False
        self._written_at: float | None = None
        """When the first of what is not flushed yet was written."""
        self._log = _LossLog(self.name)
        self._is_away = False
        self._pressed_at = -math.inf
        self._thread: threading.Thread | None = None
        metrics.add(self.name, lambda: len(self._queue))

    @property
    def applies_backpressure(self) -> bool:
        return self._waits and len(self._queue) >= self._size

    def open(self) -> None:
        """Starts the thread, which opens the sink, however long that takes."""
        self._thread = threading.Thread(target=self._run, name=f"sink-{self.name}", daemon=True)
        self._thread.start()

    def write(self, evaluations: Sequence[Evaluation], /) -> None:
        with self._changed:
            room = len(evaluations) if self._waits else max(0, self._size - len(self._queue))
            taken = evaluations[:room] if self._deadline is None else ()
            self._queue.extend(taken)
            # Not for every evaluation: the thread looks again by itself at a batch that fills slowly.
            if len(self._queue) == len(taken) or len(self._queue) >= self._batch:
                self._changed.notify_all()
        if len(taken) < len(evaluations):
            why = "its queue is full" if self._deadline is None else "it is closed"
            self._lose(Delivery.DROPPED, len(evaluations) - len(taken), why)
        if self.applies_backpressure and time.monotonic() - self._pressed_at >= _LOG_SECONDS:
            log.warning("sink %s has a full queue; no new records are started until it catches up", self.name)
            self._pressed_at = time.monotonic()

    def flush(self, seconds: float) -> None:
        """Waits until everything given so far is written and flushed, for at most this long."""
        with self._changed:
            self._flush_asked = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._flush_asked or self._deadline is not None, seconds)

    def stop(self, seconds: float) -> None:
        """Takes nothing more, and has the thread close the sink within this time; does not wait for it."""
        with self._changed:
            if self._deadline is None:
                self._deadline = time.monotonic() + seconds
            self._changed.notify_all()

    def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Writes what waits and closes the sink, within this time. What is left then is counted and logged."""
        self.stop(seconds)
        assert self._deadline is not None
        if self._thread is not None:
            self._thread.join(max(0.0, self._deadline - time.monotonic()) + _GRACE_SECONDS)
        with self._changed:
            self._is_abandoned = True
            left = len(self._queue)
            self._queue.clear()
        if left:
            self._lose(Delivery.DROPPED, left, "not written before shutdown")
        self._log.log_rest()

    # What the thread does

    def _run(self) -> None:
        if not self._open_sink():
            return
        while not self._is_done():
            batch = self._next_batch()
            if batch:
                self._deliver(batch)
            self._flush_when_due()
        try:
            self._sink.close(self._seconds_left())
        except Exception:
            log.exception("cannot close sink %s", self.name)

    def _open_sink(self) -> bool:
        delay = _FIRST_DELAY_SECONDS
        while True:
            try:
                self._sink.open()
            except Exception as error:
                self._note_outage(error)
                if not self._pause(delay):
                    return False
                delay = min(2 * delay, _LONGEST_DELAY_SECONDS)
            else:
                self._note_recovery()
                return True

    def _is_done(self) -> bool:
        with self._changed:
            return self._deadline is not None and (not self._queue or time.monotonic() >= self._deadline)

    def _next_batch(self) -> list[Evaluation]:
        """Waits for a full batch, or for the first of one and a little longer; empty when it is time to flush."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._is_urgent(), self._seconds_to_flush())
            if self._queue:
                self._changed.wait_for(lambda: len(self._queue) >= self._batch or self._is_urgent(), _BATCH_SECONDS)
            return list(islice(self._queue, self._batch))

    def _is_urgent(self) -> bool:
        return self._flush_asked or self._deadline is not None

    def _deliver(self, batch: Sequence[Evaluation]) -> None:
        delay = _FIRST_DELAY_SECONDS
        while True:
            try:
                self._sink.write(batch)
            except SinkUnavailable as error:
                self._note_outage(error)
                if not self._pause(delay):
                    return
                delay = min(2 * delay, _LONGEST_DELAY_SECONDS)
            except Exception as error:
                if self._remove(len(batch)):
                    self._lose(Delivery.FAILED, len(batch), "it failed", error)
                return
            else:
                self._note_recovery()
                self._written_at = self._written_at or time.monotonic()
                if self._remove(len(batch)):
                    self._metrics.count(self.name, Delivery.WRITTEN, len(batch))
                return

    def _remove(self, number: int) -> bool:
        """Takes a batch off the queue; False when nobody waits any more and it was counted as left over."""
        with self._changed:
            if not self._is_abandoned:
                for _ in range(number):
                    self._queue.popleft()
            return not self._is_abandoned

    def _pause(self, seconds: float) -> bool:
        """Waits before another attempt; False when there is no time for one."""
        with self._changed:
            if self._deadline is None:
                # A stop ends the wait, so that there is one more attempt.
                self._changed.wait_for(lambda: self._deadline is not None, seconds)
                return True
            self._changed.wait_for(lambda: self._is_abandoned, min(seconds, self._seconds_left()))
            return self._seconds_left() > 0

    def _seconds_left(self) -> float:
        return 0.0 if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    def _seconds_to_flush(self) -> float | None:
        return None if self._written_at is None else max(0.0, self._written_at + _FLUSH_SECONDS - time.monotonic())

    def _flush_when_due(self) -> None:
        with self._changed:
            asked = self._flush_asked and not self._queue
        if not asked and self._seconds_to_flush() != 0.0:
            return
        try:
            self._sink.flush(_FLUSH_SECONDS)
        except Exception as error:
            self._note_outage(error)
        self._written_at = None
        with self._changed:
            self._flush_asked = self._flush_asked and bool(self._queue)
            self._changed.notify_all()

    # What is logged

    def _note_outage(self, error: Exception) -> None:
        if not self._is_away:
            log.warning("sink %s is unavailable, retrying: %s", self.name, error)
        self._is_away = True

    def _note_recovery(self) -> None:
        if self._is_away:
            log.info("sink %s is available again", self.name)
        self._is_away = False

    def _lose(self, outcome: Delivery, number: int, why: str, error: Exception | None = None) -> None:
        self._metrics.count(self.name, outcome, number)
        self._log.lost(number, why, error)


class _LossLog:
    """Logs lost evaluations at once and then at most once a minute, with their number."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._number = 0
        self._why = ""
        self._logged_at = -math.inf

    def lost(self, number: int, why: str, error: Exception | None) -> None:
        with self._lock:
            self._number += number
            self._why = why
            if time.monotonic() - self._logged_at >= _LOG_SECONDS:
                self._log(error)

    def log_rest(self) -> None:
        with self._lock:
            if self._number:
                self._log(None)

    def _log(self, error: Exception | None) -> None:
        log.warning("sink %s lost %d evaluations: %s", self._name, self._number, self._why, exc_info=error)
        self._number = 0
        self._logged_at = time.monotonic()


@contextmanager
def running(sinks: Sequence[QueuedSink]) -> Iterator[None]:
    """Opens the sinks for the length of the block, and closes them all at once."""
    for sink in sinks:
        sink.open()
    seconds = CLOSE_SECONDS
    try:
        yield
    except KeyboardInterrupt:
        seconds = 0.0  # whoever pressed Ctrl-C twice does not want to wait
        raise
    finally:
        for sink in sinks:
            sink.stop(seconds)
        for sink in sinks:
            sink.close(seconds)
