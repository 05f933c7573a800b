"""Conditions said so that PostgreSQL's planner cannot go wrong where its statistics are.

The statistics of a queue are always out of date, and a plan that is fine for a hundred rows reads a million.
Other databases get the plain condition.
"""

from typing import Any, TypeVar

from sqlalchemy import Boolean, ColumnElement, FunctionElement, Integer, literal
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.operators import OperatorType

T = TypeVar("T")


def unforeseen(value: ColumnElement[T]) -> ColumnElement[T]:
    """`value`, which the planner does not know before the statement runs; evaluated once.

    For `due <= unforeseen(now)` with ORDER BY and LIMIT: a planner that thinks hardly any row is due reads
    and sorts all that are; one that does not know takes a third of the table for due, and walks the index
    in order until the limit is reached.
    """
    return _Unforeseen(value)


def at_most(limit: int | ColumnElement[int]) -> ColumnElement[int]:
    """`limit`, for LIMIT, of which the planner does not know how large it is; it expects a tenth of the rows.

    For ORDER BY by an index: a planner that thinks hardly more rows than the limit are there finds it
    cheaper to read all that are in the range, page by page, and to sort them.
    """
    return unforeseen(literal(limit, Integer()) if isinstance(limit, int) else limit)


def exactly(column: ColumnElement[T], value: ColumnElement[T]) -> ColumnElement[bool]:
    """`column = value`, found by an index that begins with `column`.

    For `ORDER BY column, key LIMIT 1`: with a plain equality the planner knows that `column` does not
    matter for the order, and may walk the primary key from its beginning until the value turns up.
    """
    return _Exactly(column, value)


def unestimated(condition: ColumnElement[bool]) -> ColumnElement[bool]:
    """`condition`, of which the planner expects that nearly all rows meet it, and for which it uses no index.

    For what is checked of rows that are found by a key or in the order of an index: a planner that thinks
    hardly any row is running begins with those, by reading the whole table or another index; one that
    thinks that hardly any row of a range remains reads the whole range.
    """
    return _Unestimated(condition)


class _Unforeseen(FunctionElement[Any]):
    inherit_cache = True
    name = "unforeseen"

    def __init__(self, value: ColumnElement[Any]) -> None:
        super().__init__(value)
        self.type = value.type


class _Exactly(FunctionElement[bool]):
    type = Boolean()
    inherit_cache = True
    name = "exactly"

    def self_group(self, against: OperatorType | None = None) -> "_Exactly":
        """Itself: a comparison already, which needs no `= 1` where booleans are numbers."""
        return self


class _Unestimated(FunctionElement[bool]):
    type = Boolean()
    inherit_cache = True
    name = "unestimated"

    def self_group(self, against: OperatorType | None = None) -> "_Unestimated":
        """Itself: a condition already, which needs no `= 1` where booleans are numbers."""
        return self


@compiles(_Unestimated)
def _plain_condition(element: _Unestimated, compiler: Any, **options: Any) -> str:
    return f"({compiler.process(element.clauses, **options)})"


@compiles(_Unestimated, "postgresql")
def _case(element: _Unestimated, compiler: Any, **options: Any) -> str:
    return f"(CASE WHEN {compiler.process(element.clauses, **options)} THEN true END IS NOT NULL)"


@compiles(_Unforeseen)
def _plain_value(element: _Unforeseen, compiler: Any, **options: Any) -> str:
    return str(compiler.process(element.clauses, **options))


@compiles(_Unforeseen, "postgresql")
def _selected_value(element: _Unforeseen, compiler: Any, **options: Any) -> str:
    return f"(SELECT {compiler.process(element.clauses, **options)})"


@compiles(_Exactly)
def _equality(element: _Exactly, compiler: Any, **options: Any) -> str:
    column, value = (compiler.process(clause, **options) for clause in element.clauses)
    return f"{column} = {value}"


@compiles(_Exactly, "postgresql")
def _narrow_range(element: _Exactly, compiler: Any, **options: Any) -> str:
    column, value = (compiler.process(clause, **options) for clause in element.clauses)
    return f"{column} BETWEEN {value} AND {value}"
