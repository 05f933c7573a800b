"""One claim of an executor, as a step of its own."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection

from jobs.answer import StartReport
from jobs.execution.queue_shares import QueueShare
from jobs.options import BATCH_LIMIT
from jobs.store import JobStore
from uow.sql.lease import LeaseStore

_NOTHING: Final = StartReport()
_LONGEST_WAIT_SECONDS: Final = 3600.0
"""Who waits for the row compares its lease with the moment at which the wait began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimer:
    """Claims jobs for one executor.

    handlers: names and versions of those it has; jobs of others are put off.
    """

    store: JobStore
    leases: LeaseStore
    owner: str
    handlers: Collection[tuple[str, int]]
    put_off_seconds: float

    def claim(self, connection: Connection, share: QueueShare) -> StartReport:
        """What was started and put off of this share."""
        if share.limit_everywhere is None:
            return self._start(connection, share, share.limit)
        # A lease that is over already holds its row until the end of this transaction: whoever claims from
        # this queue at the same moment waits for that, and then counts what was started here.
        name = f"claims of queue {share.queues[0]}"
        if (
            self.leases.acquire(connection, name, owner=self.owner, lease_seconds=-_LONGEST_WAIT_SECONDS)
            is None
        ):
            return _NOTHING
        running = self.store.running(connection).get(share.queues[0], 0)
        room = min(share.limit, share.limit_everywhere - running)
        return self._start(connection, share, room) if room > 0 else _NOTHING

    def _start(self, connection: Connection, share: QueueShare, limit: int) -> StartReport:
        return self.store.start_many(
            connection,
            share.queues,
            limit=min(limit, BATCH_LIMIT),
            owner=self.owner,
            handlers=self.handlers,
            put_off_seconds=self.put_off_seconds,
        )
