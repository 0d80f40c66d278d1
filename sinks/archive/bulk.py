"""Statements over many rows, each written in the way that is fastest for the database."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Double,
    Integer,
    LargeBinary,
    Table,
    Text,
    func,
    select,
    text,
)
from sqlalchemy.exc import DBAPIError

from sinks.archive.database import POSTGRESQL

Row = tuple[Any, ...]

_COPY_TYPES: Mapping[type, str] = {
    BigInteger: "int8",
    Integer: "int4",
    Double: "float8",
    Text: "text",
    LargeBinary: "bytea",
}


def insert_rows(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Insert rows with a value for every column of the table, in its order; fails if a row exists already."""
    if not rows:
        return
    columns = ", ".join(column.name for column in table.columns)
    if connection.dialect.name == POSTGRESQL:
        _copy_rows(connection, table, columns, rows)
        return
    placeholders = ", ".join("?" * len(table.columns))
    connection.exec_driver_sql(f"INSERT INTO {table.name} ({columns}) VALUES ({placeholders})", list(rows))  # noqa: S608 - our own names


def _copy_rows(connection: Connection, table: Table, columns: str, rows: Sequence[Row]) -> None:
    cursor: Any = connection.connection.cursor()
    errors, statement = (
        connection.dialect.loaded_dbapi.Error,
        f"COPY {table.name} ({columns}) FROM STDIN (FORMAT BINARY)",
    )
    try:
        with cursor, cursor.copy(statement) as copy:
            copy.set_types([_COPY_TYPES[type(column.type)] for column in table.columns])
            for row in rows:
                copy.write_row(row)
    except errors as error:
        # SQLAlchemy does not translate errors of calls to its driver.
        raise DBAPIError.instance(
            statement, None, error, errors, hide_parameters=True, dialect=connection.dialect
        ) from error


def add_to_rows(connection: Connection, table: Table, sums: Mapping[Row, Sequence[float]]) -> None:
    """Add sums to rows, by the values of their primary key; insert rows that are missing.

    Rows are locked in the order of their keys, so that two writers cannot deadlock.
    """
    if not sums:
        return
    keys = [column.name for column in table.primary_key.columns]
    others = [column.name for column in table.columns if column.name not in keys]
    additions = ", ".join(f"{name} = {table.name}.{name} + excluded.{name}" for name in others)
    conflict = f"ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {additions}"
    rows = [(*key, *sums[key]) for key in sorted(sums)]
    _upsert(connection, table, [*keys, *others], rows, conflict)


def _upsert(connection: Connection, table: Table, names: list[str], rows: Sequence[Row], conflict: str) -> None:
    columns = ", ".join(names)
    if connection.dialect.name == POSTGRESQL:
        # One statement with an array for each column.
        arrays = ", ".join(f"%s::{_COPY_TYPES[type(table.c[name].type)]}[]" for name in names)
        statement = f"INSERT INTO {table.name} ({columns}) SELECT * FROM unnest({arrays}) {conflict}"  # noqa: S608 - our own names
        lists = zip(names, zip(*rows, strict=True), strict=True)
        connection.exec_driver_sql(statement, tuple(_unify_type(table, name, values) for name, values in lists))
        return
    placeholders = ", ".join("?" * len(names))
    connection.exec_driver_sql(f"INSERT INTO {table.name} ({columns}) VALUES ({placeholders}) {conflict}", list(rows))  # noqa: S608


def _unify_type(table: Table, name: str, values: Row) -> list[Any]:
    """Convert the numbers of a float column to float: the driver refuses a list of mixed types."""
    return list(map(float, values)) if isinstance(table.c[name].type, Double) else list(values)


def find_existing(connection: Connection, column: Column[str], values: Collection[str]) -> set[str]:
    """Return the values that exist in the column."""
    if not values:
        return set()
    # A single parameter, because databases limit their number.
    parameter: str | list[str]
    if connection.dialect.name == POSTGRESQL:
        condition, parameter = "= ANY(%s)", list(values)
    else:
        condition, parameter = "IN (SELECT value FROM json_each(?))", json.dumps(list(values))
    statement = f"SELECT {column.name} FROM {column.table.name} WHERE {column.name} {condition}"  # noqa: S608 - our own names
    return set(connection.exec_driver_sql(statement, (parameter,)).scalars())


def take_numbers(connection: Connection, table: Table, count: int) -> Sequence[int]:
    """Reserve the next row numbers of a table, in the transaction that will insert the rows."""
    if connection.dialect.name == POSTGRESQL:
        numbers = text("SELECT nextval(pg_get_serial_sequence(:name, 'number')) FROM generate_series(1, :count)")
        return connection.scalars(numbers, {"name": table.name, "count": count}).all()
    # SQLite allows one writing transaction at a time.
    last = connection.scalar(select(func.max(table.c.number))) or 0
    return range(last + 1, last + 1 + count)
