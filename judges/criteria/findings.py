"""The problems found in a hand-written file, by their place."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from judges.criteria.problems import Loc, Problem, path_text


@dataclass(slots=True, kw_only=True)
class FileFindings:
    """Problems by place, each reported once."""

    messages: dict[Loc, dict[str, None]] = field(default_factory=dict)
    unread: set[Loc] = field(default_factory=set)
    """Places whose problem is already reported; errors about their substitute values are ignored."""

    def report(self, loc: Loc, message: str) -> None:
        self.messages.setdefault(loc, {})[message] = None

    def report_unread(self, loc: Loc, message: str) -> None:
        self.report(loc, message)
        self.unread.add(loc)

    def is_unread(self, loc: Loc) -> bool:
        return any(loc[: len(outer)] == outer for outer in self.unread)

    def problems(self) -> Iterator[Problem]:
        """Yield the problems, sorted by the item of the file's list, if it has one."""
        for loc in sorted(self.messages, key=lambda loc: next((part for part in loc if isinstance(part, int)), -1)):
            yield from (Problem(path=path_text(loc), message=message) for message in self.messages[loc])
