"""Removes rows together with their dependent rows."""

from collections.abc import Sequence

from sqlalchemy import Connection, delete, select, text

from sinks.archive.database import SQLITE
from sinks.archive.tables import evaluation_tags, evaluations, records, scores, texts
from sinks.archive.texts import searchable_texts


def remove_evaluations(connection: Connection, numbers: Sequence[int]) -> None:
    """Remove evaluations with their records, scores and tags; the sums of their minutes stay."""
    if numbers:
        for table in (records, scores, evaluation_tags, evaluations):
            connection.execute(delete(table).where(table.c.number.in_(numbers)))


def remove_texts(connection: Connection, numbers: Sequence[int]) -> None:
    """Remove texts, and their words from the search index."""
    if not numbers:
        return
    if connection.dialect.name == SQLITE:
        stored = connection.execute(select(texts.c.number, texts.c.content).where(texts.c.number.in_(numbers)))
        # The index has no copy of the texts, so the statement must pass the words to remove.
        connection.execute(
            text("INSERT INTO texts_search(texts_search, rowid, question, answer) VALUES ('delete', :n, :q, :a)"),
            [dict(zip("nqa", (number, *searchable_texts(content)), strict=True)) for number, content in stored],
        )
    connection.execute(delete(texts).where(texts.c.number.in_(numbers)))
