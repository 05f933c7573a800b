"""A random UUID drawn by the database, another one for each row."""

from typing import Any
from uuid import UUID

from sqlalchemy import FunctionElement
from sqlalchemy.ext.compiler import compiles

from uow.sql.dialect import UnsupportedDatabaseError
from uow.sql.types import ExactUuid


class random_token(FunctionElement[UUID]):  # noqa: N801 - used like the functions of SQL
    """122 random bits at least, as an ExactUuid; for databases whose UPDATE returns what it wrote."""

    type = ExactUuid()
    inherit_cache = True
    name = "random_token"


@compiles(random_token)
def _refuse(element: random_token, compiler: Any, **options: Any) -> str:
    raise UnsupportedDatabaseError(f"database {compiler.dialect.name!r} returns no token that it draws")


@compiles(random_token, "postgresql")
def _version_4(element: random_token, compiler: Any, **options: Any) -> str:
    return "gen_random_uuid()"


@compiles(random_token, "sqlite")
def _hexadecimal(element: random_token, compiler: Any, **options: Any) -> str:
    return "lower(hex(randomblob(16)))"
