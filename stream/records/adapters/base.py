"""The contract of an input adapter: how a record of one shape becomes an interaction, and where each field is in it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

Document = dict[str, object]
"""A record's value after parsing, whatever it was encoded as."""


class Adapter(ABC):
    """Reads documents of one shape.

    The sampler looks at a few fields of every record and the worker reads whole interactions of some: `path` must lead
    to the value that `read` makes the field from, or a rule would match something else than what is judged.
    """

    reads_id_key: ClassVar[bool] = False
    """Whether the id is read from a key `id`, so that a row of a file without an id can be given one there."""

    @abstractmethod
    def read(self, document: Document) -> Document:
        """The fields of the interaction in a document; raises RecordError where it describes none."""

    @abstractmethod
    def path(self, field: str) -> "BodyPath | Lookup | None":
        """Where a field of the interaction is in every document; None if documents of this shape never have it.

        Asked once, at start. Prefer a `BodyPath`: the sampler parses no more of a record than its paths need.
        """

    def explain_missing(self, field: str) -> str:
        """Why `path` gives None for a field, for `streamjury config check`."""
        return f"records of this input.adapter have no {field}"


@dataclass(frozen=True, slots=True)
class BodyPath:
    """The way to a value in a document: names, and positions in lists."""

    steps: tuple[str, ...]

    @classmethod
    def parse(cls, dotted: str) -> "BodyPath":
        return cls(tuple(dotted.split(".")))

    def __str__(self) -> str:
        return ".".join(self.steps)

    def find(self, document: Mapping[str, object]) -> object:
        """The value in a document; None when there is nothing, or a null."""
        return follow(document, self.steps)

    def beneath(self, name: str) -> "BodyPath":
        return BodyPath((*self.steps, name))


@dataclass(frozen=True, slots=True)
class Lookup:
    """A value that only a look at the whole document finds, such as a column that has several spellings."""

    find: Callable[[Mapping[str, object]], object]
    """The value in a document, None when there is nothing; raises RecordError where `read` does for the same reason."""

    def beneath(self, name: str) -> "Lookup":
        return Lookup(lambda document: follow(self.find(document), (name,)))


def follow(value: object, steps: tuple[str, ...]) -> object:
    """The value at the end of a path, numbers being positions in lists; None when there is nothing, or a null."""
    for step in steps:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value
