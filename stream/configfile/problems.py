"""What is wrong with a configuration, and at which of its keys."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from stream.errors import StreamjuryError


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong with the configuration."""

    path: str
    """The key, as `judges.panel[1].model`; a place in the file when it is not YAML; empty when it is the whole file."""

    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class ConfigError(StreamjuryError):
    """The configuration cannot be used; says everything that is wrong with it."""

    def __init__(self, file: Path | None, problems: Iterable[Problem]) -> None:
        self.file = file
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))
