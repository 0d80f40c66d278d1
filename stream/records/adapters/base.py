"""The contract of an input adapter: how a record of one shape becomes an interaction, and where each field is in it."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import msgspec

# A document may be hostile: Python refuses to read very long numbers.
_POSITION = re.compile(r"-?[0-9]{1,9}", re.ASCII)

Document = dict[str, object]
"""A record's value after parsing, whatever its encoding was."""


class Adapter(ABC):
    """Reads documents of one shape.

    The sampler reads a few fields of every record, and the worker reads some records whole. `path` must lead to the
    value that `read` makes the field from; otherwise a rule would match another value than the judged one.
    """

    reads_id_key: ClassVar[bool] = False
    """Whether the id is read from a key `id`, so that a row of a file without an id can be given one there."""

    @abstractmethod
    def read(self, document: Document) -> Document:
        """Return the fields of the interaction in a document; raises RecordError if there is none."""

    @abstractmethod
    def path(self, field: str) -> "BodyPath | Lookup | None":
        """Return the place of a field in every document, or None if documents of this shape never have it.

        Called once, at start. Prefer a `BodyPath`: the sampler parses no more of a record than its paths need.
        """

    def explain_missing(self, field: str) -> str:
        """Return why `path` returns None for a field, for `streamjury config check`."""
        return f"records of this input.adapter have no {field}"


@dataclass(frozen=True, slots=True)
class BodyPath:
    """The path to a value in a document: names, positions in lists (-1 is the last), and steps into JSON texts."""

    steps: tuple[str, ...]

    @classmethod
    def parse(cls, dotted: str) -> "BodyPath":
        return cls(tuple(dotted.split(".")))

    def __str__(self) -> str:
        return ".".join(self.steps)

    def find(self, document: Mapping[str, object]) -> object:
        """Return the value in a document, or None if it is missing or null."""
        return follow(document, self.steps)

    def beneath(self, name: str) -> "BodyPath":
        return BodyPath((*self.steps, name))


@dataclass(frozen=True, slots=True)
class Lookup:
    """A value that is found only in the whole document, such as a column with several spellings."""

    find: Callable[[Mapping[str, object]], object]
    """Returns the value in a document or None, and raises RecordError in the same cases as `read`."""

    def beneath(self, name: str) -> "Lookup":
        return Lookup(lambda document: follow(self.find(document), (name,)))


def follow(value: object, steps: tuple[str, ...]) -> object:
    """Return the value at the end of a path; None if it is missing or null.

    Numbers are positions in lists, negative ones from the end. A text on the way is read as JSON: gateways log bodies
    of requests and responses as texts.
    """
    for step in steps:
        if isinstance(value, str):
            value = read_json(value)
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and _POSITION.fullmatch(step) and -len(value) <= int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def read_json(text: str) -> object:
    """Return the value of a JSON text, or None if it is not JSON."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return None
