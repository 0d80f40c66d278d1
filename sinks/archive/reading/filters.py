"""Reads the values that answers can be filtered by."""

from typing import Any

from sqlalchemy import Column, Connection, func, select

from sinks.archive.tables import evaluations, scores

# A list to choose from; more values can still be typed.
_MOST_VALUES = 200


def filter_values(connection: Connection) -> dict[str, list[str]]:
    """Return the values in the archive, at most 200 of each."""
    return {
        "apps": _distinct(connection, evaluations.c.app),
        "models": _distinct(connection, evaluations.c.model),
        "tenants": _distinct(connection, evaluations.c.tenant),
        "criteria": _distinct(connection, scores.c.criterion),
    }


def _distinct(connection: Connection, column: Column[Any]) -> list[str]:
    """Return the values of an indexed column. It jumps from value to value, where DISTINCT would read every row."""
    values = select(func.min(column).label("value")).cte("found_values", recursive=True)
    following = (
        select(func.min(column)).where(column > values.c.value).correlate(values).scalar_subquery().label("value")
    )
    values = values.union_all(select(following).where(values.c.value.is_not(None)))
    query = select(values.c.value).where(values.c.value.is_not(None)).limit(_MOST_VALUES)
    return [value for (value,) in connection.execute(query)]
