"""Problems of a configuration, each at its key."""

from collections.abc import Iterable
from pathlib import Path

from judges.criteria.problems import Problem
from stream.errors import StreamjuryError


class ConfigError(StreamjuryError):
    """The configuration cannot be used; lists all its problems."""

    def __init__(self, file: Path | None, problems: Iterable[Problem]) -> None:
        self.file = file
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))
