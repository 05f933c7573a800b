"""Settling: what became of claimed rows is written, one statement for each outcome."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, assert_never
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, case, literal, null

from outbox.change import change_rows
from outbox.ground import NO_LEASE, Ground
from outbox.options import BATCH_LIMIT
from outbox.ordering import make_next_due
from outbox.settlement import Settlement, SettlementKind, SettleReport
from outbox.state import OutboxState
from uow.sql.index_hint import PRIMARY

_NO_ERROR: Final = {"error_code": None, "error_detail": None}


def settle(
    connection: Connection, ground: Ground, token: UUID, settlements: Sequence[Settlement]
) -> SettleReport:
    """See OutboxStore.settle."""
    sequences = [settlement.sequence for settlement in settlements]
    if len(set(sequences)) < len(sequences):
        raise ValueError("a row is settled once; these settlements name one twice")
    done: dict[SettlementKind, list[int]] = {kind: [] for kind in SettlementKind}
    for kind in SettlementKind:
        of_kind = [settlement for settlement in settlements if settlement.kind is kind]
        for first in range(0, len(of_kind), BATCH_LIMIT):
            for settled_as, sequence in _settle_kind(
                connection, ground, token, kind, of_kind[first : first + BATCH_LIMIT]
            ):
                done[settled_as].append(sequence)
    settled = {sequence for changed in done.values() for sequence in changed}
    return SettleReport(
        published=tuple(sorted(done[SettlementKind.PUBLISHED])),
        retried=tuple(sorted(done[SettlementKind.RETRY])),
        dead_lettered=tuple(sorted(done[SettlementKind.DEAD_LETTER])),
        released=tuple(sorted(done[SettlementKind.RELEASE])),
        lost=tuple(sequence for sequence in sequences if sequence not in settled),
    )


def _settle_kind(
    connection: Connection,
    ground: Ground,
    token: UUID,
    kind: SettlementKind,
    settlements: Sequence[Settlement],
) -> list[tuple[SettlementKind, int]]:
    columns = ground.table.c
    gave_up = columns.state == OutboxState.DEAD_LETTERED.value
    rows = change_rows(
        connection,
        ground,
        where=ground.owned(connection, token, [settlement.sequence for settlement in settlements]),
        index=PRIMARY,
        values=_values(ground, kind, settlements),
        answer=[columns.sequence, columns.ordering_key, gave_up.label("gave_up")],
        foretold=[columns.sequence, columns.ordering_key, _last_try(ground).label("gave_up")],
    )
    if kind is SettlementKind.PUBLISHED:
        let_go = [row.sequence for row in rows if row.ordering_key is not None]
        if let_go:
            make_next_due(connection, ground, let_go)
    if kind is SettlementKind.RETRY:
        return [(SettlementKind.DEAD_LETTER if row.gave_up else kind, row.sequence) for row in rows]
    return [(kind, row.sequence) for row in rows]


def _last_try(ground: Ground) -> ColumnElement[bool]:
    return ground.table.c.failure_count >= ground.options.max_retry_attempts


def _values(ground: Ground, kind: SettlementKind, settlements: Sequence[Settlement]) -> dict[str, Any]:
    """Values in an order in which none reads a column that one before it has changed."""
    match kind:
        case SettlementKind.PUBLISHED:
            return {
                "state": OutboxState.PUBLISHED.value,
                **_finished(ground),
                **_NO_ERROR,
                "holding_key": None,
            }
        case SettlementKind.RETRY:
            last = _last_try(ground)
            return {
                "state": case((last, OutboxState.DEAD_LETTERED.value), else_=OutboxState.PENDING.value),
                **NO_LEASE,
                "claim_count": 0,
                "next_attempt_at": case((last, null()), else_=_due(ground, settlements)),
                "completed_at": case((last, ground.clock.now()), else_=null()),
                **_error(ground, settlements),
                "failure_count": ground.table.c.failure_count + 1,
            }
        case SettlementKind.DEAD_LETTER:
            return {
                "state": OutboxState.DEAD_LETTERED.value,
                **_finished(ground),
                **_error(ground, settlements),
                "failure_count": ground.table.c.failure_count + 1,
            }
        case SettlementKind.RELEASE:
            return {
                "state": OutboxState.PENDING.value,
                **NO_LEASE,
                "claim_count": 0,
                "next_attempt_at": _due(ground, settlements),
            }
        case _:
            assert_never(kind)


def _finished(ground: Ground) -> dict[str, Any]:
    return {
        **NO_LEASE,
        "claim_count": 0,
        "next_attempt_at": None,
        "completed_at": ground.clock.now(),
    }


def _due(ground: Ground, settlements: Sequence[Settlement]) -> ColumnElement[Any]:
    delays = {settlement.sequence: settlement.delay_seconds or 0.0 for settlement in settlements}
    return _each(ground, delays, ground.clock.after)


def _error(ground: Ground, settlements: Sequence[Settlement]) -> dict[str, Any]:
    columns = ground.table.c
    codes = {settlement.sequence: settlement.error_code for settlement in settlements}
    details = {settlement.sequence: settlement.error_detail for settlement in settlements}
    return {
        "error_code": _each(ground, codes, lambda code: literal(code, columns.error_code.type)),
        "error_detail": _each(ground, details, lambda text: literal(text, columns.error_detail.type)),
    }


def _each(
    ground: Ground, values: Mapping[int, Any], express: Callable[[Any], ColumnElement[Any]]
) -> ColumnElement[Any]:
    """For each row its own value, or just the value when all have the same."""
    distinct = set(values.values())
    if len(distinct) == 1:
        return express(distinct.pop())
    sequence = ground.table.c.sequence
    return case({each: express(value) for each, value in values.items()}, value=sequence)
