"""The rows of a file: numbered, each as JSON like on the stream, whatever the file's format."""

from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from typing import Any, NamedTuple, Protocol

from stream.config.sections.input import InputConfig
from stream.errors import StreamjuryError

SHOWN_CHARS = 2_000
"""Characters that are kept of an unreadable row: enough to recognise it."""


class FileError(StreamjuryError):
    """A file that cannot be read in its format; the message names it."""


class Fault(NamedTuple):
    """A problem of a row, found before it is read as an interaction."""

    kind: str
    message: str


class FileRow(NamedTuple):
    """One record of the file."""

    number: int
    """Records are counted from 1, whatever line they begin on."""

    value: bytes
    """Its JSON, or the line itself if that is not JSON."""

    nameless: bool = False
    """Whether it is known to have no id."""

    fault: Fault | None = None

    line: int | None = None
    """Its line in the file, if rows are lines; blank lines count."""


class Rows(Protocol):
    """An open file, read once from its beginning."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Its columns in order; empty without columns."""
        ...

    @property
    def input(self) -> InputConfig:
        """The input settings for its rows."""
        ...

    @property
    def total(self) -> float | None:
        """The amount to read, in bytes or rows; None if unknown."""
        ...

    @property
    def position(self) -> float:
        """The amount read so far."""
        ...

    def __iter__(self) -> Iterator[FileRow]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """The arguments for opening a format."""

    name: str
    """The name in messages."""

    file: "BufferedReader[Any]"
    size: int | None
    """In bytes; None if the file has no end yet."""

    input: InputConfig
    """The configured input settings."""

    mapped: frozenset[str] = frozenset()
    """Fields of the interaction that are read from columns with other names."""
