"""A queue and a thread in front of a sink, so that a slow or failing sink never holds up the stage.

Delivery: a stage hands evaluations over after they are committed to their topic. Each reaches the sink at most once in
a run of the process, in order. A crash loses the queue. A stop loses the part that it leaves no time for, which is
counted and logged. The topic is the source of truth and can be read again.
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
from sinks.base import Sink, SinkRefused, SinkUnavailable
from sinks.metrics.sinks import Delivery, SinkMetrics

log = logging.getLogger(__name__)

WhenFull = Literal["drop", "wait"]

CLOSE_SECONDS = 3.0
"""Time to write waiting evaluations when the process stops."""

DEFAULT_QUEUE = 10_000

_BATCH = 500
# How long an incomplete batch waits for more.
_BATCH_SECONDS = 0.2
# Written evaluations are made durable after this long at the latest.
_FLUSH_SECONDS = 1.0
FIRST_DELAY_SECONDS = 0.25
LONGEST_DELAY_SECONDS = 30.0
"""Delays between attempts to write grow from the first to the longest."""

_LOG_SECONDS = 60.0
# A sink keeps the deadline of its close by itself; this is extra time for it to return.
_GRACE_SECONDS = 0.5


class QueuedSink(Sink):
    """Writes to another sink in batches from a bounded queue. `write` never blocks and never raises.

    A batch that the sink cannot take now is retried, with growing delays, while the queue fills. Any other error of the
    sink loses the batch. When the queue is full, `when_full` decides: "drop" drops the newest, "wait" asks the stage to
    start no more records. Records that the stage had started are still accepted, so the queue can exceed its size.
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
        # A batch stays in the queue until it is written: it counts as waiting, and as lost if it never is.
        self._queue: deque[Evaluation] = deque()
        self._changed = threading.Condition()
        self._deadline: float | None = None
        """The deadline for closing; None until closing is requested."""
        self._is_abandoned = False
        self._flush_requested = False
        self._written_at: float | None = None
        """When the first unflushed evaluation was written."""
        self._log = LossLog(self.name)
        self._is_away = False
        self._pressed_at = -math.inf
        self._thread: threading.Thread | None = None
        metrics.add(self.name, lambda: len(self._queue))

    @property
    def applies_backpressure(self) -> bool:
        return self._waits and len(self._queue) >= self._size

    def open(self) -> None:
        """Start the thread, which opens the sink, however long that takes."""
        self._thread = threading.Thread(target=self._run, name=f"sink-{self.name}", daemon=True)
        self._thread.start()

    def write(self, evaluations: Sequence[Evaluation], /) -> None:
        with self._changed:
            room = len(evaluations) if self._waits else max(0, self._size - len(self._queue))
            taken = evaluations[:room] if self._deadline is None else ()
            self._queue.extend(taken)
            # Not for every evaluation: the thread checks a slowly filling batch by itself.
            if len(self._queue) == len(taken) or len(self._queue) >= self._batch:
                self._changed.notify_all()
        if len(taken) < len(evaluations):
            why = "its queue is full" if self._deadline is None else "it is closed"
            self._lose(Delivery.DROPPED, len(evaluations) - len(taken), why)
        if self.applies_backpressure and time.monotonic() - self._pressed_at >= _LOG_SECONDS:
            log.warning("sink %s has a full queue; no new records are started until it catches up", self.name)
            self._pressed_at = time.monotonic()

    def flush(self, seconds: float) -> None:
        """Wait at most this long until all evaluations so far are written and flushed."""
        with self._changed:
            self._flush_requested = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._flush_requested or self._deadline is not None, seconds)

    def stop(self, seconds: float) -> None:
        """Accept no more, and have the thread close the sink within this time, without waiting for it."""
        with self._changed:
            if self._deadline is None:
                self._deadline = time.monotonic() + seconds
            self._changed.notify_all()

    def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Write waiting evaluations and close the sink within this time. Count and log the rest as lost."""
        self.stop(seconds)
        assert self._deadline is not None
        if self._thread is not None:
            self._thread.join(max(0.0, self._deadline - time.monotonic()) + _GRACE_SECONDS)
        with self._changed:
            self._is_abandoned = True
            unwritten = len(self._queue)
            self._queue.clear()
        if unwritten:
            self._lose(Delivery.DROPPED, unwritten, "not written before shutdown")
        self._log.log_rest()

    # In the thread

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
        delay = FIRST_DELAY_SECONDS
        while True:
            try:
                self._sink.open()
            except Exception as error:
                self._note_outage(error)
                if not self._pause(delay):
                    return False
                delay = min(2 * delay, LONGEST_DELAY_SECONDS)
            else:
                self._note_recovery()
                return True

    def _is_done(self) -> bool:
        with self._changed:
            return self._deadline is not None and (not self._queue or time.monotonic() >= self._deadline)

    def _next_batch(self) -> list[Evaluation]:
        """Wait for a full batch, or shortly after its first evaluation; return an empty one when a flush is due."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._is_urgent(), self._seconds_to_flush())
            if self._queue:
                self._changed.wait_for(lambda: len(self._queue) >= self._batch or self._is_urgent(), _BATCH_SECONDS)
            return list(islice(self._queue, self._batch))

    def _is_urgent(self) -> bool:
        return self._flush_requested or self._deadline is not None

    def _deliver(self, batch: Sequence[Evaluation]) -> None:
        delay = FIRST_DELAY_SECONDS
        while True:
            try:
                self._sink.write(batch)
            except SinkUnavailable as error:
                self._note_outage(error)
                if not self._pause(max(delay, error.retry_after or 0.0)):
                    return
                delay = min(2 * delay, LONGEST_DELAY_SECONDS)
            except SinkRefused as error:
                self._finish(batch, refused=error)
                return
            except Exception as error:
                if self._remove(len(batch)):
                    self._lose(Delivery.FAILED, len(batch), "it failed", error)
                return
            else:
                self._finish(batch)
                return

    def _finish(self, batch: Sequence[Evaluation], refused: SinkRefused | None = None) -> None:
        """Count a batch that was written, except for its refused evaluations."""
        self._note_recovery()
        self._written_at = self._written_at or time.monotonic()
        if self._remove(len(batch)):
            number = 0 if refused is None else refused.number
            self._metrics.count(self.name, Delivery.WRITTEN, len(batch) - number)
            if number:
                self._lose(Delivery.FAILED, number, str(refused))

    def _remove(self, number: int) -> bool:
        """Take a batch off the queue; return False if the sink was abandoned and the batch counted as lost."""
        with self._changed:
            if not self._is_abandoned:
                for _ in range(number):
                    self._queue.popleft()
            return not self._is_abandoned

    def _pause(self, seconds: float) -> bool:
        """Wait before another attempt; return False if there is no time for one."""
        with self._changed:
            if self._deadline is None:
                # A stop ends the wait, which leaves one more attempt.
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
            is_requested = self._flush_requested and not self._queue
        if not is_requested and self._seconds_to_flush() != 0.0:
            return
        try:
            self._sink.flush(_FLUSH_SECONDS)
        except Exception as error:
            self._note_outage(error)
        self._written_at = None
        with self._changed:
            self._flush_requested = self._flush_requested and bool(self._queue)
            self._changed.notify_all()

    # Logging and losses

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
        self._log.note(number, why, error)


class LossLog:
    """Logs lost evaluations at once and then at most once a minute, with their number."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._number = 0
        self._why = ""
        self._logged_at = -math.inf

    def note(self, number: int, why: str, error: Exception | None) -> None:
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
def open_all(sinks: Sequence[QueuedSink]) -> Iterator[None]:
    """Open the sinks for the length of the block, and close them all at once."""
    for sink in sinks:
        sink.open()
    seconds = CLOSE_SECONDS
    try:
        yield
    except KeyboardInterrupt:
        seconds = 0.0  # after a second Ctrl-C the user does not want to wait
        raise
    finally:
        for sink in sinks:
            sink.stop(seconds)
        for sink in sinks:
            sink.close(seconds)
