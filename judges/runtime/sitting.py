"""A sitting: one case and all its criteria, with the calls that some of these criteria share.

Each criterion is put to a judge separately. A judge that asks about several in one call finds the others here, and the
first to ask starts the call for all of them.
"""

import asyncio
from collections.abc import Callable, Coroutine, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from judges.criteria.criterion import Criterion

R = TypeVar("R")

SeatOrder = Callable[[str, Criterion], bool]
"""Whether the judge of this name is shown the options of this criterion last to first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared(Generic[R]):
    """The result of a shared call, and the criteria that carry its cost."""

    result: R
    payers: tuple[str, ...]
    """Names of the criteria that waited when the call ended; later ones get the result at no cost."""

    def share(self, total: int, name: str) -> int:
        """Return one criterion's share of a total: equal parts, with the remainder spread over the first payers."""
        if name not in self.payers:
            return 0
        part, rest = divmod(total, len(self.payers))
        return part + (self.payers.index(name) < rest)


class Sitting:
    """Lives while one case is judged, so that its results are not used for another case or another attempt."""

    def __init__(
        self, criteria: Sequence[Criterion], *, safety: str | None = None, is_reversed: SeatOrder | None = None
    ) -> None:
        self.criteria = tuple(criteria)
        self._safety = safety
        self._is_reversed = is_reversed
        self._calls: dict[Hashable, _SharedCall[Any]] = {}
        self._cached: dict[Hashable, Any] = {}

    def is_about_safety(self, criterion: Criterion) -> bool:
        return criterion.safety or criterion.name == self._safety

    def is_reversed(self, judge: str, criterion: Criterion) -> bool:
        return self._is_reversed is not None and self._is_reversed(judge, criterion)

    def once(self, key: Hashable, make: Callable[[], R]) -> R:
        """Return the cached result of `make`, which is called once per key."""
        if key not in self._cached:
            self._cached[key] = make()
        result: R = self._cached[key]
        return result

    async def share(self, key: Hashable, name: str, call: Callable[[], Coroutine[Any, Any, R]]) -> Shared[R]:
        """Return the result of the call with this key, which is made once; `name` is the criterion that waits for it.

        If no criterion waits any longer, the call is cancelled; a later criterion makes it again.
        """
        shared = self._calls.get(key)
        if shared is None:
            shared = self._calls[key] = _SharedCall(call(), [criterion.name for criterion in self.criteria])
        try:
            return await shared.wait(name)
        finally:
            if shared.is_abandoned:
                if self._calls.get(key) is shared:
                    del self._calls[key]
                await shared.cancel()


class _SharedCall(Generic[R]):
    def __init__(self, work: Coroutine[Any, Any, R], order: Sequence[str]) -> None:
        self._waiting: list[str] = []
        self._payers: tuple[str, ...] = ()
        self._order = order
        self._task = asyncio.create_task(work)
        # Called before the waiting criteria resume and leave the list.
        self._task.add_done_callback(self._bill)

    def _bill(self, _task: asyncio.Task[R]) -> None:
        self._payers = tuple(name for name in self._order if name in self._waiting)

    @property
    def is_abandoned(self) -> bool:
        return not self._waiting and not self._task.done()

    async def wait(self, name: str) -> Shared[R]:
        self._waiting.append(name)
        try:
            return Shared(result=await asyncio.shield(self._task), payers=self._payers)
        finally:
            self._waiting.remove(name)

    async def cancel(self) -> None:
        """Cancel the call and wait until it releases its resources."""
        self._task.cancel()
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.exception()  # retrieved, so that asyncio does not log it


_current: ContextVar[Sitting | None] = ContextVar("sitting", default=None)


@contextmanager
def sitting_for(sitting: Sitting) -> Iterator[None]:
    """Make this the sitting of the block and of tasks that start in it."""
    token = _current.set(sitting)
    try:
        yield
    finally:
        _current.reset(token)


def current_sitting() -> Sitting | None:
    return _current.get()
