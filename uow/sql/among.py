"""Rows named by a list of numbers."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import ARRAY, BigInteger, ColumnElement, Connection, func, literal, select

from uow.sql.chosen import chosen_by
from uow.sql.dialect import database_of


def among(
    connection: Connection, column: ColumnElement[Any], numbers: Collection[int]
) -> ColumnElement[bool]:
    """Whether a whole-number column is one of `numbers`; found by the index of `column`.

    On PostgreSQL the list is one bound value, so the text of the statement is the same for any length and
    is parsed once.
    """
    if not database_of(connection).array_parameters:
        return column.in_(numbers)
    return chosen_by(column, select(func.unnest(literal(list(numbers), ARRAY(BigInteger())))))
