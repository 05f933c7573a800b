"""Stores how far batch jobs have come: one conditional statement moves a cursor."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, and_, select, update

from jobs.schedule.batching.position import read_position
from uow.sql.clock import DatabaseClock, OperationalClock
from uow.sql.dialect import database_of
from uow.sql.upsert import insert_unless_there


@dataclass(frozen=True, slots=True)
class CursorKey:
    """The identity of a cursor: its name and the tenant, None for nobody's in particular."""

    name: str
    tenant: str | None


@dataclass(frozen=True, slots=True)
class CursorState:
    """A cursor as it stood after one change.

    text: the position as JSON, None at the beginning. version: how many changes there were.
    """

    text: str | None
    version: int

    @property
    def position(self) -> Any:
        """The position, made anew each time; None at the beginning. Raises PositionUnreadableError."""
        return read_position(self.text)


class CursorStore:
    """The verbs of cursors; each is one or two statements."""

    def __init__(self, table: Table, *, clock: OperationalClock | None = None) -> None:
        self._table = table
        self._clock = clock or DatabaseClock()

    def find(self, connection: Connection, key: CursorKey) -> CursorState | None:
        """Where the cursor stands; None when nobody has ever asked for it."""
        columns = self._table.c
        row = connection.execute(select(columns.position, columns.version).where(self._is(key))).one_or_none()
        return None if row is None else CursorState(row[0], row[1])

    def add(self, connection: Connection, key: CursorKey) -> None:
        """Put a cursor at the beginning, unless it is there."""
        columns = self._table.c
        insert = insert_unless_there(
            database_of(connection), self._table, key=(columns.name, columns.tenant)
        ).values(
            name=key.name,
            tenant=key.tenant or "",
            position=None,
            version=0,
            changed_ticks=self._clock.now_ticks(),
        )
        connection.execute(insert)

    def advance(
        self, connection: Connection, key: CursorKey, *, seen: CursorState, text: str
    ) -> CursorState | None:
        """Move the cursor from where it was `seen`; None when it was moved by somebody else since."""
        moved = connection.execute(
            update(self._table)
            .where(self._is(key), self._table.c.version == seen.version)
            .values(position=text, version=seen.version + 1, changed_ticks=self._clock.now_ticks())
        )
        return CursorState(text, seen.version + 1) if moved.rowcount == 1 else None

    def reset(self, connection: Connection, key: CursorKey, *, text: str | None) -> bool:
        """Set the cursor whatever it is, None to the beginning; False when there is none. Runners lose it."""
        columns = self._table.c
        changed = connection.execute(
            update(self._table)
            .where(self._is(key))
            .values(position=text, version=columns.version + 1, changed_ticks=self._clock.now_ticks())
        )
        return changed.rowcount == 1

    def _is(self, key: CursorKey) -> ColumnElement[bool]:
        columns = self._table.c
        return and_(columns.name == key.name, columns.tenant == (key.tenant or ""))
