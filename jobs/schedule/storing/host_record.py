"""The hosts of schedules: who ticks, since when, with what zone data, and how far its clock is off."""

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Connection, delete, select, update

from jobs.schedule.storing.ground import ScheduleGround
from uow.sql.clock import read_ticks
from uow.sql.dialect import database_of
from uow.sql.upsert import insert_unless_there
from uow.ticks import TICKS_PER_SECOND, UtcInstant

_FORGOTTEN_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRecord:
    """A host as it last told of itself.

    zone_data: the version of its time zones. ahead_seconds: how far its clock is before the database's.
    """

    host: str
    started: UtcInstant
    ticked: UtcInstant
    zone_data: str
    ahead_seconds: float


def beat(
    connection: Connection,
    ground: ScheduleGround,
    *,
    host: str,
    zone_data: str,
    own: Callable[[], UtcInstant],
) -> None:
    """The host is alive; `own` tells the present by its own clock. Hosts silent for a day are forgotten."""
    table = ground.tables.host
    now = read_ticks(connection, ground.clock)
    # Asked right after the answer: what it takes to reach a busy database says nothing about the clocks.
    values = {"ticked_ticks": now, "zone_data": zone_data, "ahead_ticks": own().ticks - now.ticks}
    told = connection.execute(update(table).where(table.c.host == host).values(values))
    if told.rowcount:
        return
    statement = insert_unless_there(database_of(connection), table, key=[table.c.host])
    connection.execute(statement, [{"host": host, "started_ticks": now, **values}])
    silent = table.c.ticked_ticks < ground.clock.ticks_after(-_FORGOTTEN_SECONDS)
    connection.execute(delete(table).where(silent))


def find_hosts(connection: Connection, ground: ScheduleGround) -> list[HostRecord]:
    """All that are known, the one that ticked last first."""
    table = ground.tables.host
    return [
        HostRecord(
            host=row.host,
            started=row.started_ticks,
            ticked=row.ticked_ticks,
            zone_data=row.zone_data,
            ahead_seconds=row.ahead_ticks / TICKS_PER_SECOND,
        )
        for row in connection.execute(select(table).order_by(table.c.ticked_ticks.desc()))
    ]


def leave(connection: Connection, ground: ScheduleGround, *, host: str) -> None:
    """The host has stopped."""
    connection.execute(delete(ground.tables.host).where(ground.tables.host.c.host == host))
