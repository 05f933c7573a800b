"""The outbox store: every verb on stored events, as one documented contract."""

from collections.abc import Collection, Sequence
from uuid import UUID

from sqlalchemy import Connection, Table

from outbox.append import AppendReport, append
from outbox.claim import claim
from outbox.claimed import Claim
from outbox.cleanup import cleanup
from outbox.counts import counts
from outbox.failure import (
    DiscardResult,
    FailedEvent,
    FailedEventCursor,
    FailedEventFilter,
    OutboxCounts,
    OutboxRecord,
    ReplayResult,
)
from outbox.ground import Ground
from outbox.listing import count_failed, find, list_failed
from outbox.options import BATCH_LIMIT, OutboxOptions
from outbox.renew import renew
from outbox.replay import discard, replay, schedule_again
from outbox.settle import settle
from outbox.settlement import Settlement, SettleReport
from outbox.suspect import bury_suspects, claim_suspect
from uow.message import Message
from uow.sql.clock import DatabaseClock, OperationalClock


class OutboxStore:
    """The verbs on stored events. Each takes an open connection and leaves its transaction to the caller.

    Relays run a verb in a short transaction of its own: `await run_step(engine, lambda connection:
    store.claim(connection))`. Every verb takes a constant number of statements for any number of rows up
    to 1000. A row is ours while it carries our token and the lease has not expired, by the database's
    clock; at exactly the expiry it is lost. One store serves any number of threads and tasks.
    """

    def __init__(
        self,
        table: Table,
        *,
        options: OutboxOptions | None = None,
        clock: OperationalClock | None = None,
    ) -> None:
        self._ground = Ground(table, options or OutboxOptions(), clock or DatabaseClock())

    @property
    def options(self) -> OutboxOptions:
        """The options it was built with."""
        return self._ground.options

    def append(self, connection: Connection, messages: Sequence[Message]) -> AppendReport:
        """Store events in the caller's transaction, due at once; one statement when all are new.

        An event whose id is stored with equal content is absorbed; so is one that another transaction is
        just inserting, once that has committed. None of this aborts the transaction. Raises
        EventConflictError for an id with other content, within `messages` or stored; the transaction must
        then be rolled back, since some of the events may be added already.
        """
        return append(connection, self._ground, messages)

    def claim(self, connection: Connection, *, limit: int | None = None) -> Claim:
        """Lease up to `limit` (1 to 1000, default `batch_size`) due rows, oldest first, for one relay.

        Due are pending rows whose time has come and publishing rows whose lease has expired. Left out are
        rows that others are claiming at this moment, suspects (see `claim_suspect`), and rows behind an
        earlier unfinished or dead-lettered one of their ordering key: of one key, one row at a time.
        Two claims at once share nothing and neither waits for the other, except on SQLite, which has one
        writer at a time.
        """
        wanted = self.options.batch_size if limit is None else limit
        return claim(connection, self._ground, _checked(wanted, BATCH_LIMIT))

    def claim_suspect(self, connection: Connection) -> Claim:
        """Lease one suspect: a row that was claimed `isolate_after` times in a row without any verdict.

        Publish it alone: whatever kills the relay then harms nothing else.
        """
        return claim_suspect(connection, self._ground)

    def bury_suspects(self, connection: Connection) -> list[UUID]:
        """Dead-letter, as `relay_died`, rows claimed `options.bury_after` times in a row without verdict.

        Returns the event ids of at most 100; call it before `claim_suspect`.
        """
        return bury_suspects(connection, self._ground)

    def renew(self, connection: Connection, token: UUID, sequences: Collection[int]) -> frozenset[int]:
        """Prolong the leases of these rows to `lease_seconds` from now; returns those that were lost."""
        return renew(connection, self._ground, token, sequences)

    def settle(self, connection: Connection, token: UUID, settlements: Sequence[Settlement]) -> SettleReport:
        """Write what became of claimed rows; one statement for each kind of settlement.

        Rows that are ours no longer are left as they are and reported as lost. A RETRY beyond
        `max_retry_attempts` dead-letters the row. Publishing a row makes the next of its ordering key due.
        Raises ValueError when a row is named twice.
        """
        return settle(connection, self._ground, token, settlements)

    def replay(self, connection: Connection, event_ids: Sequence[UUID]) -> dict[UUID, ReplayResult]:
        """Make dead-lettered events pending again: due now, no failures, same identity and payload.

        Of two replays at once, one is accepted. Whether the payload can still be read is the caller's to
        check first.
        """
        return replay(connection, self._ground, event_ids)

    def discard(self, connection: Connection, event_ids: Sequence[UUID]) -> dict[UUID, DiscardResult]:
        """Mark dead-lettered events as resolved: the rows stay, and their ordering keys go on."""
        return discard(connection, self._ground, event_ids)

    def schedule_again(self, connection: Connection, message: Message) -> None:
        """Have an event published once more, whatever became of it: added if it is gone, else reset.

        A publisher in flight is fenced off: its settlement will be reported lost. Raises EventConflictError
        when other content is stored under the id.
        """
        schedule_again(connection, self._ground, message)

    def list_failed(
        self,
        connection: Connection,
        filter: FailedEventFilter | None = None,  # noqa: A002 - the word of the callers
        cursor: FailedEventCursor | None = None,
        limit: int = 100,
    ) -> Sequence[FailedEvent]:
        """Dead-lettered events, the latest failure first, at most `limit` (1 to 1000).

        Pages go by (failed at, event id): give the `cursor` of the last event of a page to get the next.
        Events that fail while one pages do not appear; those replayed meanwhile shift nothing.
        """
        only = filter or FailedEventFilter()
        return list_failed(connection, self._ground, only, cursor, _checked(limit, BATCH_LIMIT))

    def count_failed(
        self,
        connection: Connection,
        filter: FailedEventFilter | None = None,  # noqa: A002 - the word of the callers
    ) -> int:
        """How many dead-lettered events match."""
        return count_failed(connection, self._ground, filter or FailedEventFilter())

    def find(self, connection: Connection, event_id: UUID) -> OutboxRecord | None:
        """The row of an event as it stands, or None."""
        return find(connection, self._ground, event_id)

    def counts(self, connection: Connection) -> OutboxCounts:
        """How many events wait in each state; two statements that do not read published rows."""
        return counts(connection, self._ground)

    def cleanup(self, connection: Connection, *, limit: int = 1000) -> int:
        """Delete up to `limit` (1 to 10000) published rows older than `published_retention_seconds`.

        Returns how many; call again while it is `limit`. Unfinished, dead-lettered and discarded rows stay.
        """
        return cleanup(connection, self._ground, _checked(limit, 10 * BATCH_LIMIT))


def _checked(limit: int, most: int) -> int:
    if type(limit) is not int or not 1 <= limit <= most:
        raise ValueError(f"limit must be between 1 and {most}, not {limit!r}")
    return limit
