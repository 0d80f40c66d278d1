"""Time limits that allow for a busy machine."""

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

_STOLEN_FIELD = 7
_SHORTEST_SECONDS = 1.0
# Kafka clients reject timeouts of more than an hour.
_MOST = 30.0


def patience(at_most: float = _MOST) -> float:
    """Return how many times longer work takes now than on an idle machine, from 1 to `at_most`.

    It is the number of runnable processes per core, divided by the share of time that the host gives to this machine.
    Tests state limits in seconds of an idle machine and multiply them by this. A limit only ends a wait for something
    that never happens, so a longer one makes no test pass that should fail. `at_most` is for waits that always last
    as long as they may: the load counts each thread that wants a microsecond.
    """
    busy = os.getloadavg()[0] / (os.cpu_count() or 1)
    return min(at_most, max(1.0, busy) / (1.0 - _host.stolen_share()))


async def until(condition: Callable[[], bool], *, seconds: float = 30.0) -> None:
    """Wait until the condition holds, without blocking the event loop."""
    async with asyncio.timeout(seconds * patience()):
        while not condition():
            await asyncio.sleep(0.001)


class _Host:
    """What the host of a virtual machine takes of its processor time."""

    def __init__(self) -> None:
        self._read_at, self._ticks, self._share = time.monotonic(), _read_ticks(), 0.0

    def stolen_share(self) -> float:
        """Return the share since the call before, or of the whole time without one."""
        if time.monotonic() - self._read_at >= _SHORTEST_SECONDS:
            before, self._ticks, self._read_at = self._ticks, _read_ticks(), time.monotonic()
            passed = [now - then for now, then in zip(self._ticks, before, strict=True)]
            self._share = min(0.9, passed[_STOLEN_FIELD] / max(1, sum(passed)))
        return self._share


def _read_ticks() -> list[int]:
    """Return user, nice, system, idle, waiting, interrupts, soft interrupts and stolen."""
    return [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]


_host = _Host()
