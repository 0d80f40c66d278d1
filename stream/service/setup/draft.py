"""The configuration while it is read, with the origin of its values."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from judges.criteria.problems import Loc, Problem, path_text


@dataclass(slots=True, kw_only=True)
class Draft:
    """The state that each step of reading extends."""

    data: Any = None
    problems: dict[Loc, dict[str, None]] = field(default_factory=dict)
    """Messages by place, without duplicates."""

    unread: set[Loc] = field(default_factory=set)
    """Values already reported; validation errors about their stand-ins are noise."""

    from_environment: set[Loc] = field(default_factory=set)
    """Values taken from the environment, which may be secrets in the wrong place: never shown."""

    overridden: dict[Loc, str] = field(default_factory=dict)
    """The variable that set the value at a place."""

    added: dict[Loc, str] = field(default_factory=dict)
    """The variable that added an item to a list."""

    def report(self, loc: Loc, message: str) -> None:
        self.problems.setdefault(loc, {})[message] = None

    def report_unread(self, loc: Loc, message: str) -> None:
        """Report a value that a stand-in replaces from now on."""
        self.report(loc, message)
        self.unread.add(loc)

    def forget(self, outer: Loc) -> None:
        """Forget a place and everything in it, because it gets another value."""
        self.problems = {loc: messages for loc, messages in self.problems.items() if not within(loc, outer)}
        self.unread = {loc for loc in self.unread if not within(loc, outer)}
        self.from_environment = {loc for loc in self.from_environment if not within(loc, outer)}

    def all_problems(self) -> Iterator[Problem]:
        for loc, messages in self.problems.items():
            yield from (Problem(path=path_text(loc), message=message) for message in messages)


def within(loc: Loc, outer: Loc) -> bool:
    return loc[: len(outer)] == outer
