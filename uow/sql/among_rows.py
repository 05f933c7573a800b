"""Rows named by a list of composite keys."""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Connection,
    String,
    Uuid,
    and_,
    func,
    literal,
    or_,
    select,
    tuple_,
)

from uow.sql.dialect import database_of
from uow.sql.types import ExactUuid


def among_rows(
    connection: Connection, columns: Sequence[ColumnElement[Any]], rows: Collection[tuple[Any, ...]]
) -> ColumnElement[bool]:
    """Whether these columns (UUIDs and short texts) equal one of `rows`; found by an index on the first.

    On PostgreSQL each column's values are one bound list, so the statement is the same for any number of
    rows and each row is looked up by the index, whatever the statistics say. Elsewhere rows that differ in
    the first column alone are named together: SQLite finds no row by an index for a list of pairs, and
    MySQL plans one in quadratic time.
    """
    if len(rows) > 1 and database_of(connection).array_parameters:
        return _in_lists(columns, rows)
    first, *others = columns
    groups: dict[tuple[Any, ...], list[Any]] = {}
    for value, *rest in rows:
        groups.setdefault(tuple(rest), []).append(value)
    return or_(
        *(
            and_(_in(first, values), *(column == value for column, value in zip(others, rest, strict=True)))
            for rest, values in groups.items()
        )
    )


def _in(column: ColumnElement[Any], values: list[Any]) -> ColumnElement[bool]:
    return column == values[0] if len(values) == 1 else column.in_(values)


def _in_lists(
    columns: Sequence[ColumnElement[Any]], rows: Collection[tuple[Any, ...]]
) -> ColumnElement[bool]:
    lists = [
        literal(list(values), ARRAY(Uuid() if isinstance(column.type, ExactUuid) else String()))
        for column, values in zip(columns, zip(*rows, strict=True), strict=True)
    ]
    named = func.unnest(*lists).table_valued(*(f"c{number}" for number in range(len(lists))))
    return tuple_(*columns).in_(select(*named.render_derived().c))
