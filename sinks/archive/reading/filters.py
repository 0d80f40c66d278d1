"""Reads the values that answers can be filtered by."""

from typing import Any

from sqlalchemy import Column, Connection, func, select

from sinks.archive.tables import evaluations, scores

# Enough for a list to choose from; other values can still be typed.
_MOST_VALUES = 200


def read_filter_values(connection: Connection) -> dict[str, list[str]]:
    """Return the values that occur in the archive, at most 200 of each kind."""
    return {
        "apps": read_apps(connection),
        "models": _read_distinct(connection, evaluations.c.model),
        "tenants": _read_distinct(connection, evaluations.c.tenant),
        "criteria": _read_distinct(connection, scores.c.criterion),
    }


def read_apps(connection: Connection) -> list[str]:
    return _read_distinct(connection, evaluations.c.app)


def _read_distinct(connection: Connection, column: Column[Any]) -> list[str]:
    """Return the distinct values of an indexed column, in jumps from value to value: DISTINCT would read every row."""
    values = select(func.min(column).label("value")).cte("distinct_values", recursive=True)
    following = (
        select(func.min(column)).where(column > values.c.value).correlate(values).scalar_subquery().label("value")
    )
    values = values.union_all(select(following).where(values.c.value.is_not(None)))
    query = select(values.c.value).where(values.c.value.is_not(None)).limit(_MOST_VALUES)
    return [value for (value,) in connection.execute(query)]
