"""A sitting: one case and all the criteria it is judged by, with the calls that some of these criteria share.

Each criterion is put to a judge on its own. A judge that asks about several in one call looks here for the others,
and the first to ask starts the call for all of them.
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
    """Names of the criteria that waited when the call ended; those that come later get the result for nothing."""

    def share(self, total: int, name: str) -> int:
        """What one criterion carries of a total: equal parts, the first payers one more where it does not divide."""
        if name not in self.payers:
            return 0
        part, rest = divmod(total, len(self.payers))
        return part + (self.payers.index(name) < rest)


class Sitting:
    """Lives as long as one case is judged, so that no result is taken for another case or another attempt."""

    def __init__(
        self, criteria: Sequence[Criterion], *, safety: str | None = None, is_reversed: SeatOrder | None = None
    ) -> None:
        self.criteria = tuple(criteria)
        self._safety = safety
        self._is_reversed = is_reversed
        self._calls: dict[Hashable, _SharedCall[Any]] = {}
        self._made: dict[Hashable, Any] = {}

    def is_about_safety(self, criterion: Criterion) -> bool:
        return criterion.safety or criterion.name == self._safety

    def is_reversed(self, judge: str, criterion: Criterion) -> bool:
        return self._is_reversed is not None and self._is_reversed(judge, criterion)

    def once(self, key: Hashable, make: Callable[[], R]) -> R:
        """Makes something the first time it is asked for."""
        if key not in self._made:
            self._made[key] = make()
        made: R = self._made[key]
        return made

    async def share(self, key: Hashable, name: str, call: Callable[[], Coroutine[Any, Any, R]]) -> Shared[R]:
        """The result of the call with this key, which is made once; `name` is the criterion that waits for it.

        When nobody waits any more, the call is cancelled, and made again for whoever still comes.
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
        # Called before those who wait go on, and leave.
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
        """Ends the call, and waits for it to give back what it holds."""
        self._task.cancel()
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.exception()  # looked at: nobody is left to be told


_current: ContextVar[Sitting | None] = ContextVar("sitting", default=None)


@contextmanager
def sitting_for(sitting: Sitting) -> Iterator[None]:
    """Binds the sitting for the block, also in tasks that start there."""
    token = _current.set(sitting)
    try:
        yield
    finally:
        _current.reset(token)


def current_sitting() -> Sitting | None:
    return _current.get()
