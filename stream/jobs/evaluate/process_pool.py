"""A pool of processes that judge, each with its own evaluator, because judges without a model keep a core busy."""

import asyncio
import gc
import queue
import signal
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import connection, get_context, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import NamedTuple, Self

from stream.config.model import Config
from stream.config.sections.input import InputConfig
from stream.errors import StageError
from stream.jobs.evaluate.row_judge import RowJudge, RowResult, RowSample
from stream.jobs.evaluate.rows import FileRow
from stream.service.setup.evaluator import open_evaluator

# One batch waits while another is judged, so that no process is idle while results are written.
_AT_ONCE = 2
_END_SECONDS = 5.0
# Python looks for cycles after every 700 new objects; a row makes thousands, without cycles.
_OBJECTS_BETWEEN_COLLECTIONS = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """Everything that a process needs to judge rows."""

    config: Config
    records: InputConfig
    sample: RowSample


class BatchResult(NamedTuple):
    """A judged batch: the results of its rows, and the number of rows that are not in the sample."""

    judged: Sequence[RowResult]
    left_out: int


@dataclass(slots=True, kw_only=True)
class _Member:
    process: BaseProcess
    pipe: Connection
    batches: int = 0


class Crew:
    """Runs `size` processes until the end of the `with` block. Used from one thread."""

    def __init__(self, size: int, brief: Brief) -> None:
        # Spawned, not forked: a fork would hold the others' pipes, and outlive the process that reads them.
        context = get_context("spawn")
        self._members: list[_Member] = []
        # A terminal sends Ctrl-C to all processes, and must not end those that are just starting. The resource
        # tracker of multiprocessing unblocks signals when it starts, so start it first.
        resource_tracker.ensure_running()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            for number in range(size):
                ours, theirs = context.Pipe()
                process = context.Process(target=_serve, args=(theirs, brief), name=f"judge-{number + 1}", daemon=True)
                process.start()
                theirs.close()
                self._members.append(_Member(process=process, pipe=ours))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        for member in self._members:
            member.pipe.close()
        for member in self._members:
            member.process.join(_END_SECONDS)
            if member.process.is_alive():
                member.process.kill()
                member.process.join()

    @property
    def free(self) -> int:
        """Batches that can be handed out now."""
        return sum(_AT_ONCE - member.batches for member in self._members)

    @property
    def busy(self) -> bool:
        return any(member.batches for member in self._members)

    def give(self, batch: Sequence[FileRow]) -> None:
        member = min(self._members, key=lambda candidate: candidate.batches)
        member.batches += 1
        try:
            member.pipe.send(list(batch))
        except OSError:
            raise _crash_error(member) from None

    def collect(self, seconds: float) -> list[BatchResult]:
        """Return finished batches, waiting up to `seconds` for the first."""
        ready = connection.wait([member.pipe for member in self._members], seconds)
        results: list[BatchResult] = []
        for member in self._members:
            if member.pipe not in ready:
                continue
            try:
                results.append(member.pipe.recv())
            except (EOFError, OSError):
                raise _crash_error(member) from None
            member.batches -= 1
        return results


def _crash_error(member: _Member) -> StageError:
    member.process.join(_END_SECONDS)
    return StageError(f"a judging process exited with status {member.process.exitcode}; run the same command to resume")


# In the process


def _serve(pipe: Connection, brief: Brief) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    judge = RowJudge(brief.config, brief.records, open_evaluator(brief.config), brief.sample)
    batches: queue.SimpleQueue[Sequence[FileRow] | None] = queue.SimpleQueue()
    # Reads while results are written: if both ends only wrote, they would deadlock.
    threading.Thread(target=_receive, args=(pipe, batches), daemon=True).start()
    with asyncio.Runner() as runner:
        while (batch := batches.get()) is not None:
            try:
                pipe.send(runner.run(_judge_all(judge, batch)))
            except OSError:
                return


def _receive(pipe: Connection, batches: "queue.SimpleQueue[Sequence[FileRow] | None]") -> None:
    try:
        while True:
            batches.put(pipe.recv())
    except (EOFError, OSError):
        batches.put(None)


async def _judge_all(judge: RowJudge, batch: Sequence[FileRow]) -> BatchResult:
    """Judge one row after the other: judges that never wait do not profit from concurrency."""
    results = [await judge.judge(row) for row in batch]
    judged = [result for result in results if result is not None]
    return BatchResult(judged, len(results) - len(judged))
