"""Stores verdicts in memory: those used last, while the process lives."""

import time
from collections import OrderedDict
from collections.abc import Callable


class MemoryStore:
    """Keeps the last used `entries` verdicts, none for longer than `seconds`."""

    def __init__(self, entries: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._entries = entries
        self._seconds = seconds
        self._clock = clock
        self._verdicts: OrderedDict[bytes, tuple[float, bytes]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._verdicts)

    async def get(self, key: bytes) -> bytes | None:
        entry = self._verdicts.get(key)
        if entry is None:
            return None
        stored_at, value = entry
        if self._clock() - stored_at > self._seconds:
            del self._verdicts[key]
            return None
        self._verdicts.move_to_end(key)
        return value

    async def put(self, key: bytes, value: bytes) -> None:
        self._verdicts[key] = (self._clock(), value)
        self._verdicts.move_to_end(key)
        while len(self._verdicts) > self._entries:
            self._verdicts.popitem(last=False)

    async def aclose(self) -> None:
        self._verdicts.clear()
