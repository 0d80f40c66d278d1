"""Groups of digits in a text, with the text between, before and after them."""

from collections.abc import Container
from dataclasses import dataclass, field
from functools import cached_property

from judges.models.redaction.labels import is_list_gap, label_before
from judges.models.redaction.span import SensitiveSpan, can_end

_JOINTS = frozenset("-./")


@dataclass(slots=True)
class Chunk:
    """Groups of digits with a few separators between them."""

    text: str
    groups: list[tuple[int, int]]
    last: SensitiveSpan | None
    """The value found before, if any: numbers in a list are of one kind."""
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
    def is_ended(self) -> bool:
        return can_end(self.text, self.end)

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
        """The start including a plus before the first digit, and a bracket if it is closed inside the window."""
        position = self.start
        brackets = "".join(self.separators).strip(" -./")
        if self.text[position - 1 : position] == "(" and brackets.startswith(")"):
            position -= 1
        return position - 1 if self.text[position - 1 : position] == "+" else position

    @cached_property
    def label(self) -> str | None:
        """The kind named before the window, or the kind of the number before it in a list."""
        position, last = self.opening, self.chunk.last
        if position not in self.chunk.labels:
            listed = last.kind if last and is_list_gap(self.text, last.end, position) else None
            # Inside a chunk, digits precede the window, not words.
            self.chunk.labels[position] = listed if self.first else label_before(self.text, position) or listed
        return self.chunk.labels[position]

    @property
    def before(self) -> str:
        """The separator between the window and the group before it, if any."""
        return self._gap(self.first - 1) if self.first else ""

    @property
    def after(self) -> str:
        return self._gap(self.last) if self.last + 1 < len(self.chunk.groups) else ""

    @property
    def is_alone(self) -> bool:
        """Whether it is not part of a longer row of groups, as in 10-212-555-0123-77."""
        return not _JOINTS & {*self.before, *self.after}

    def is_uniform(self, allowed: Container[str]) -> bool:
        """Return whether all separators are the same, and one of these."""
        return len(set(self.separators)) <= 1 and all(separator in allowed for separator in self.separators)

    def make_span(self, kind: str, key: str | None = None) -> SensitiveSpan:
        return SensitiveSpan(self.start, self.end, kind, key or self.digits)

    def _gap(self, group: int) -> str:
        groups = self.chunk.groups
        return self.text[groups[group][1] : groups[group + 1][0]]
