"""Verdicts in a file that several processes may share and that outlives them."""

import asyncio
import logging
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

logger = logging.getLogger(__name__)

_BUSY_SECONDS = 5.0
_TELL_SECONDS = 60.0
# How many verdicts are written between two looks at what is too old or too much.
_SWEEP_EVERY = 256
_TABLE = (
    "CREATE TABLE IF NOT EXISTS verdicts (key BLOB PRIMARY KEY, at REAL NOT NULL, value BLOB NOT NULL) WITHOUT ROWID"
)
_BY_AGE = "CREATE INDEX IF NOT EXISTS verdicts_by_age ON verdicts (at)"
_SWEEPS = (
    "DELETE FROM verdicts WHERE at < :oldest",
    "DELETE FROM verdicts WHERE at < (SELECT at FROM verdicts ORDER BY at DESC LIMIT 1 OFFSET :entries)",
)


class DiskStore:
    """Keeps about the `entries` written last in an SQLite file, none for longer than `seconds`."""

    def __init__(self, path: Path, entries: int, seconds: float, clock: Callable[[], float] = time.time) -> None:
        """Raises OSError where the file cannot be used; later failures only cost what was to be kept."""
        self._path = path
        self._entries = entries
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._written = 0
        self._told_at = -_TELL_SECONDS
        try:
            # Its thread is whichever of the loop's helpers is free; the lock lets in one at a time.
            self._file = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
            for statement in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=NORMAL", _TABLE, _BY_AGE):
                self._file.execute(statement)
        except sqlite3.Error as error:
            raise OSError(f"cannot use {path} as a verdict cache ({error})") from error

    async def get(self, key: bytes) -> bytes | None:
        return await self._do(lambda: self._read(key))

    async def put(self, key: bytes, value: bytes) -> None:
        await self._do(lambda: self._write(key, value))

    async def aclose(self) -> None:
        await self._do(self._file.close)

    async def _do(self, work: Callable[[], T]) -> T | None:
        """Beside the event loop, which a slow disk must not hold up."""
        return await asyncio.to_thread(self._guarded, work)

    def _guarded(self, work: Callable[[], T]) -> T | None:
        with self._lock:
            try:
                return work()
            except sqlite3.Error as error:
                if time.monotonic() - self._told_at >= _TELL_SECONDS:
                    self._told_at = time.monotonic()
                    logger.warning("the verdict cache in %s failed: %s", self._path, error)
                return None

    def _read(self, key: bytes) -> bytes | None:
        oldest = self._clock() - self._seconds
        found = self._file.execute("SELECT value FROM verdicts WHERE key = ? AND at >= ?", (key, oldest)).fetchone()
        return None if found is None else bytes(found[0])

    def _write(self, key: bytes, value: bytes) -> None:
        now = self._clock()
        self._file.execute("INSERT OR REPLACE INTO verdicts VALUES (?, ?, ?)", (key, now, value))
        self._written += 1
        if self._written % _SWEEP_EVERY == 0:
            for sweep in _SWEEPS:
                self._file.execute(sweep, {"oldest": now - self._seconds, "entries": self._entries - 1})
