"""Afresh: whether judges are asked though it is known what they said of the same texts; bound around the work."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

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
