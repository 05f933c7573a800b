"""Whether the database answers and holds our tables; every failure in words without secrets."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

from sqlalchemy import Connection, MetaData, false, literal, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from relay.schema import SchemaDifference, SchemaError, messaging_tables, schema_differences
from uow.errors import TryAgainError
from uow.secret import describe_error, mask_secrets
from uow.sql.sqlite import BEGIN_OPTION, sqlite_file

_CONNECT_SECONDS: Final = 10.0
_ANSWER_SECONDS: Final = 30.0


class DatabaseUnavailableError(TryAgainError):
    """The database cannot be reached or turned us away; the text says why, without a password."""


class DatabaseCheck:
    """Looks at one database; reads only, and never creates a SQLite file."""

    def __init__(self, engine: AsyncEngine, metadata: MetaData) -> None:
        self._engine = engine.execution_options(**{BEGIN_OPTION: "DEFERRED"})
        self._metadata = metadata

    @property
    def display_url(self) -> str:
        """The address of the database without its password."""
        return mask_secrets(self._engine.url.render_as_string(hide_password=True))

    async def check_connection(self) -> None:
        """Raises DatabaseUnavailableError unless the database answers a query."""
        async with self._connected() as connection:
            await connection.execute(select(literal(1)))

    async def check_tables(self) -> None:
        """Raises SchemaError unless our tables can be read; cheap enough for a health check."""
        async with self._connected() as connection:
            try:
                await connection.run_sync(self._read_all)
            except SQLAlchemyError:
                await connection.rollback()
                if differences := await connection.run_sync(schema_differences, self._metadata):
                    raise SchemaError(differences) from None
                raise

    async def differences(self) -> list[SchemaDifference]:
        """In what the database differs from our tables. Raises DatabaseUnavailableError."""
        async with self._connected() as connection:
            return await connection.run_sync(schema_differences, self._metadata)

    async def check_schema(self) -> None:
        """Raises DatabaseUnavailableError, or SchemaError with every difference."""
        if differences := await self.differences():
            raise SchemaError(differences)

    def _read_all(self, connection: Connection) -> None:
        for table in messaging_tables(self._metadata):
            connection.execute(select(table).where(false()))

    @contextlib.asynccontextmanager
    async def _connected(self) -> AsyncIterator[AsyncConnection]:
        file = sqlite_file(self._engine)
        if file is not None and not file.exists():
            raise DatabaseUnavailableError(
                f"there is no database file {file.resolve()}; start where it is, or create it first"
            )
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                connection = await self._engine.connect()
        except TimeoutError:
            raise self._unavailable(f"no connection within {_CONNECT_SECONDS:g} s") from None
        except Exception as error:
            # Drivers raise anything here, wrapped by SQLAlchemy or not; all of it means the same.
            raise self._unavailable(describe_error(error)) from error
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                yield connection
        except TimeoutError:
            await connection.invalidate()
            raise self._unavailable(f"no answer within {_ANSWER_SECONDS:g} s") from None
        finally:
            await connection.close()

    def _unavailable(self, why: str) -> DatabaseUnavailableError:
        return DatabaseUnavailableError(
            f"cannot connect to the database {self.display_url}: {why}. "
            "Check that it runs and that address, user and password are right"
        )
