"""Sums over minutes and hours: chooses the table to read, and adds its rows in the database."""

from typing import Any

from sqlalchemy import ColumnElement, Table, cast, func

from sinks.archive.reading.times import Slots
from sinks.archive.tables import by_hour

SUMS = ("n", "uncertain_n", "w", "ws", "wss", "v", "vs", "vss", "squares", "cubes", "unscored")
"""The columns of a bucket, which `rollups.sums_of` reads."""


def rows_within(table: Table, slots: Slots) -> tuple[Table, ColumnElement[bool]]:
    """Return the table to read, by minute or by hour, and the condition for the rows that cover the slots."""
    source = table if slots.span == 1 else by_hour[table]
    return source, (source.c.minute >= slots.first) & (source.c.minute < slots.end)


def sum_columns(table: Table) -> list[ColumnElement[Any]]:
    """Return the sum over a group for each column of a bucket."""
    # PostgreSQL returns the sum of whole numbers as a decimal.
    return [cast(func.sum(table.c[name]), table.c[name].type).label(name) for name in SUMS]
