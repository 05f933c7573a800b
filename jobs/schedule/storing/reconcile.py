"""Reconciling stored schedules with what is declared: at each start of a host."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Integer, Select, Update, and_, select, type_coerce
from sqlalchemy.engine import RowMapping
from sqlalchemy.sql.dml import Insert
from sqlalchemy.types import BigInteger, TypeEngine

from jobs.schedule.occurrence.trigger import Trigger
from jobs.schedule.storing.action import Action, ActionKind, record_actions
from jobs.schedule.storing.ground import ScheduleGround
from jobs.schedule.storing.table import NAME_UNITS, TRIGGER_UNITS
from uow.loop.chore import owner_name
from uow.sql.change_given import change_given
from uow.sql.clock import read_ticks
from uow.sql.dialect import Database, database_of
from uow.sql.given import Given, given_rows
from uow.sql.types import ExactText, InstantTicks
from uow.sql.upsert import insert_unless_there
from uow.ticks import UtcInstant

_PORTION: Final = 500
_COLUMNS: Final[dict[str, TypeEngine[Any]]] = {
    "name": ExactText(NAME_UNITS),
    "fencing_number": BigInteger(),
    "module": ExactText(200),
    "trigger_text": ExactText(TRIGGER_UNITS),
    "override_source": ExactText(200),
    "declared": Integer(),
    "enabled": Integer(),
    "critical": Integer(),
    "next_fire_ticks": BigInteger(),
    "waiting_nominal_ticks": BigInteger(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredSchedule:
    """A schedule as this deployment declares it, overrides applied. trigger: None when it has none."""

    name: str
    module: str
    trigger: Trigger | None
    enabled: bool
    critical: bool
    override_source: str | None

    @property
    def trigger_text(self) -> str | None:
        """What is stored to notice a change of the trigger."""
        return None if self.trigger is None else self.trigger.describe()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciled:
    """What a reconciliation changed, by name."""

    declared: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


def reconcile(
    connection: Connection, ground: ScheduleGround, declared: Sequence[DeclaredSchedule], *, host: str
) -> Reconciled:
    """See ScheduleStore.reconcile."""
    now = read_ticks(connection, ground.clock)
    stored = _stored(connection, ground)
    by_name = {each.name: each for each in declared}
    missing = [each for each in declared if each.name not in stored]
    new = _insert(connection, ground, missing, now, host)
    # Another host may have stored, fired or reconciled some meanwhile: they are read again, and locked.
    doubtful = {each.name for each in missing} - new
    doubtful |= {name for name, row in stored.items() if _is_out_of_line(by_name.get(name), row)}
    locked = _locked(connection, ground, sorted(doubtful))
    rows = {name: row for name, row in locked.items() if _is_out_of_line(by_name.get(name), row)}
    changed = [name for name in rows if name in by_name]
    removed = [name for name in rows if name not in by_name]
    changes = [_changed_row(by_name[name], rows[name], now) for name in changed]
    _change(connection, ground, changes + [_removed_row(rows[name]) for name in removed])
    done = Reconciled(declared=tuple(sorted(new)), changed=tuple(changed), removed=tuple(removed))
    _tell(connection, ground, by_name, done, host)
    return done


def add_schedule(
    connection: Connection, ground: ScheduleGround, declared: DeclaredSchedule, *, actor: str
) -> None:
    """Store one that is declared and not stored yet; one that is stored stays as it is."""
    columns = ground.tables.schedule.c
    if connection.scalar(select(columns.name).where(columns.name == declared.name)) is not None:
        return
    # By a name that is no one else's, as that of a host is: two operators may be one and the same person.
    new = _insert(connection, ground, [declared], read_ticks(connection, ground.clock), owner_name())
    _tell(connection, ground, {declared.name: declared}, Reconciled(declared=tuple(new)), actor)


def next_slot(
    declared_trigger: Trigger | None, now: UtcInstant, last: UtcInstant | None
) -> UtcInstant | None:
    """The first slot after now that is also after the last one that was decided."""
    if declared_trigger is None:
        return None
    return declared_trigger.next_after(now if last is None or last < now else last)


def _stored(connection: Connection, ground: ScheduleGround) -> dict[str, RowMapping]:
    rows = connection.execute(select(ground.tables.schedule)).mappings()
    return {row["name"]: row for row in rows}


def _locked(connection: Connection, ground: ScheduleGround, names: Sequence[str]) -> dict[str, RowMapping]:
    """The rows of these names as they are now, which nobody else changes from now on."""
    given, query = ground.built(_lock, database_of(connection))
    found: dict[str, RowMapping] = {}
    for portion in _portions([(name,) for name in names]):
        rows = connection.execute(query, given.parameters(portion)).mappings()
        found.update((row["name"], row) for row in rows)
    return found


def _is_out_of_line(wanted: DeclaredSchedule | None, row: RowMapping) -> bool:
    if wanted is None:
        return bool(row["declared"])
    return _facts(wanted) != tuple(
        row[name] for name in ("module", "trigger_text", "override_source", "declared", "enabled", "critical")
    )


def _facts(wanted: DeclaredSchedule) -> tuple[Any, ...]:
    return (
        wanted.module,
        wanted.trigger_text,
        wanted.override_source,
        1,
        int(wanted.enabled),
        int(wanted.critical),
    )


def _insert(
    connection: Connection,
    ground: ScheduleGround,
    new: Sequence[DeclaredSchedule],
    now: UtcInstant,
    host: str,
) -> set[str]:
    """The names of those that were not stored; another host may be storing the same."""
    table = ground.tables.schedule
    statement: Insert = insert_unless_there(database_of(connection), table, key=[table.c.name])
    names = ("module", "trigger_text", "override_source", "declared", "enabled", "critical")
    zeros = dict.fromkeys(("paused", "fired_count", "misfired_count", "overlapped_count"), 0)
    rows = [
        {
            "name": each.name,
            **dict(zip(names, _facts(each), strict=True)),
            **zeros,
            "fencing_number": 1,
            "next_fire_ticks": next_slot(each.trigger, now, None) if each.enabled else None,
            "host": host,
            "changed_ticks": now,
        }
        for each in new
    ]
    if not rows:
        return set()
    for portion in _portions(rows):
        connection.execute(statement, portion)
    ours = select(table.c.name).where(table.c.fencing_number == 1, table.c.host == host)
    return {each.name for each in new} & set(connection.execute(ours).scalars())


def _change(connection: Connection, ground: ScheduleGround, rows: Sequence[tuple[Any, ...]]) -> None:
    given, statement = ground.built(_statement, database_of(connection))
    for portion in _portions(rows):
        connection.execute(statement, given.parameters(portion))


def _changed_row(wanted: DeclaredSchedule, row: RowMapping, now: UtcInstant) -> tuple[Any, ...]:
    """A new slot where the trigger or its being in force changed; else the stored one stays."""
    same = wanted.trigger_text == row["trigger_text"] and row["declared"] and wanted.enabled == row["enabled"]
    slot: UtcInstant | None = row["next_fire_ticks"]
    if not same:
        idle = not wanted.enabled or row["paused"]
        slot = None if idle else next_slot(wanted.trigger, now, row["last_nominal_ticks"])
    waiting: UtcInstant | None = row["waiting_nominal_ticks"] if wanted.enabled else None
    return (
        wanted.name,
        row["fencing_number"],
        *_facts(wanted),
        None if slot is None else slot.ticks,
        None if waiting is None else waiting.ticks,
    )


def _removed_row(row: RowMapping) -> tuple[Any, ...]:
    facts = (row["module"], row["trigger_text"], row["override_source"], 0, 0, row["critical"])
    return (row["name"], row["fencing_number"], *facts, None, None)


def _tell(
    connection: Connection,
    ground: ScheduleGround,
    wanted: Mapping[str, DeclaredSchedule],
    done: Reconciled,
    host: str,
) -> None:
    kinds = (
        (ActionKind.DECLARED, done.declared),
        (ActionKind.CHANGED, done.changed),
        (ActionKind.REMOVED, done.removed),
    )
    actions = [_action(wanted.get(name), name, kind, host) for kind, names in kinds for name in names]
    record_actions(connection, ground, actions)


def _action(found: DeclaredSchedule | None, name: str, kind: ActionKind, host: str) -> Action:
    detail = None
    if found is not None:
        detail = f"{found.trigger_text or 'no trigger'}{'' if found.enabled else ', disabled'}"
        detail += "" if found.override_source is None else f", overridden by {found.override_source}"
    return Action(name=name, kind=kind, actor=host, detail=detail)


def _portions(rows: Sequence[Any]) -> Iterable[list[Any]]:
    return (list(rows[first : first + _PORTION]) for first in range(0, len(rows), _PORTION))


def _lock(ground: ScheduleGround, database: Database, _: None) -> tuple[Given, Select[*tuple[Any, ...]]]:
    given, table = given_rows(database, {"name": ExactText(NAME_UNITS)}), ground.tables.schedule
    named = table.c.name == given.c["name"]
    # An outer join, so that MySQL looks up, and locks, these rows alone.
    query = select(table).select_from(given.source.outerjoin(table, named)).where(table.c.name.is_not(None))
    if database.update_returning:
        query = select(table).join_from(given.source, table, named)
    return given, query.order_by(table.c.name).with_for_update(of=table)


def _statement(ground: ScheduleGround, database: Database, _: None) -> tuple[Given, Update]:
    given, table = given_rows(database, _COLUMNS), ground.tables.schedule
    named = and_(table.c.name == given.c["name"], table.c.fencing_number == given.c["fencing_number"])
    values: dict[str, Any] = {
        name: type_coerce(given.c[name], InstantTicks()) if name.endswith("_ticks") else given.c[name]
        for name in _COLUMNS
        if name not in {"name", "fencing_number"}
    }
    values |= {"fencing_number": table.c.fencing_number + 1, "changed_ticks": ground.clock.now_ticks()}
    return given, change_given(given, table, named, values)
