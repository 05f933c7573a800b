"""Rows given to a statement as parameters, so that its text is the same for any number of them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    FromClause,
    LargeBinary,
    String,
    Table,
    Uuid,
    bindparam,
    cast,
    func,
    insert,
    literal_column,
    select,
    type_coerce,
)
from sqlalchemy.sql.dml import Insert
from sqlalchemy.types import TypeEngine

from uow.sql.dialect import Database
from uow.sql.planner import unforeseen
from uow.sql.types import ExactLongText, ExactText, ExactUuid

DIGEST_BYTES: Final = 32

Columns = Mapping[str, TypeEngine[Any]]
Row = Sequence[Any]


@dataclass(frozen=True, slots=True)
class Given:
    """A table of parameters, to be joined with stored rows: `source` for FROM, `c` its columns by name.

    A statement with it is built once and executed with what `parameters` makes of any number of rows.
    PostgreSQL gets one list for each column; SQLite and MySQL get JSON text, so a text must not contain NUL
    or a lone surrogate. Rows come in the order given where nothing reorders them.
    """

    name: str
    columns: Columns
    database: Database
    source: FromClause
    c: Mapping[str, ColumnElement[Any]]

    def parameters(self, rows: Sequence[Row]) -> dict[str, Any]:
        """What to execute a statement with."""
        if self.database.array_parameters:
            lists = zip(*rows, strict=True) if rows else ([] for _ in self.columns)
            return {
                f"{self.name}_{column}": list(values)
                for column, values in zip(self.columns, lists, strict=True)
            }
        text = json.dumps([[_plain(value) for value in row] for row in rows], ensure_ascii=False)
        parameters: dict[str, Any] = {f"{self.name}_rows": text}
        if self.database.single_writer:
            for place, (column, kind) in enumerate(self.columns.items()):
                if isinstance(kind, LargeBinary):
                    parameters[f"{self.name}_{column}"] = b"".join(row[place] for row in rows)
        return parameters


def given_rows(database: Database, columns: Columns, *, name: str = "given") -> Given:
    """A table `name` of parameters with these columns.

    Types: ExactText, ExactLongText, ExactUuid, integers, and LargeBinary for digests of 32 bytes. All but
    digests may be None.
    """
    if database.array_parameters:
        source, values = _lists(columns, name)
    elif database.single_writer:
        source, values = _json_each(columns, name)
    else:
        source, values = _json_table(columns, name)
    return Given(name, columns, database, source, values)


def _lists(columns: Columns, name: str) -> tuple[FromClause, dict[str, ColumnElement[Any]]]:
    # A planner that knows the length of a list takes a few hundred rows for a reason to read a whole table
    # of a few thousand pages; of a list that it does not know it expects ten, and looks each row up.
    lists: list[ColumnElement[Any]] = [
        unforeseen(bindparam(f"{name}_{column}", type_=ARRAY(_element(kind))))
        for column, kind in columns.items()
    ]
    source = func.unnest(*lists).table_valued(*columns, name=name).render_derived()
    return source, {column: type_coerce(source.c[column], kind) for column, kind in columns.items()}


def _element(kind: TypeEngine[Any]) -> TypeEngine[Any]:
    match kind:
        case ExactUuid():
            return Uuid()
        case LargeBinary():
            return LargeBinary()
        case ExactText() | ExactLongText():
            return String()
        case _:
            return BigInteger()


def _json_each(columns: Columns, name: str) -> tuple[FromClause, dict[str, ColumnElement[Any]]]:
    source = func.json_each(bindparam(f"{name}_rows", type_=String())).table_valued("key", "value", name=name)
    values: dict[str, ColumnElement[Any]] = {}
    for place, (column, kind) in enumerate(columns.items()):
        if isinstance(kind, LargeBinary):
            # JSON has no bytes, and SQLite had no unhex() until lately: one out of many joined digests.
            joined = bindparam(f"{name}_{column}", type_=LargeBinary())
            first = source.c.key * DIGEST_BYTES + 1
            values[column] = func.substr(joined, first, DIGEST_BYTES, type_=kind)
        else:
            values[column] = type_coerce(
                func.json_extract(source.c.value, literal_column(f"'$[{place}]'")), kind
            )
    return source, values


def _json_table(columns: Columns, name: str) -> tuple[FromClause, dict[str, ColumnElement[Any]]]:
    declared = ", ".join(
        f"`{column}` {_declared(columns[column])} PATH '$[{place}]'" for place, column in enumerate(columns)
    )
    rows = bindparam(f"{name}_rows", type_=String())
    layout: ColumnElement[Any] = literal_column(f"'$[*]' COLUMNS ({declared})")
    source = func.json_table(rows, layout).table_valued(*columns, name=name)
    return source, {column: _exact(source.c[column], kind) for column, kind in columns.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    return value.hex if isinstance(value, UUID) else value


def _declared(kind: TypeEngine[Any]) -> str:
    match kind:
        case ExactUuid():
            return "CHAR(32)"
        case LargeBinary():
            return f"CHAR({2 * DIGEST_BYTES})"
        case ExactText():
            return f"VARCHAR({kind.length}) CHARACTER SET utf8mb4"
        case ExactLongText():
            return "LONGTEXT CHARACTER SET utf8mb4"
        case _:
            return "BIGINT"


def _exact(column: ColumnElement[Any], kind: TypeEngine[Any]) -> ColumnElement[Any]:
    match kind:
        case ExactUuid() | LargeBinary():
            return func.unhex(column, type_=kind)
        case ExactText() | ExactLongText():
            return type_coerce(cast(column, LargeBinary()), kind)
        case _:
            return type_coerce(column, kind)


def insert_given(
    given: Given, table: Table, values: Mapping[str, ColumnElement[Any]], **constants: ColumnElement[Any]
) -> Insert:
    """An INSERT into `table` of one row for each row of `given`: `values` by column, and `constants`."""
    every = {**values, **constants}
    rows = select(*(value.label(f"new_{name}") for name, value in every.items())).select_from(given.source)
    return insert(table).from_select(list(every), rows, include_defaults=False)
