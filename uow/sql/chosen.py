"""Rows chosen by a subquery that is evaluated once, before anything is changed."""

from typing import Any

from sqlalchemy import Boolean, ColumnElement, FunctionElement, Select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.operators import OperatorType


def chosen_by(column: ColumnElement[Any], choice: Select[Any]) -> ColumnElement[bool]:
    """Whether `column` is among the values of `choice`, a select of one column with few rows.

    On PostgreSQL this is `column = ANY(ARRAY(SELECT ...))`: the choice runs once and its rows are found by
    the index of `column`, whatever the statistics say. A plain IN may be planned as a join that reads the
    whole table, or that runs a choice with LIMIT ... SKIP LOCKED more than once.
    """
    return _ChosenBy(column, choice.scalar_subquery())


class _ChosenBy(FunctionElement[bool]):
    type = Boolean()
    inherit_cache = True
    name = "chosen_by"

    def self_group(self, against: OperatorType | None = None) -> "_ChosenBy":
        """Itself: a comparison already, which needs no `= 1` where booleans are numbers."""
        return self


@compiles(_ChosenBy)
def _in(element: _ChosenBy, compiler: Any, **options: Any) -> str:
    column, choice = element.clauses
    return f"{compiler.process(column, **options)} IN {compiler.process(choice, **options)}"


@compiles(_ChosenBy, "postgresql")
def _any(element: _ChosenBy, compiler: Any, **options: Any) -> str:
    column, choice = element.clauses
    return f"{compiler.process(column, **options)} = ANY(ARRAY{compiler.process(choice, **options)})"
