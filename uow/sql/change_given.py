"""Changing the rows that parameters name, each found by an index."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, Table, Update, update

from uow.sql.given import Given


def change_given(given: Given, table: Table, named: ColumnElement[bool], values: Mapping[str, Any]) -> Update:
    """Changes the rows of `table` for which `named`, a condition on it and a row of `given`, holds.

    `values` may use the columns of both.
    """
    if given.database.update_returning:
        return update(table).where(named).values(dict(values))
    # An outer join, so that MySQL looks up, and locks, these rows alone.
    joined = given.source.outerjoin(table, named)
    return update(joined).values({table.c[name]: value for name, value in values.items()})
