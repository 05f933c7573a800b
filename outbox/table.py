"""The outbox table, added to the application's MetaData."""

from typing import Final

from sqlalchemy import Column, Index, Integer, MetaData, Table

from outbox.state import OutboxState
from uow.errors import FixTheCodeError
from uow.sql.types import ExactLongText, ExactText, ExactUuid, InstantTicks, UtcDateTime, sequence_type

EVENT_INDEX: Final = "ix_outbox_message_event_id"
DUE_INDEX: Final = "ix_outbox_message_due"
ORDERING_INDEX: Final = "ix_outbox_message_ordering"
FINISHED_INDEX: Final = "ix_outbox_message_finished"

_INFO_KEY: Final = "selfmanaged.outbox"


class OutboxNotMappedError(FixTheCodeError):
    """The MetaData does not hold the outbox table; call `outbox.add_outbox_table(metadata)` first."""


def add_outbox_table(metadata: MetaData, *, schema: str | None = None) -> Table:
    """Add `outbox_message` to the application's MetaData; a second call returns the same table.

    `schema` is the database schema, when it is not the MetaData's own.
    """
    if _INFO_KEY in metadata.info:
        return outbox_table(metadata)
    table = Table(
        "outbox_message",
        metadata,
        Column("sequence", sequence_type(), primary_key=True, autoincrement=True),
        Column("event_id", ExactUuid(), nullable=False),
        Column("contract_name", ExactText(200), nullable=False),
        Column("contract_version", Integer(), nullable=False),
        Column("occurred_at", InstantTicks(), nullable=False),
        Column("payload", ExactLongText(), nullable=False),
        Column("correlation_id", ExactText(200)),
        Column("traceparent", ExactText(128)),
        Column("tracestate", ExactText(512)),
        Column("ordering_key", ExactText(200)),
        Column("holding_key", ExactText(200)),
        Column("state", ExactText(16), nullable=False, default=OutboxState.PENDING.value),
        Column("lease_token", ExactUuid()),
        Column("lease_expires_at", UtcDateTime()),
        Column("failure_count", Integer(), nullable=False, default=0),
        Column("claim_count", Integer(), nullable=False, default=0),
        Column("next_attempt_at", UtcDateTime()),
        Column("created_at", UtcDateTime(), nullable=False),
        Column("completed_at", UtcDateTime()),
        Column("error_code", ExactText(64)),
        Column("error_detail", ExactText(1000)),
        schema=schema,
        sqlite_autoincrement=True,
        mysql_engine="InnoDB",
        mysql_charset="utf8mb4",
    )
    _add_indexes(table)
    metadata.info[_INFO_KEY] = table.key
    return table


def _add_indexes(table: Table) -> None:
    """Each index holds only rows that are in its play, by a partial index or by NULLs where there is none.

    due: unfinished rows by the moment at which anyone may claim them. `state` and `claim_count` let counts
    and the search for rows to claim read nothing else; they change only when the moment changes too.
    ordering: `holding_key` is the ordering key as long as the row holds back later rows of that key, and
    NULL once it lets go, so that finding the head of a key never reads what was published before.
    """
    columns = table.c
    unfinished = columns.next_attempt_at.is_not(None)
    finished = columns.completed_at.is_not(None)
    holding = columns.holding_key.is_not(None)
    Index(EVENT_INDEX, columns.event_id, unique=True)
    Index(
        DUE_INDEX,
        columns.next_attempt_at,
        columns.sequence,
        columns.state,
        columns.claim_count,
        postgresql_where=unfinished,
        sqlite_where=unfinished,
    )
    Index(
        FINISHED_INDEX,
        columns.state,
        columns.completed_at,
        columns.event_id,
        postgresql_where=finished,
        sqlite_where=finished,
    )
    Index(
        ORDERING_INDEX,
        columns.holding_key,
        columns.sequence,
        postgresql_where=holding,
        sqlite_where=holding,
    )


def outbox_table(metadata: MetaData) -> Table:
    """The outbox table of this MetaData. Raises OutboxNotMappedError when it was not added."""
    key = metadata.info.get(_INFO_KEY)
    if key is None or key not in metadata.tables:
        raise OutboxNotMappedError(
            "this MetaData has no outbox table; call outbox.add_outbox_table(metadata) "
            "(or relay.add_messaging_tables(metadata)) where the application's tables are declared"
        )
    return metadata.tables[key]
