"""A sink that appends evaluations to a file, one JSON object a line."""

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from judges.values.evaluation import Evaluation
from sinks.base import Sink, SinkUnavailable


class JsonLinesSink(Sink):
    """Appends whole lines. Several processes may write to one file."""

    def __init__(self, path: str, *, name: str = "jsonl") -> None:
        self.name = name
        self._path = path
        self._file: int | None = None

    def open(self) -> None:
        # The lock and the check of the last byte need a file that can be read.
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def write(self, evaluations: Sequence[Evaluation], /) -> None:
        lines = b"".join(evaluation.model_dump_json().encode() + b"\n" for evaluation in evaluations)
        with self._lock() as file:
            size = os.fstat(file).st_size
            # A line that a crash truncated must not swallow the next one.
            start = b"\n" if size and os.pread(file, 1, size - 1) != b"\n" else b""
            try:
                _write_whole(file, start + lines)
            except OSError:
                os.ftruncate(file, size)  # the batch will be written again
                raise

    def flush(self, seconds: float) -> None:
        if self._file is not None:
            os.fsync(self._file)

    def close(self, seconds: float) -> None:
        if self._file is None:
            return
        file, self._file = self._file, None
        try:
            os.fsync(file)
        finally:
            os.close(file)

    @contextmanager
    def _lock(self) -> Iterator[int]:
        if self._file is None:
            raise SinkUnavailable(f"{self._path} is not open")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX)
            try:
                yield self._file
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)
        except OSError as error:
            raise SinkUnavailable(f"cannot write to {self._path}: {error.strerror}") from error


def _write_whole(file: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]
