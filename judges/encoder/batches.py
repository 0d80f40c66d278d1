"""Runs a model in threads: records that wait at the same time share batches of inputs of similar length."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from judges.encoder.inputs import Window
from judges.encoder.layouts import SentenceScore
from judges.runtime.stopwatch import waiting_for_a_turn

Task = TypeVar("Task")

# Inputs of one batch are padded to the longest; a shorter one than this share of it goes to another batch.
_SIMILAR = 0.75
_EQUAL = 1.0


class BatchesClosedError(RuntimeError):
    """The judge was closed while the record waited."""


@dataclass(slots=True, kw_only=True)
class Prepared(Generic[Task]):
    """A record with its inputs."""

    task: Task
    windows: Sequence[Window]


@dataclass(slots=True, kw_only=True)
class ScoredTask(Generic[Task]):
    """A record with the scores of its sentences."""

    task: Task
    scores: Sequence[SentenceScore]


@dataclass(slots=True, kw_only=True, eq=False)
class _Job(Generic[Task]):
    prepare: Callable[[], Prepared[Task]]
    started: "Future[None]" = field(default_factory=Future)
    result: "Future[ScoredTask[Task]]" = field(default_factory=Future)
    prepared: Prepared[Task] | None = None
    scores: list[SentenceScore] = field(default_factory=list)
    open_windows: int = 0

    def start(self) -> bool:
        """Begin with the record; return whether its result is still wanted."""
        if self.started.set_running_or_notify_cancel():
            self.started.set_result(None)
        return self.result.set_running_or_notify_cancel()


class Batches(Generic[Task]):
    """A pool of threads in front of one model."""

    def __init__(
        self,
        run: Callable[[Sequence[Window]], list[list[SentenceScore]]],
        *,
        batch_tokens: int,
        workers: int,
        name: str,
        can_pad: bool = True,
    ) -> None:
        """`batch_tokens` bounds a batch with its padding, and so the memory; `workers` batches run at a time.

        Without `can_pad`, all inputs of a batch have the same length.
        """
        self._run = run
        self._similar = _SIMILAR if can_pad else _EQUAL
        self._batch_tokens = batch_tokens
        self._workers = workers
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix=name)
        self._lock = threading.Lock()
        self._waiting: deque[_Job[Task]] = deque()
        self._active = 0
        self._closed = False

    async def score(self, prepare: Callable[[], Prepared[Task]]) -> ScoredTask[Task]:
        """Score a record; `prepare` makes its inputs, and runs in a thread of the pool.

        The time until it is its turn does not count against the deadline of the record.
        """
        job = self._submit(prepare)
        try:
            with waiting_for_a_turn():
                await asyncio.wrap_future(job.started)
            return await asyncio.wrap_future(job.result)
        except asyncio.CancelledError:
            job.result.cancel()
            raise

    def _submit(self, prepare: Callable[[], Prepared[Task]]) -> "_Job[Task]":
        job: _Job[Task] = _Job(prepare=prepare)
        with self._lock:
            if self._closed:
                raise BatchesClosedError("the judge is closed")
            self._waiting.append(job)
            if self._active < self._workers:
                self._active += 1
                self._pool.submit(self._work)
        return job

    def close(self) -> None:
        """Fail the records that wait, finish the batch that runs in each thread, and end the threads."""
        with self._lock:
            self._closed = True
            waiting, self._waiting = list(self._waiting), deque()
        for job in waiting:
            if job.start():
                job.result.set_exception(_closed_too_early())
        self._pool.shutdown(wait=True)

    def _work(self) -> None:
        """Run batches until no record waits."""
        while jobs := self._take():
            windows = [(job, window) for job in jobs if job.prepared for window in job.prepared.windows]
            batches = bucket(windows, self._batch_tokens, length=lambda item: len(item[1].ids), similar=self._similar)
            for batch in batches:
                self._run_batch(batch)

    def _take(self) -> list["_Job[Task]"]:
        """Prepare waiting records until a batch is full; none: this thread ends, and the next record starts another."""
        jobs, tokens = list[_Job[Task]](), 0
        while tokens < self._batch_tokens:
            with self._lock:
                job = self._waiting.popleft() if self._waiting else None
                if job is None and not jobs:
                    self._active -= 1
            if job is None:
                break
            if job.start() and self._prepare(job):
                jobs.append(job)
                tokens += sum(len(window.ids) for window in job.prepared.windows) if job.prepared else 0
        return jobs

    def _prepare(self, job: "_Job[Task]") -> bool:
        """Make the inputs of a record; return whether the model has to see them."""
        try:
            job.prepared = job.prepare()
        except Exception as error:
            job.result.set_exception(error)
            return False
        job.open_windows = len(job.prepared.windows)
        if not job.open_windows:
            job.result.set_result(ScoredTask(task=job.prepared.task, scores=()))
        return bool(job.open_windows)

    def _run_batch(self, batch: Sequence[tuple["_Job[Task]", Window]]) -> None:
        batch = [(job, window) for job, window in batch if not job.result.done()]
        if not batch:
            return
        try:
            if self._closed:
                raise _closed_too_early()
            results = self._run([window for _, window in batch])
        except Exception as error:
            for job in {id(job): job for job, _ in batch}.values():
                job.result.set_exception(error)
            return
        for (job, _), scores in zip(batch, results, strict=True):
            job.scores += scores
            job.open_windows -= 1
            if not job.open_windows and job.prepared is not None:
                job.result.set_result(ScoredTask(task=job.prepared.task, scores=job.scores))


def _closed_too_early() -> BatchesClosedError:
    return BatchesClosedError("the judge was closed before it could answer")


Item = TypeVar("Item")


def bucket(
    items: Sequence[Item], most_tokens: int, *, length: Callable[[Item], int], similar: float = _SIMILAR
) -> Iterator[list[Item]]:
    """Yield batches of inputs of similar length, each of at most `most_tokens` with its padding.

    The shortest of a batch has at least the share `similar` of the longest.
    """
    batch: list[Item] = []
    for item in sorted(items, key=length, reverse=True):
        longest = length(batch[0]) if batch else 0
        if batch and (longest * (len(batch) + 1) > most_tokens or length(item) < similar * longest):
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch
