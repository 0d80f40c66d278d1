"""The conditions of the current calls: whether to bypass the cache, and what to save on.

They apply to a block of code and to the tasks that start in it, so that judges, panels and caches need not pass them
on.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Savings:
    """Work that is left out to save money."""

    samples: bool = False
    """Whether judges take one sample instead of several."""

    reserves: bool = False
    """Whether failed judges are not replaced."""

    cascade: bool = False
    """Whether some judges are asked first, and the whole panel only in doubt or about safety."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the savings that are on."""
        return tuple([name for name in self.__slots__ if getattr(self, name)])


NO_SAVINGS = Savings()


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """The conditions under which judges are asked."""

    fresh: bool = False
    """Whether to bypass the cache."""

    savings: Savings = NO_SAVINGS


_USUAL = Conditions()
_current: ContextVar[Conditions] = ContextVar("conditions", default=_USUAL)


@contextmanager
def judging_under(conditions: Conditions) -> Iterator[None]:
    """Apply the conditions to the block and to tasks that start in it."""
    token = _current.set(conditions)
    try:
        yield
    finally:
        _current.reset(token)


def current_conditions() -> Conditions:
    return _current.get()
