"""How handlers run on a database that lets one transaction write at a time (SQLite)."""

from dataclasses import replace
from typing import Final

from inbox.options import InboxOptions
from uow.loop.slots import Slots
from uow.sql.dialect import Database

_SHARE_OF_THE_LEASE: Final = 0.9


def slots_for(database: Database) -> Slots | None:
    """What all consumers of a process share: one slot on a single writer, nothing elsewhere.

    Handlers that wait there for the write lock would use up their leases and attempts for nothing.
    """
    return Slots(1) if database.single_writer else None


def fit_to_lease(options: InboxOptions, database: Database) -> InboxOptions:
    """These options; on a single writer with a processing timeout within the lease.

    While a handler holds the write lock no lease can be renewed, so it is cancelled before its own runs
    out: that is a timeout, told as one, and not a lost lease.
    """
    if not database.single_writer:
        return options
    limit = options.lease_seconds * _SHARE_OF_THE_LEASE
    return replace(options, processing_timeout_seconds=min(options.processing_timeout_seconds, limit))
