"""An endpoint in virtual time: minutes of throttling take seconds, and every run is the same.

`run_virtually` runs a coroutine in an event loop whose clock jumps from one timer to the next. Within it an endpoint
admits or refuses attempts by a `Throttle`, and takes its time to answer those that it admits.
"""

import asyncio
import random
import selectors
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from judges.models.errors import ModelUnavailable

T = TypeVar("T")

# One-way network latency, give or take a half.
_ON_THE_WAY_SECONDS = 0.002


class _JumpingSelector(selectors.DefaultSelector):
    """Advances the clock by the requested timeout and by stalls instead of waiting."""

    def __init__(self, stall: Callable[[], float]) -> None:
        super().__init__()
        self._stall = stall
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.now += (timeout or 0.0) + self._stall()
        return super().select(0)


class _VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self, stall: Callable[[], float]) -> None:
        self._virtual = _JumpingSelector(stall)
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now


def never_stall() -> float:
    return 0.0


def busy_machine(seed: int) -> Callable[[], float]:
    """Return the stalls of an overloaded machine: one step in a hundred waits for up to a second."""
    dice = random.Random(seed)
    return lambda: dice.uniform(0.1, 1.0) if dice.random() < 0.01 else 0.0


def run_virtually(coroutine: Coroutine[Any, Any, T], stall: Callable[[], float] = never_stall) -> T:
    """Run in a separate event loop; `asyncio.get_running_loop().time` is its clock."""
    with asyncio.Runner(loop_factory=lambda: _VirtualLoop(stall)) as runner:
        return runner.run(coroutine)


class Throttle(Protocol):
    """Decides which attempts an endpoint admits."""

    def admits(self, now: float, open_attempts: int) -> bool:
        """Return whether one more attempt is admitted beside the open ones."""


class Unlimited:
    def admits(self, now: float, open_attempts: int) -> bool:
        return True


class Scattered:
    """Refuses this share of all attempts, whatever the rate."""

    def __init__(self, share: float, dice: random.Random) -> None:
        self._share, self._dice = share, dice

    def admits(self, now: float, open_attempts: int) -> bool:
        return self._dice.random() >= self._share


class TokenBucket:
    """Admits a constant rate, and a burst after an idle time."""

    def __init__(self, per_second: float, burst: float) -> None:
        self._per_second, self._burst, self._level, self._filled_at = per_second, burst, burst, 0.0

    def admits(self, now: float, open_attempts: int) -> bool:
        self._level = min(self._burst, self._level + (now - self._filled_at) * self._per_second)
        self._filled_at = now
        if self._level < 1:
            return False
        self._level -= 1
        return True


class FixedWindow:
    """Admits a number of attempts in every window of the clock."""

    def __init__(self, number: int, seconds: float) -> None:
        self._number, self._seconds, self._window, self._admitted = number, seconds, -1, 0

    def admits(self, now: float, open_attempts: int) -> bool:
        window = int(now / self._seconds)
        if window != self._window:
            self._window, self._admitted = window, 0
        self._admitted += 1
        return self._admitted <= self._number


class ConcurrencyCap:
    """Admits a number of concurrent attempts."""

    def __init__(self, most: int) -> None:
        self._most = most

    def admits(self, now: float, open_attempts: int) -> bool:
        return open_attempts < self._most


class Changing:
    """Several throttles in turn; each comes with the second from which it applies."""

    def __init__(self, throttles: Mapping[float, Throttle]) -> None:
        self._throttles = dict(throttles)

    def admits(self, now: float, open_attempts: int) -> bool:
        start = max(second for second in self._throttles if second <= now)
        return self._throttles[start].admits(now, open_attempts)


@dataclass(slots=True, kw_only=True)
class SimulatedEndpoint:
    """Takes `latency` seconds, give or take a share of `spread`, to answer an attempt that it admits."""

    throttle: Throttle
    latency: float
    dice: random.Random
    spread: float = 0.5
    status: int = 429
    retry_after: float | None = None
    open_attempts: int = 0

    async def ask(self) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(self._seconds(_ON_THE_WAY_SECONDS, 0.5))
        if not self.throttle.admits(loop.time(), self.open_attempts):
            await asyncio.sleep(self._seconds(_ON_THE_WAY_SECONDS, 0.5))
            raise ModelUnavailable(f"answered {self.status}", retry_after=self.retry_after, status=self.status)
        self.open_attempts += 1
        try:
            await asyncio.sleep(self._seconds(self.latency, self.spread))
        finally:
            self.open_attempts -= 1
        await asyncio.sleep(self._seconds(_ON_THE_WAY_SECONDS, 0.5))

    def _seconds(self, mean: float, spread: float) -> float:
        return mean * self.dice.uniform(1 - spread, 1 + spread)
