"""The inbox in a few verbs. Each is a contract; behind it stands one conditional statement for any batch."""

from collections.abc import Collection, Mapping, Sequence
from uuid import UUID, uuid4

from sqlalchemy import Connection, Table

from inbox.acquire import acquire
from inbox.acquisition import Acquisition, RecordReport
from inbox.claim import bury, claim, claim_suspect
from inbox.cleanup import cleanup
from inbox.counts import counts
from inbox.ground import Ground
from inbox.lease import release, renew
from inbox.listing import count_failed, find, list_failed
from inbox.options import InboxOptions
from inbox.receipt import AcquiredReceipt, ReceiptKey, ReceiptLease
from inbox.record import record
from inbox.replay import discard, reset
from inbox.settle import Completion, complete, dead_letter, fail, fate
from inbox.view import (
    FailedReceiptCursor,
    FailedReceiptFilter,
    InboxCounts,
    LeaseFate,
    OperationAnswer,
    ReceiptRecord,
    ResetReport,
)
from uow.message import Message
from uow.sql.clock import DatabaseClock, OperationalClock


class InboxStore:
    """Receipts of one inbox table. Call the verbs inside a transaction, as `run_step` gives one.

    It holds no state: one instance serves every task and thread. A lease is held while the row carries
    its token, is in state processing and has not expired by the database's clock; at exactly the expiry
    it is lost. Verbs that end an attempt change nothing without the lease and say so.
    """

    def __init__(
        self, table: Table, *, options: InboxOptions | None = None, clock: OperationalClock | None = None
    ) -> None:
        self._ground = Ground(table, options or InboxOptions(), clock or DatabaseClock())

    def acquire(
        self,
        connection: Connection,
        consumer: str,
        messages: Sequence[Message],
        *,
        token: UUID | None = None,
    ) -> list[Acquisition]:
        """One answer per message, in their order; the acquired ones are leased to `token`.

        A new message is stored and acquired, a due receipt or one whose lease expired is taken over; each
        acquisition counts as an attempt. A message that comes twice in one call is BUSY the second time
        (CONFLICT when its content differs). `token` must never have been used before; one is made when
        none is given. Two statements at most for any number of messages (three on MySQL).
        """
        return acquire(connection, self._ground, consumer=consumer, messages=messages, token=token or uuid4())

    def record(self, connection: Connection, deliveries: Sequence[tuple[str, Message]]) -> RecordReport:
        """Store a receipt for each pair of consumer and message, due now, without acquiring it.

        The hand-over of `local:`, made in the transaction that settles the outbox. A receipt that is
        there with equal content absorbs it, whatever its state; other content is reported, untouched.
        """
        return record(connection, self._ground, deliveries)

    def claim(
        self,
        connection: Connection,
        consumers: Collection[str] | Mapping[str, int],
        *,
        limit: int,
        token: UUID | None = None,
    ) -> list[AcquiredReceipt]:
        """Acquire up to `limit` due receipts of these consumers, the longest due first.

        Due are those handed over, retries whose time has come and those whose lease expired; suspects
        are left to `claim_suspect`. A mapping says how many at most for each consumer. Rows locked by
        others are skipped where the database can, so two claims at once share nothing and never wait.
        """
        shares = consumers if isinstance(consumers, Mapping) else dict.fromkeys(consumers, limit)
        return claim(connection, self._ground, shares, limit=limit, token=token or uuid4())

    def claim_suspect(
        self, connection: Connection, consumers: Collection[str], *, token: UUID | None = None
    ) -> AcquiredReceipt | None:
        """Acquire the one suspect that is due longest, or None. Run it while nothing else runs.

        A suspect was acquired `isolate_after` times in a row without any verdict: it may be the message
        that kills its process. Call `bury` first, so that none is run for ever.
        """
        return claim_suspect(connection, self._ground, consumers, token=token or uuid4())

    def bury(self, connection: Connection, consumer: str, *, max_retry_attempts: int) -> list[ReceiptKey]:
        """Dead-letter (`process_died`) what used up its attempts and whose lease expired; returns which."""
        return bury(connection, self._ground, consumer, max_retry_attempts=max_retry_attempts)

    def renew(self, connection: Connection, leases: Collection[ReceiptLease]) -> frozenset[ReceiptLease]:
        """Prolong all leases that are still held to `lease_seconds` from now; returns those that are lost."""
        return renew(connection, self._ground, leases)

    def complete(self, connection: Connection, lease: ReceiptLease) -> Completion | None:
        """Processed. Call it in the transaction of the effects; commit nothing when it says None (lost)."""
        return complete(connection, self._ground, lease)

    def fail(
        self,
        connection: Connection,
        lease: ReceiptLease,
        *,
        error_code: str,
        error_detail: str | None = None,
        delay_seconds: float,
    ) -> bool:
        """Schedule the next attempt in `delay_seconds`; False when the lease was lost."""
        return fail(
            connection,
            self._ground,
            lease,
            error_code=error_code,
            error_detail=error_detail,
            delay_seconds=delay_seconds,
        )

    def dead_letter(
        self,
        connection: Connection,
        lease: ReceiptLease,
        *,
        error_code: str,
        error_detail: str | None = None,
    ) -> bool:
        """Give it up until an operator replays or discards it; False when the lease was lost."""
        return dead_letter(connection, self._ground, lease, error_code=error_code, error_detail=error_detail)

    def release(
        self, connection: Connection, leases: Collection[ReceiptLease], *, delay_seconds: float = 0.0
    ) -> frozenset[ReceiptLease]:
        """Give back unfinished receipts without counting the attempt; due again in `delay_seconds`.

        Returns those whose lease was lost before.
        """
        return release(connection, self._ground, leases, delay_seconds=delay_seconds)

    def fate(self, connection: Connection, lease: ReceiptLease) -> LeaseFate:
        """What became of `lease`; waits for a transaction that is just ending it."""
        return fate(connection, self._ground, lease)

    def reset(self, connection: Connection, key: ReceiptKey) -> ResetReport:
        """Replay: a dead-lettered or failed receipt becomes received, attempts 0, due now.

        Of two operators one is accepted. Schedule the message again in the same transaction; a caller
        that finds it undecodable rolls back.
        """
        return reset(connection, self._ground, key)

    def discard(self, connection: Connection, key: ReceiptKey) -> OperationAnswer:
        """Resolve a dead-lettered receipt without running it; the row is kept."""
        return discard(connection, self._ground, key)

    def list_failed(
        self,
        connection: Connection,
        filter: FailedReceiptFilter | None = None,  # noqa: A002 - the word of the field
        *,
        cursor: FailedReceiptCursor | None = None,
        limit: int = 100,
    ) -> list[ReceiptRecord]:
        """Up to `limit` dead-lettered receipts after `cursor`, the latest failure first."""
        return list_failed(
            connection, self._ground, filter or FailedReceiptFilter(), cursor=cursor, limit=limit
        )

    def count_failed(
        self,
        connection: Connection,
        filter: FailedReceiptFilter | None = None,  # noqa: A002 - the word of the field
    ) -> int:
        """How many dead-lettered receipts match."""
        return count_failed(connection, self._ground, filter or FailedReceiptFilter())

    def find(self, connection: Connection, key: ReceiptKey) -> ReceiptRecord | None:
        """The receipt as it stands, or None."""
        return find(connection, self._ground, key)

    def counts(self, connection: Connection) -> InboxCounts:
        """Unfinished and dead receipts of all consumers; one statement, never reads processed ones."""
        return counts(connection, self._ground)

    def cleanup(self, connection: Connection, *, limit: int = 1000) -> int:
        """Delete up to `limit` processed receipts older than the retention, oldest first; returns how many.

        Unfinished, dead-lettered and discarded receipts are never touched.
        """
        return cleanup(connection, self._ground, limit=limit)
