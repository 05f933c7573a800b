"""The inbox table, added to the application's MetaData."""

from typing import Any, Final

from sqlalchemy import Column, Index, Integer, MetaData, Table

from uow.errors import FixTheCodeError
from uow.sql.types import ExactLongText, ExactText, ExactUuid, InstantTicks, UtcDateTime

DUE_INDEX: Final = "ix_inbox_receipt_due"
LEASED_INDEX: Final = "ix_inbox_receipt_leased"
FINISHED_INDEX: Final = "ix_inbox_receipt_finished"

_INFO_KEY: Final = "selfmanaged.inbox"


class InboxNotMappedError(FixTheCodeError):
    """The MetaData does not hold the inbox table; call `inbox.add_inbox_table(metadata)` first."""


def add_inbox_table(metadata: MetaData, *, schema: str | None = None) -> Table:
    """Add `inbox_receipt` to the application's MetaData; a second call returns the same table.

    `schema` is the database schema, when it is not the MetaData's own. `next_attempt_at` is the moment
    from which anyone may take the receipt: its due time, or the end of the lease while it is processed;
    NULL once it is finished. `completed_at` is set when it is finished. `claim_count` counts acquisitions
    in a row without a verdict. A processed receipt keeps the token that completed it, so that a commit of
    unknown outcome can be recognized.
    """
    if _INFO_KEY in metadata.info:
        return inbox_table(metadata)
    table = Table(
        "inbox_receipt",
        metadata,
        *_columns(),
        schema=schema,
        mysql_engine="InnoDB",
        mysql_charset="utf8mb4",
    )
    columns = table.c
    _partial_index(
        DUE_INDEX, columns.next_attempt_at, columns.consumer, columns.next_attempt_at, columns.message_id
    )
    _partial_index(LEASED_INDEX, columns.lease_expires_at, columns.lease_expires_at)
    _partial_index(
        FINISHED_INDEX,
        columns.completed_at,
        columns.state,
        columns.completed_at,
        columns.message_id,
        columns.consumer,
        columns.received_at,  # for counting by the index alone
    )
    metadata.info[_INFO_KEY] = table.key
    return table


def _columns() -> list[Column[Any]]:
    return [
        Column("message_id", ExactUuid(), primary_key=True),
        Column("consumer", ExactText(200), primary_key=True),
        Column("contract_name", ExactText(200), nullable=False),
        Column("contract_version", Integer(), nullable=False),
        Column("occurred_at", InstantTicks(), nullable=False),
        Column("payload", ExactLongText(), nullable=False),
        Column("correlation_id", ExactText(200)),
        Column("traceparent", ExactText(128)),
        Column("tracestate", ExactText(512)),
        Column("state", ExactText(16), nullable=False),
        Column("lease_token", ExactUuid()),
        Column("lease_expires_at", UtcDateTime()),
        Column("attempt_count", Integer(), nullable=False, default=0),
        Column("claim_count", Integer(), nullable=False, default=0),
        Column("next_attempt_at", UtcDateTime()),
        Column("received_at", UtcDateTime(), nullable=False),
        Column("completed_at", UtcDateTime()),
        Column("error_code", ExactText(64)),
        Column("error_detail", ExactText(1000)),
    ]


def inbox_table(metadata: MetaData) -> Table:
    """The inbox table of this MetaData. Raises InboxNotMappedError when it was not added."""
    key = metadata.info.get(_INFO_KEY)
    if key is None or key not in metadata.tables:
        raise InboxNotMappedError(
            "this MetaData has no inbox table; call inbox.add_inbox_table(metadata) "
            "(or relay.add_messaging_tables(metadata)) where the application's tables are declared"
        )
    return metadata.tables[key]


def _partial_index(name: str, present: Column[Any], *columns: Column[Any]) -> None:
    """An index of the rows in which `present` is not NULL; of all rows where the database has no such."""
    rows = present.is_not(None)
    Index(name, *columns, postgresql_where=rows, sqlite_where=rows)
