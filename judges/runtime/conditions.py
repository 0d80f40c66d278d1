"""The conditions under which judges are asked now: past the cache or not, and what to save on.

They are bound for a block of code and for the tasks that start inside it, so that judges, panels and caches need not
pass them on.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Savings:
    """What is left out to save money."""

    samples: bool = False
    """Judges that take several samples take one."""

    reserves: bool = False
    """A judge that fails is not replaced."""

    cascade: bool = False
    """Some judges are asked first, and the whole panel only where those are in doubt, and about safety."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of what is left out."""
        return tuple([name for name in self.__slots__ if getattr(self, name)])


NO_SAVINGS = Savings()


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """How judges are asked."""

    fresh: bool = False
    """Whether judges are really asked, whatever a cache holds."""

    savings: Savings = NO_SAVINGS


_USUAL = Conditions()
_current: ContextVar[Conditions] = ContextVar("conditions", default=_USUAL)


@contextmanager
def judging_under(conditions: Conditions) -> Iterator[None]:
    """Binds the conditions for the block, also in tasks that start there."""
    token = _current.set(conditions)
    try:
        yield
    finally:
        _current.reset(token)


def current_conditions() -> Conditions:
    return _current.get()
