"""Groups of digits as they stand in a text: what is between them, before them and after them."""

from collections.abc import Container
from dataclasses import dataclass, field
from functools import cached_property

from judges.models.redaction.found import SensitiveSpan, ends
from judges.models.redaction.labels import continues, label_before

_JOINTS = frozenset("-./")


@dataclass(slots=True)
class Chunk:
    """Groups of digits with a few separators between them."""

    text: str
    groups: list[tuple[int, int]]
    last: SensitiveSpan | None
    """What was found before, if anything: numbers that are listed are of one kind."""
    labels: dict[int, str | None] = field(default_factory=dict)


@dataclass
class GroupWindow:
    """Some neighbouring groups of a chunk."""

    chunk: Chunk
    first: int
    last: int

    @property
    def text(self) -> str:
        return self.chunk.text

    @property
    def start(self) -> int:
        return self.chunk.groups[self.first][0]

    @property
    def end(self) -> int:
        return self.chunk.groups[self.last][1]

    @property
    def ended(self) -> bool:
        return ends(self.text, self.end)

    @cached_property
    def groups(self) -> list[str]:
        return [self.text[start:end] for start, end in self.chunk.groups[self.first : self.last + 1]]

    @cached_property
    def digits(self) -> str:
        return "".join(self.groups)

    @cached_property
    def separators(self) -> list[str]:
        return [self._gap(group) for group in range(self.first, self.last)]

    @cached_property
    def opening(self) -> int:
        """Where it begins with the plus before its first digit, and the bracket if it is closed inside."""
        at = self.start
        brackets = "".join(self.separators).strip(" -./")
        if self.text[at - 1 : at] == "(" and brackets.startswith(")"):
            at -= 1
        return at - 1 if self.text[at - 1 : at] == "+" else at

    @cached_property
    def label(self) -> str | None:
        """What is said of it, or of the number that it is listed after."""
        at, last = self.opening, self.chunk.last
        if at not in self.chunk.labels:
            listed = last.kind if last and continues(self.text, last.end, at) else None
            # Inside a chunk there are digits before it, not words.
            self.chunk.labels[at] = listed if self.first else label_before(self.text, at) or listed
        return self.chunk.labels[at]

    @property
    def before(self) -> str:
        """What joins it to the group before, if any."""
        return self._gap(self.first - 1) if self.first else ""

    @property
    def after(self) -> str:
        return self._gap(self.last) if self.last + 1 < len(self.chunk.groups) else ""

    @property
    def alone(self) -> bool:
        """Whether it is no part of a longer row of groups, as in 10-212-555-0123-77."""
        return not _JOINTS & {*self.before, *self.after}

    def uniform(self, allowed: Container[str]) -> bool:
        """Whether all separators are the same, one of these."""
        return len(set(self.separators)) <= 1 and all(separator in allowed for separator in self.separators)

    def found(self, kind: str, key: str | None = None) -> SensitiveSpan:
        return SensitiveSpan(self.start, self.end, kind, key or self.digits)

    def _gap(self, group: int) -> str:
        groups = self.chunk.groups
        return self.text[groups[group][1] : groups[group + 1][0]]
