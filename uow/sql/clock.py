"""The clock that decides leases: the database's own, so that no host's clock can give one row to two."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from sqlalchemy import BigInteger, ColumnElement, Connection, FunctionElement, bindparam, literal, select
from sqlalchemy.ext.compiler import compiles

from uow.sql.dialect import UnsupportedDatabaseError
from uow.sql.types import InstantTicks, UtcDateTime
from uow.ticks import TICKS_PER_SECOND, UNIX_EPOCH_TICKS, UtcInstant


class OperationalClock(Protocol):
    """Gives SQL expressions of the present; stores compare leases and due times with nothing else."""

    def now(self) -> ColumnElement[datetime]:
        """The present, the same throughout one statement."""
        ...

    def after(self, seconds: float) -> ColumnElement[datetime]:
        """The present plus `seconds` (may be negative), exact to the millisecond at least."""
        ...

    def now_ticks(self) -> ColumnElement[UtcInstant]:
        """The present as ticks of 100 ns, to compare with InstantTicks; the same throughout one statement."""
        ...

    def ticks_after(self, seconds: float) -> ColumnElement[UtcInstant]:
        """The present plus `seconds` (may be negative) as ticks."""
        ...


class DatabaseClock:
    """The present as the database says it when the statement begins."""

    def now(self) -> ColumnElement[datetime]:
        """The present."""
        return _StatementTime(0.0)

    def after(self, seconds: float) -> ColumnElement[datetime]:
        """The present plus `seconds`."""
        return _StatementTime(seconds)

    def now_ticks(self) -> ColumnElement[UtcInstant]:
        """The present as ticks; to the microsecond, on SQLite to the millisecond."""
        return _StatementTicks(0.0)

    def ticks_after(self, seconds: float) -> ColumnElement[UtcInstant]:
        """The present plus `seconds` as ticks."""
        return _StatementTicks(seconds)


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

    def now_ticks(self) -> ColumnElement[UtcInstant]:
        """The pinned moment as ticks, asked when the statement is executed."""
        return self.ticks_after(0.0)

    def ticks_after(self, seconds: float) -> ColumnElement[UtcInstant]:
        """The moment at which the statement is executed, plus `seconds`, as ticks."""
        later = ticks_of(seconds)
        return _PinnedTicks(lambda: UtcInstant(UtcInstant.from_datetime(self.moment).ticks + later))

    def advance(self, seconds: float) -> None:
        """Move the clock on by `seconds`."""
        self.moment += timedelta(seconds=seconds)


def read_clock(connection: Connection, clock: OperationalClock) -> datetime:
    """The present by `clock`, as an aware datetime; one statement."""
    moment: datetime = connection.execute(select(clock.now())).scalar_one()
    return moment


def read_ticks(connection: Connection, clock: OperationalClock) -> UtcInstant:
    """The present by `clock`, as an instant; one statement."""
    instant: UtcInstant = connection.execute(select(clock.now_ticks())).scalar_one()
    return instant


def ticks_of(seconds: float) -> int:
    """How many ticks `seconds` are, rounded to the nearest."""
    return round(seconds * TICKS_PER_SECOND)


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


class _StatementTicks(FunctionElement[UtcInstant]):
    """Statement time in ticks plus a bound number of them; compiled for each database below."""

    type = InstantTicks()
    inherit_cache = True
    name = "statement_ticks"

    def __init__(self, seconds: float) -> None:
        super().__init__(literal(ticks_of(seconds), BigInteger()))


class _PinnedTicks(FunctionElement[UtcInstant]):
    """A bound instant that is asked for when the statement is executed."""

    type = InstantTicks()
    inherit_cache = True
    name = "pinned_ticks"

    def __init__(self, instant: Callable[[], UtcInstant]) -> None:
        super().__init__(bindparam("pinned_ticks", callable_=instant, type_=InstantTicks(), unique=True))


@compiles(_PinnedTicks)
def _bound_ticks(element: _PinnedTicks, compiler: Any, **options: Any) -> str:
    return str(compiler.process(element.clauses, **options))


@compiles(_StatementTicks)
def _refuse_ticks(element: _StatementTicks, compiler: Any, **options: Any) -> str:
    raise UnsupportedDatabaseError(f"no clock is known for database {compiler.dialect.name!r}")


@compiles(_StatementTicks, "postgresql")
def _postgresql_ticks(element: _StatementTicks, compiler: Any, **options: Any) -> str:
    later = compiler.process(element.clauses, **options)
    # Whole microseconds fit a double exactly, ticks would not (before version 14 this is a double).
    microseconds = "CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint)"
    return f"({microseconds} * 10 + {UNIX_EPOCH_TICKS} + CAST({later} AS bigint))"


@compiles(_StatementTicks, "mysql")
@compiles(_StatementTicks, "mariadb")
def _mysql_ticks(element: _StatementTicks, compiler: Any, **options: Any) -> str:
    later = compiler.process(element.clauses, **options)
    microseconds = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
    return f"({microseconds} * 10 + {UNIX_EPOCH_TICKS} + ({later}))"


@compiles(_StatementTicks, "sqlite")
def _sqlite_ticks(element: _StatementTicks, compiler: Any, **options: Any) -> str:
    later = compiler.process(element.clauses, **options)
    seconds = "CAST(strftime('%s', 'now') AS INTEGER)"
    milliseconds = "CAST(substr(strftime('%f', 'now'), 4) AS INTEGER)"
    return f"(({seconds} * 1000 + {milliseconds}) * 10000 + {UNIX_EPOCH_TICKS} + ({later}))"
