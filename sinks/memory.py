"""A sink that keeps what it is given, for tests of criteria, judges and pipelines."""

from collections.abc import Sequence
from typing import Generic, TypeVar

from sinks.base import Message

T = TypeVar("T")


class ListSink(Generic[T]):
    """Remembers every item in order."""

    def __init__(self) -> None:
        self.items: list[T] = []

    def write(self, item: T, /) -> Sequence[Message]:
        self.items.append(item)
        return ()
