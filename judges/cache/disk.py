"""Stores verdicts in a file that outlives processes and that several may share."""

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
_LOG_SECONDS = 60.0
# Number of writes between two removals of old and surplus verdicts.
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
    """Keeps about the last `entries` verdicts in an SQLite file, none for longer than `seconds`."""

    def __init__(self, path: Path, entries: int, seconds: float, clock: Callable[[], float] = time.time) -> None:
        """Raise OSError if the file cannot be used; after a later failure, verdicts are only not cached."""
        self._path = path
        self._entries = entries
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._written = 0
        self._logged_at = -_LOG_SECONDS
        try:
            # Any thread of the event loop's pool may use it; the lock admits one at a time.
            self._file = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
            for statement in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=NORMAL", _TABLE, _BY_AGE):
                self._file.execute(statement)
        except sqlite3.Error as error:
            raise OSError(f"cannot use {path} as a verdict cache ({error})") from error

    async def get(self, key: bytes) -> bytes | None:
        return await self._run(lambda: self._read(key))

    async def put(self, key: bytes, value: bytes) -> None:
        await self._run(lambda: self._write(key, value))

    async def aclose(self) -> None:
        await self._run(self._file.close)

    async def _run(self, work: Callable[[], T]) -> T | None:
        """Run in a thread, because a slow disk must not block the event loop."""
        return await asyncio.to_thread(self._run_locked, work)

    def _run_locked(self, work: Callable[[], T]) -> T | None:
        with self._lock:
            try:
                return work()
            except sqlite3.Error as error:
                if time.monotonic() - self._logged_at >= _LOG_SECONDS:
                    self._logged_at = time.monotonic()
                    logger.warning("the verdict cache in %s failed: %s", self._path, error)
                return None

    def _read(self, key: bytes) -> bytes | None:
        oldest = self._clock() - self._seconds
        row = self._file.execute("SELECT value FROM verdicts WHERE key = ? AND at >= ?", (key, oldest)).fetchone()
        return None if row is None else bytes(row[0])

    def _write(self, key: bytes, value: bytes) -> None:
        now = self._clock()
        self._file.execute("INSERT OR REPLACE INTO verdicts VALUES (?, ?, ?)", (key, now, value))
        self._written += 1
        if self._written % _SWEEP_EVERY == 0:
            for sweep in _SWEEPS:
                self._file.execute(sweep, {"oldest": now - self._seconds, "entries": self._entries - 1})
