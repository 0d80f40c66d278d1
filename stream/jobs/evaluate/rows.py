"""The rows of a file: numbered, each as the JSON that the stream would have carried, whatever the file's format."""

from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from typing import Any, NamedTuple, Protocol

from stream.config.sections.input import InputConfig
from stream.errors import StreamjuryError

SHOWN_CHARS = 2_000
"""Of what cannot be read, as much is kept as tells what it is."""


class FileError(StreamjuryError):
    """A file that cannot be read as what it is said to be; the message names it."""


class Fault(NamedTuple):
    """What is wrong with a row, before anybody reads it as an interaction."""

    kind: str
    message: str


class FileRow(NamedTuple):
    """One record of the file."""

    number: int
    """Records are counted from 1, whatever line they begin on."""

    value: bytes
    """Its JSON; of a line that is none, the line."""

    nameless: bool = False
    """It is known to have no id."""

    fault: Fault | None = None

    line: int | None = None
    """Of the file, where a row is one; blank lines count."""


class Rows(Protocol):
    """An open file, read once from its beginning."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Its columns in their order; none where it has none."""
        ...

    @property
    def input(self) -> InputConfig:
        """How its rows are read."""
        ...

    @property
    def total(self) -> float | None:
        """How much there is to read, in bytes or rows; None where that is not known."""
        ...

    @property
    def position(self) -> float:
        """How much of that has been read."""
        ...

    def __iter__(self) -> Iterator[FileRow]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """What a format is opened with."""

    name: str
    """As messages call it."""

    file: "BufferedReader[Any]"
    size: int | None
    """In bytes; None where the file has no end yet."""

    input: InputConfig
    """How records are read by the configuration."""
