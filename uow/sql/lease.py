"""Named leases: one owner at a time for work that many processes could do."""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import BigInteger, Column, ColumnElement, Connection, MetaData, Table, and_, select, update
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.sql.dml import Insert

from uow.errors import FixTheCodeError
from uow.sql.clock import DatabaseClock, OperationalClock
from uow.sql.dialect import UpsertStyle, database_of
from uow.sql.types import ExactText, UtcDateTime

_INFO_KEY: Final = "selfmanaged.lease"


class LeaseNotMappedError(FixTheCodeError):
    """The MetaData does not hold the lease table; call `add_lease_table(metadata)` first."""


def add_lease_table(metadata: MetaData, *, schema: str | None = None) -> Table:
    """Add `messaging_lease` to the application's MetaData; a second call returns the same table.

    `schema` is the database schema, when it is not the MetaData's own.
    """
    if _INFO_KEY in metadata.info:
        return lease_table(metadata)
    table = Table(
        "messaging_lease",
        metadata,
        Column("name", ExactText(200), primary_key=True),
        Column("owner", ExactText(200), nullable=False),
        Column("fencing_token", BigInteger(), nullable=False),
        Column("expires_at", UtcDateTime(), nullable=False),
        schema=schema,
        mysql_engine="InnoDB",
        mysql_charset="utf8mb4",
    )
    metadata.info[_INFO_KEY] = table.key
    return table


def lease_table(metadata: MetaData) -> Table:
    """The lease table of this MetaData. Raises LeaseNotMappedError when it was not added."""
    key = metadata.info.get(_INFO_KEY)
    if key is None or key not in metadata.tables:
        raise LeaseNotMappedError(
            "this MetaData has no lease table; call uow.sql.lease.add_lease_table(metadata) "
            "(or relay.add_messaging_tables(metadata)) where the application's tables are declared"
        )
    return metadata.tables[key]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A lease as it was acquired. `fencing_token` grows with each acquisition of that name, for ever."""

    name: str
    owner: str
    fencing_token: int


class LeaseStore:
    """Acquires, renews and releases named leases; each in a constant number of statements.

    A lease is held while its row carries the owner and token and has not expired; at exactly the expiry
    it is lost. The row stays after a release, so that the token never goes back.
    """

    def __init__(self, table: Table, *, clock: OperationalClock | None = None) -> None:
        self._table = table
        self._clock = clock or DatabaseClock()

    def acquire(self, connection: Connection, name: str, *, owner: str, lease_seconds: float) -> Lease | None:
        """The lease, when it is free, expired or was never taken; None while anyone holds it."""
        columns = self._table.c
        expires_at = self._clock.after(lease_seconds)
        taken = connection.execute(
            update(self._table)
            .where(columns.name == name, columns.expires_at <= self._clock.now())
            .values(owner=owner, fencing_token=columns.fencing_token + 1, expires_at=expires_at)
        )
        if taken.rowcount == 1:
            token = connection.execute(select(columns.fencing_token).where(columns.name == name)).scalar_one()
            return Lease(name=name, owner=owner, fencing_token=token)
        # Asked first: MySQL's drivers log a warning for each insert that finds a row.
        if connection.scalar(select(columns.name).where(columns.name == name)) is not None:
            return None
        added = connection.execute(
            self._insert_unless_there(connection).values(
                name=name, owner=owner, fencing_token=1, expires_at=expires_at
            )
        )
        return Lease(name=name, owner=owner, fencing_token=1) if added.rowcount == 1 else None

    def renew(self, connection: Connection, lease: Lease, *, lease_seconds: float) -> bool:
        """Prolong a lease that is still held, to `lease_seconds` from now; False when it was lost."""
        renewed = connection.execute(
            update(self._table).where(self._held(lease)).values(expires_at=self._clock.after(lease_seconds))
        )
        return renewed.rowcount == 1

    def release(self, connection: Connection, lease: Lease) -> bool:
        """Give the lease up now; False when it was lost before."""
        released = connection.execute(
            update(self._table).where(self._held(lease)).values(expires_at=self._clock.now())
        )
        return released.rowcount == 1

    def holder(self, connection: Connection, name: str) -> tuple[str, int] | None:
        """Who holds it now, and the fencing token; None when nobody does. It may change at once."""
        columns = self._table.c
        held = select(columns.owner, columns.fencing_token).where(
            columns.name == name, columns.expires_at > self._clock.now()
        )
        row = connection.execute(held).one_or_none()
        return None if row is None else (row[0], row[1])

    def _held(self, lease: Lease) -> ColumnElement[bool]:
        columns = self._table.c
        return and_(
            columns.name == lease.name,
            columns.owner == lease.owner,
            columns.fencing_token == lease.fencing_token,
            columns.expires_at > self._clock.now(),
        )

    def _insert_unless_there(self, connection: Connection) -> Insert:
        match database_of(connection).upsert:
            case UpsertStyle.ON_DUPLICATE_KEY:
                return mysql.insert(self._table).prefix_with("IGNORE")
            case UpsertStyle.ON_CONFLICT if database_of(connection).single_writer:
                return sqlite.insert(self._table).on_conflict_do_nothing()
            case UpsertStyle.ON_CONFLICT:
                return postgresql.insert(self._table).on_conflict_do_nothing()
