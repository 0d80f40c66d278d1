"""Verdicts in memory: those used last, for as long as the process lives."""

import time
from collections import OrderedDict
from collections.abc import Callable


class MemoryStore:
    """Keeps the `entries` that were used last, none for longer than `seconds`."""

    def __init__(self, entries: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._entries = entries
        self._seconds = seconds
        self._clock = clock
        self._kept: OrderedDict[bytes, tuple[float, bytes]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    async def get(self, key: bytes) -> bytes | None:
        found = self._kept.get(key)
        if found is None:
            return None
        at, value = found
        if self._clock() - at > self._seconds:
            del self._kept[key]
            return None
        self._kept.move_to_end(key)
        return value

    async def put(self, key: bytes, value: bytes) -> None:
        self._kept[key] = (self._clock(), value)
        self._kept.move_to_end(key)
        while len(self._kept) > self._entries:
            self._kept.popitem(last=False)

    async def aclose(self) -> None:
        self._kept.clear()
