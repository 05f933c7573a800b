"""What operators do with rows: replay, discard, and scheduling an event again for the inbox."""

from collections.abc import Sequence
from typing import Any, TypeVar
from uuid import UUID

from sqlalchemy import Connection, and_, select

from outbox.append import append
from outbox.change import change_rows
from outbox.failure import DiscardResult, ReplayResult
from outbox.ground import NO_LEASE, Ground
from outbox.ordering import make_next_due
from outbox.state import OutboxState
from outbox.table import EVENT_INDEX
from uow.message import Message

Result = TypeVar("Result", ReplayResult, DiscardResult)


def replay(connection: Connection, ground: Ground, event_ids: Sequence[UUID]) -> dict[UUID, ReplayResult]:
    """See OutboxStore.replay."""
    accepted = _change_dead(connection, ground, event_ids, _due_again(ground))
    return _results(connection, ground, event_ids, set(accepted), ReplayResult)


def discard(connection: Connection, ground: Ground, event_ids: Sequence[UUID]) -> dict[UUID, DiscardResult]:
    """See OutboxStore.discard."""
    values = {
        "state": OutboxState.DISCARDED.value,
        "holding_key": None,
        "completed_at": ground.clock.now(),
    }
    accepted = _change_dead(connection, ground, event_ids, values)
    let_go = [sequence for sequence, key in accepted.values() if key is not None]
    if let_go:
        make_next_due(connection, ground, let_go)
    return _results(connection, ground, event_ids, set(accepted), DiscardResult)


def schedule_again(connection: Connection, ground: Ground, message: Message) -> None:
    """See OutboxStore.schedule_again."""
    if append(connection, ground, [message]).added:
        return
    table = ground.table
    change_rows(
        connection,
        ground,
        where=table.c.event_id == message.id,
        index=EVENT_INDEX,
        values=_due_again(ground),
        answer=[table.c.event_id],
    )


def _due_again(ground: Ground) -> dict[str, Any]:
    """A row as it was when it was enqueued, due now; whoever held it has lost it with the token."""
    return {
        "state": OutboxState.PENDING.value,
        "holding_key": ground.table.c.ordering_key,
        **NO_LEASE,
        "failure_count": 0,
        "claim_count": 0,
        "next_attempt_at": ground.clock.now(),
        "completed_at": None,
        "error_code": None,
        "error_detail": None,
    }


def _change_dead(
    connection: Connection, ground: Ground, event_ids: Sequence[UUID], values: dict[str, Any]
) -> dict[UUID, tuple[int, str | None]]:
    columns = ground.table.c
    dead = and_(columns.event_id.in_(set(event_ids)), columns.state == OutboxState.DEAD_LETTERED.value)
    rows = change_rows(
        connection,
        ground,
        where=dead,
        index=EVENT_INDEX,
        values=values,
        answer=[columns.event_id, columns.sequence, columns.ordering_key],
    )
    return {row.event_id: (row.sequence, row.ordering_key) for row in rows}


def _results(
    connection: Connection,
    ground: Ground,
    event_ids: Sequence[UUID],
    accepted: set[UUID],
    kind: type[Result],
) -> dict[UUID, Result]:
    others = [event_id for event_id in event_ids if event_id not in accepted]
    event_id = ground.table.c.event_id
    found: set[UUID] = set()
    if others:
        found = set(connection.execute(select(event_id).where(event_id.in_(others))).scalars())
    refused = {each: kind.INVALID_STATE if each in found else kind.NOT_FOUND for each in others}
    return {each: kind.ACCEPTED if each in accepted else refused[each] for each in event_ids}
