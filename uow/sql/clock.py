"""The clock that decides leases: the database's own, so that no host's clock can give one row to two."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from sqlalchemy import ColumnElement, Connection, FunctionElement, literal, select
from sqlalchemy.ext.compiler import compiles

from uow.sql.dialect import UnsupportedDatabaseError
from uow.sql.types import UtcDateTime


class OperationalClock(Protocol):
    """Gives SQL expressions of the present; stores compare leases and due times with nothing else."""

    def now(self) -> ColumnElement[datetime]:
        """The present, the same throughout one statement."""
        ...

    def after(self, seconds: float) -> ColumnElement[datetime]:
        """The present plus `seconds` (may be negative), exact to the millisecond at least."""
        ...


class DatabaseClock:
    """The present as the database says it when the statement begins."""

    def now(self) -> ColumnElement[datetime]:
        """The present."""
        return _StatementTime(0.0)

    def after(self, seconds: float) -> ColumnElement[datetime]:
        """The present plus `seconds`."""
        return _StatementTime(seconds)


@dataclass
class PinnedClock:
    """A clock for tests that stands at `moment` (aware) until it is moved with `advance`."""

    moment: datetime

    def now(self) -> ColumnElement[datetime]:
        """The pinned moment."""
        return literal(self.moment, UtcDateTime())

    def after(self, seconds: float) -> ColumnElement[datetime]:
        """The pinned moment plus `seconds`."""
        return literal(self.moment + timedelta(seconds=seconds), UtcDateTime())

    def advance(self, seconds: float) -> None:
        """Move the clock on by `seconds`."""
        self.moment += timedelta(seconds=seconds)


def read_clock(connection: Connection, clock: OperationalClock) -> datetime:
    """The present by `clock`, as an aware datetime; one statement."""
    moment: datetime = connection.execute(select(clock.now())).scalar_one()
    return moment


class _StatementTime(FunctionElement[datetime]):
    """Statement time plus a bound number of seconds; compiled for each database below."""

    type = UtcDateTime()
    inherit_cache = True
    name = "statement_time"

    def __init__(self, seconds: float) -> None:
        super().__init__(literal(seconds))


@compiles(_StatementTime)
def _refuse(element: _StatementTime, compiler: Any, **options: Any) -> str:
    raise UnsupportedDatabaseError(f"no clock is known for database {compiler.dialect.name!r}")


@compiles(_StatementTime, "postgresql")
def _postgresql(element: _StatementTime, compiler: Any, **options: Any) -> str:
    seconds = compiler.process(element.clauses, **options)
    return f"(statement_timestamp() + CAST({seconds} AS double precision) * interval '1 second')"


@compiles(_StatementTime, "mysql")
@compiles(_StatementTime, "mariadb")
def _mysql(element: _StatementTime, compiler: Any, **options: Any) -> str:
    seconds = compiler.process(element.clauses, **options)
    return f"(UTC_TIMESTAMP(6) + INTERVAL ({seconds}) * 1000000 MICROSECOND)"


@compiles(_StatementTime, "sqlite")
def _sqlite(element: _StatementTime, compiler: Any, **options: Any) -> str:
    seconds = compiler.process(element.clauses, **options)
    # Milliseconds, padded to the six digits in which SQLAlchemy writes a datetime: both sort as text.
    return f"(strftime('%Y-%m-%d %H:%M:%f', 'now', ({seconds}) || ' seconds') || '000')"
