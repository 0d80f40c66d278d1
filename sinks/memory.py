"""A sink that keeps evaluations in memory, for tests of criteria, judges and pipelines."""

from collections.abc import Sequence

from judges.values.evaluation import Evaluation
from sinks.base import Sink


class ListSink(Sink):
    """Keeps every evaluation in order."""

    def __init__(self, name: str = "memory") -> None:
        self.name = name
        self.items: list[Evaluation] = []

    def write(self, evaluations: Sequence[Evaluation], /) -> None:
        self.items += evaluations
