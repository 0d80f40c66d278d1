"""The conditions under which judges are asked now: past the cache or not, and what to save on."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Thrift:
    samples: bool = False
    """Judges that take several samples take one."""

    reserves: bool = False
    """A judge that fails is not replaced."""

    cascade: bool = False
    """Some judges are asked first, and the whole panel only where those are in doubt, and about safety."""

    @property
    def names(self) -> tuple[str, ...]:
        """What is left out."""
        return tuple([name for name in self.__slots__ if getattr(self, name)])


NO_THRIFT = Thrift()


_thrift: ContextVar[Thrift] = ContextVar("thrift", default=NO_THRIFT)


@contextmanager
def sparing(thrift: Thrift) -> Iterator[None]:
    """Binds what is left out by what is done inside, also in tasks that begin there."""
    token = _thrift.set(thrift)
    try:
        yield
    finally:
        _thrift.reset(token)


def current_thrift() -> Thrift:
    return _thrift.get()


_afresh: ContextVar[bool] = ContextVar("afresh", default=False)


@contextmanager
def asking_afresh(wanted: bool = True) -> Iterator[None]:
    """Binds it for what is done inside, also in tasks that begin there."""
    token = _afresh.set(wanted)
    try:
        yield
    finally:
        _afresh.reset(token)


def is_afresh() -> bool:
    return _afresh.get()
