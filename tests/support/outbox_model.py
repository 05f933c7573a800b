"""What an outbox should hold, in plain Python: the model that the store is compared with."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from outbox import OutboxOptions, Settlement, SettlementKind

HELD = timedelta(seconds=900)
UNFINISHED = {"pending", "publishing"}
HOLDING = {"pending", "publishing", "dead_lettered"}


@dataclass
class ModelRow:
    """One event; the fields are columns of the table."""

    sequence: int
    event_id: UUID
    ordering_key: str | None
    next_attempt_at: datetime | None
    state: str = "pending"
    lease_token: UUID | None = None
    lease_expires_at: datetime | None = None
    failure_count: int = 0
    claim_count: int = 0
    completed_at: datetime | None = None
    error_code: str | None = None

    def finish(self, state: str, now: datetime) -> None:
        self.state, self.completed_at, self.next_attempt_at = state, now, None
        self.lease_token = self.lease_expires_at = None

    def wait(self, until: datetime) -> None:
        self.state, self.next_attempt_at = "pending", until
        self.lease_token = self.lease_expires_at = None

    def begin_anew(self, now: datetime) -> None:
        self.wait(now)
        self.failure_count = self.claim_count = 0
        self.completed_at = self.error_code = None


@dataclass
class OutboxModel:
    """The rows and the rules; every method says what the store's verb of the same name should say."""

    options: OutboxOptions
    now: datetime
    rows: dict[UUID, ModelRow] = field(default_factory=dict)

    def add(self, sequence: int, event_id: UUID, key: str | None) -> None:
        self.rows[event_id] = ModelRow(sequence, event_id, key, self.now)

    def claim(self, token: UUID, limit: int) -> list[int]:
        isolate = self.options.isolate_after
        for _ in range(5):
            window = self._first_due(lambda row: row.claim_count < isolate)[:limit]
            held = [row for row in window if self._held(row)]
            free = [row for row in window if row not in held]
            for row in held:
                row.wait(self.now + HELD)
            for row in free:
                self._lease(row, token)
            if free or len(window) < limit:
                return sorted(row.sequence for row in free)
        return []

    def claim_suspect(self, token: UUID) -> list[int]:
        isolate = self.options.isolate_after
        suspects = self._first_due(lambda row: row.claim_count >= isolate and not self._held(row))[:1]
        for row in suspects:
            self._lease(row, token)
        return [row.sequence for row in suspects]

    def bury_suspects(self) -> set[UUID]:
        doomed = self._first_due(lambda row: row.claim_count >= self.options.bury_after)
        for row in doomed:
            row.finish("dead_lettered", self.now)
            row.error_code = "relay_died"
        return {row.event_id for row in doomed}

    def renew(self, token: UUID, sequences: Iterable[int]) -> set[int]:
        owned = {row.sequence: row for row in self._owned(token)}
        for row in (owned[each] for each in sequences if each in owned):
            row.lease_expires_at = row.next_attempt_at = self.now + self._lease_time
        return {each for each in sequences if each not in owned}

    def settle(self, token: UUID, settlements: Iterable[Settlement]) -> set[int]:
        owned = {row.sequence: row for row in self._owned(token)}
        lost = {each.sequence for each in settlements if each.sequence not in owned}
        let_go = []
        for settlement in settlements:
            if settlement.sequence in owned:
                row = owned[settlement.sequence]
                self._settle_row(row, settlement)
                if row.state == "published":
                    let_go.append(row)
        self._make_next_due(let_go)
        return lost

    def replay(self, event_ids: Iterable[UUID]) -> set[UUID]:
        dead = self._dead(event_ids)
        for row in dead:
            row.begin_anew(self.now)
        return {row.event_id for row in dead}

    def discard(self, event_ids: Iterable[UUID]) -> set[UUID]:
        dead = self._dead(event_ids)
        for row in dead:
            row.state, row.completed_at = "discarded", self.now
        self._make_next_due(dead)
        return {row.event_id for row in dead}

    def schedule_again(self, event_id: UUID) -> None:
        self.rows[event_id].begin_anew(self.now)

    def cleanup(self) -> int:
        limit = self.now - timedelta(seconds=self.options.published_retention_seconds)
        old = [
            row.event_id
            for row in self.rows.values()
            if row.state == "published" and row.completed_at is not None and row.completed_at < limit
        ]
        for event_id in old:
            del self.rows[event_id]
        return len(old)

    @property
    def _lease_time(self) -> timedelta:
        return timedelta(seconds=self.options.lease_seconds)

    def _first_due(self, wanted: Callable[[ModelRow], bool]) -> list[ModelRow]:
        due = [
            (row.next_attempt_at, row.sequence, row)
            for row in self.rows.values()
            if row.next_attempt_at is not None and row.next_attempt_at <= self.now and wanted(row)
        ]
        return [row for *_, row in sorted(due, key=lambda each: each[:2])]

    def _head(self, key: str | None) -> ModelRow | None:
        holders = [row for row in self.rows.values() if row.ordering_key == key and row.state in HOLDING]
        return min(holders, key=lambda row: row.sequence, default=None) if key is not None else None

    def _held(self, row: ModelRow) -> bool:
        head = self._head(row.ordering_key)
        return head is not None and head.sequence < row.sequence

    def _lease(self, row: ModelRow, token: UUID) -> None:
        row.state, row.lease_token = "publishing", token
        row.lease_expires_at = row.next_attempt_at = self.now + self._lease_time
        row.claim_count += 1

    def _owned(self, token: UUID) -> list[ModelRow]:
        return [
            row
            for row in self.rows.values()
            if row.lease_token == token
            and row.lease_expires_at is not None
            and row.lease_expires_at > self.now
        ]

    def _settle_row(self, row: ModelRow, settlement: Settlement) -> None:
        row.claim_count = 0
        delay = timedelta(seconds=settlement.delay_seconds or 0)
        match settlement.kind:
            case SettlementKind.PUBLISHED:
                row.finish("published", self.now)
                row.error_code = None
            case SettlementKind.DEAD_LETTER:
                row.finish("dead_lettered", self.now)
                row.failure_count += 1
                row.error_code = settlement.error_code
            case SettlementKind.RETRY:
                row.failure_count += 1
                row.error_code = settlement.error_code
                if row.failure_count > self.options.max_retry_attempts:
                    row.finish("dead_lettered", self.now)
                else:
                    row.wait(self.now + delay)
            case SettlementKind.RELEASE:
                row.wait(self.now + delay)

    def _dead(self, event_ids: Iterable[UUID]) -> list[ModelRow]:
        found = [self.rows[each] for each in event_ids if each in self.rows]
        return [row for row in found if row.state == "dead_lettered"]

    def _make_next_due(self, let_go: Iterable[ModelRow]) -> None:
        for row in let_go:
            head = self._head(row.ordering_key)
            if head is not None and head.state == "pending":
                head.next_attempt_at = self.now
