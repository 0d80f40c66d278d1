"""A sheet: a titled table of text in reports and comparisons."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    words: frozenset[int] = frozenset({0})
    """Columns that are not numbers."""
