"""The life of receipts against a plain model, with stale tokens and a clock that jumps; on every database.

It runs through the sync drivers, which also shows that the stores ask nothing of the async ones.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, TypeVar
from uuid import UUID, uuid4

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from sqlalchemy import Engine, MetaData, create_engine, delete, make_url, select

from inbox.acquisition import AcquireStatus
from inbox.options import InboxOptions
from inbox.receipt import AcquiredReceipt, ReceiptKey, ReceiptLease
from inbox.state import TRANSITIONS, UNFINISHED, ReceiptState
from inbox.store import InboxStore
from inbox.table import add_inbox_table
from inbox.view import OperationAnswer
from tests.support.inbox import START, message
from uow.message import Message
from uow.sql.clock import PinnedClock
from uow.sql.sqlite import prepare_sqlite

pytest_plugins = ("tests.support.inbox_fixture",)

T = TypeVar("T")

DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg", "mariadb": "mysql+pymysql"}
OPTIONS = InboxOptions(lease_seconds=60, isolate_after=2, processed_retention_seconds=600)
MAX_RETRIES = 3
CONSUMERS = ("audit", "Audit")
IDS = tuple(sorted(UUID(int=number << 64 | number) for number in range(1, 3)))
ORIGINALS = {each: message('{"n":1}', id=each) for each in IDS}
FORGERIES = {each: message('{"n":2}', id=each) for each in IDS}

table = add_inbox_table(MetaData())
consumers = st.sampled_from(CONSUMERS)
keys = st.builds(ReceiptKey, st.sampled_from(IDS), consumers)
batches = st.lists(st.sampled_from(IDS), min_size=1, max_size=2, unique=True)
jumps = st.sampled_from([60, 5, 0.001, 59.999, 60, 601, 60, 600])


@dataclass
class Model:
    """What a receipt should be."""

    state: ReceiptState
    due: datetime | None
    token: UUID | None = None
    expires: datetime | None = None
    attempts: int = 0
    claims: int = 0
    completed: datetime | None = None
    error: str | None = None

    def row(self) -> tuple[object, ...]:
        return (self.state, self.due, self.expires, self.attempts, self.claims, self.completed, self.error)

    def lease(self, now: datetime, token: UUID) -> None:
        self.become(ReceiptState.PROCESSING, due=now + timedelta(seconds=OPTIONS.lease_seconds))
        self.expires, self.token = self.due, token
        self.attempts += 1
        self.claims += 1

    def become(self, state: ReceiptState, *, due: datetime | None) -> None:
        assert state in TRANSITIONS[self.state], f"{self.state} -> {state}"
        self.state, self.due, self.expires = state, due, None


class ReceiptMachine(RuleBasedStateMachine):
    """Every verb answers as the model says, and every row is as the model says."""

    engine: ClassVar[Engine]

    def __init__(self) -> None:
        super().__init__()
        self.clock = PinnedClock(START)
        self.store = InboxStore(table, options=OPTIONS, clock=self.clock)
        self.model: dict[ReceiptKey, Model] = {}
        self.leases: list[ReceiptLease] = []
        self.run(lambda connection: connection.execute(delete(table)))

    def run(self, step: Callable[..., T], *arguments: Any, **options: Any) -> T:
        with self.engine.begin() as connection:
            return step(connection, *arguments, **options)

    @property
    def now(self) -> datetime:
        return self.clock.moment

    def is_due(self, model: Model) -> bool:
        return model.due is not None and model.due <= self.now

    def is_suspect(self, model: Model) -> bool:
        return model.claims >= OPTIONS.isolate_after

    def is_held(self, lease: ReceiptLease) -> bool:
        model = self.model.get(lease.key)
        return (
            model is not None
            and model.state is ReceiptState.PROCESSING
            and model.token == lease.token
            and model.expires is not None
            and model.expires > self.now
        )

    def expected_status(self, key: ReceiptKey, *, forged: bool) -> AcquireStatus:
        model = self.model.get(key)
        if model is None:
            return AcquireStatus.ACQUIRED
        if forged:
            return AcquireStatus.CONFLICT
        match model.state:
            case ReceiptState.PROCESSED | ReceiptState.DISCARDED:
                return AcquireStatus.ALREADY_PROCESSED
            case ReceiptState.DEAD_LETTERED:
                return AcquireStatus.DEAD_LETTERED
            case ReceiptState.PROCESSING if not self.is_due(model):
                return AcquireStatus.BUSY
            case _ if self.is_due(model) and not self.is_suspect(model):
                return AcquireStatus.ACQUIRED
            case _:
                return AcquireStatus.NOT_DUE

    def take(self, receipts: list[AcquiredReceipt]) -> None:
        for receipt in receipts:
            fresh = Model(ReceiptState.RECEIVED, due=self.now)
            model = self.model.setdefault(receipt.key, fresh)
            model.lease(self.now, receipt.token)
            assert receipt.attempt == model.attempts
            assert receipt.message.same_content(ORIGINALS[receipt.message.id])
            self.leases.append(receipt.lease)

    @rule(consumer=consumers, ids=batches)
    def acquire(self, consumer: str, ids: list[UUID]) -> None:
        expected = [self.expected_status(ReceiptKey(each, consumer), forged=False) for each in ids]
        answers = self.run(self.store.acquire, consumer, [ORIGINALS[each] for each in ids], token=uuid4())
        assert [answer.status for answer in answers] == expected
        self.take([answer.receipt for answer in answers if answer.receipt])

    @rule(key=keys)
    def acquire_forged(self, key: ReceiptKey) -> None:
        if key in self.model:
            (answer,) = self.run(self.store.acquire, key.consumer, [FORGERIES[key.message_id]])
            assert answer.status is AcquireStatus.CONFLICT

    @rule(pairs=st.lists(st.tuples(consumers, st.sampled_from(IDS), st.booleans()), max_size=4))
    def record(self, pairs: list[tuple[str, UUID, bool]]) -> None:
        given: dict[ReceiptKey, Message] = {}
        for consumer, each, forged in pairs:
            key = ReceiptKey(each, consumer)
            given.setdefault(key, (FORGERIES if forged and key in self.model else ORIGINALS)[each])
        report = self.run(self.store.record, [(key.consumer, one) for key, one in given.items()])
        new = given.keys() - self.model.keys()
        assert report.recorded == len(new)
        assert set(report.conflicts) == {key for key, one in given.items() if one.payload == '{"n":2}'}
        for key in new:
            self.model[key] = Model(ReceiptState.RECEIVED, due=self.now)

    @rule(consumer=consumers, limit=st.integers(1, 3))
    def claim(self, consumer: str, limit: int) -> None:
        due = [
            (model.due, key)
            for key, model in self.model.items()
            if key.consumer == consumer and self.is_due(model) and not self.is_suspect(model)
        ]
        claimed = self.run(self.store.claim, [consumer], limit=limit)
        assert {receipt.key for receipt in claimed} == {key for _, key in sorted(due)[:limit]}  # type: ignore[type-var]
        self.take(claimed)

    @rule()
    def claim_all(self) -> None:
        due = {key for key, model in self.model.items() if self.is_due(model) and not self.is_suspect(model)}
        claimed = self.run(self.store.claim, CONSUMERS, limit=100)
        assert {receipt.key for receipt in claimed} == due
        self.take(claimed)

    @rule()
    def claim_suspect(self) -> None:
        suspects = {
            key: model.expires
            for key, model in self.model.items()
            if self.is_due(model) and self.is_suspect(model)
        }
        claimed = self.run(self.store.claim_suspect, CONSUMERS)
        assert (claimed is not None) == bool(suspects)
        if claimed is not None:
            assert suspects[claimed.key] == min(suspects.values())  # type: ignore[type-var]
            self.take([claimed])

    @rule(consumer=consumers)
    def bury(self, consumer: str) -> None:
        spent = {
            key
            for key, model in self.model.items()
            if key.consumer == consumer
            and model.state is ReceiptState.PROCESSING
            and self.is_due(model)
            and model.attempts > MAX_RETRIES
        }
        assert set(self.run(self.store.bury, consumer, max_retry_attempts=MAX_RETRIES)) == spent
        for key in spent:
            self.end(key, ReceiptState.DEAD_LETTERED, error="process_died")

    def end(self, key: ReceiptKey, state: ReceiptState, *, error: str | None) -> None:
        model = self.model[key]
        model.become(state, due=None)
        model.claims, model.completed, model.error = 0, self.now, error

    @rule(data=st.data())
    def complete(self, data: st.DataObject) -> None:
        if (lease := self.any_lease(data)) is not None:
            held = self.is_held(lease)
            assert (self.run(self.store.complete, lease) is not None) == held
            if held:
                self.end(lease.key, ReceiptState.PROCESSED, error=None)

    @rule(data=st.data(), delay=st.sampled_from([0, 5, 60]))
    def fail(self, data: st.DataObject, delay: float) -> None:
        if (lease := self.any_lease(data)) is not None:
            held = self.is_held(lease)
            assert self.run(self.store.fail, lease, error_code="timeout", delay_seconds=delay) == held
            if held:
                model = self.model[lease.key]
                model.become(ReceiptState.FAILED, due=self.now + timedelta(seconds=delay))
                model.claims, model.error = 0, "timeout"

    @rule(data=st.data())
    def dead_letter(self, data: st.DataObject) -> None:
        if (lease := self.any_lease(data)) is not None:
            held = self.is_held(lease)
            assert self.run(self.store.dead_letter, lease, error_code="rejected") == held
            if held:
                self.end(lease.key, ReceiptState.DEAD_LETTERED, error="rejected")

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        leases = self.some_leases(data)
        lost = {lease for lease in leases if not self.is_held(lease)}
        assert self.run(self.store.release, leases) == lost
        for lease in leases - lost:
            model = self.model[lease.key]
            model.become(ReceiptState.RECEIVED, due=self.now)
            model.claims = 0
            model.attempts -= 1

    @rule(data=st.data())
    def renew(self, data: st.DataObject) -> None:
        leases = self.some_leases(data)
        lost = {lease for lease in leases if not self.is_held(lease)}
        assert self.run(self.store.renew, leases) == lost
        for lease in leases - lost:
            model = self.model[lease.key]
            model.due = model.expires = self.now + timedelta(seconds=OPTIONS.lease_seconds)

    @rule(key=keys)
    def reset(self, key: ReceiptKey) -> None:
        answer = self.run(self.store.reset, key).answer
        allowed = {ReceiptState.FAILED, ReceiptState.DEAD_LETTERED}
        assert answer is self.expected_answer(key, allowed)
        if answer is OperationAnswer.ACCEPTED:
            model = self.model[key]
            model.become(ReceiptState.RECEIVED, due=self.now)
            model.attempts = model.claims = 0
            model.completed = model.token = None

    @rule(key=keys)
    def discard(self, key: ReceiptKey) -> None:
        answer = self.run(self.store.discard, key)
        assert answer is self.expected_answer(key, {ReceiptState.DEAD_LETTERED})
        if answer is OperationAnswer.ACCEPTED:
            model = self.model[key]
            model.become(ReceiptState.DISCARDED, due=None)
            model.completed = self.now

    def expected_answer(self, key: ReceiptKey, allowed: set[ReceiptState]) -> OperationAnswer:
        if key not in self.model:
            return OperationAnswer.NOT_FOUND
        valid = self.model[key].state in allowed
        return OperationAnswer.ACCEPTED if valid else OperationAnswer.INVALID_STATE

    @rule()
    def cleanup(self) -> None:
        limit = self.now - timedelta(seconds=OPTIONS.processed_retention_seconds)
        old = [
            key
            for key, model in self.model.items()
            if model.state is ReceiptState.PROCESSED
            and model.completed is not None
            and model.completed < limit
        ]
        assert self.run(self.store.cleanup) == len(old)
        for key in old:
            del self.model[key]

    @rule(seconds=jumps)
    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def any_lease(self, data: st.DataObject) -> ReceiptLease | None:
        return data.draw(self.drawn_leases()) if self.leases else None

    def drawn_leases(self) -> st.SearchStrategy[ReceiptLease]:
        """One of the latest, which are held more often, or any that ever was."""
        return st.sampled_from(self.leases[-3:]) | st.sampled_from(self.leases)

    def some_leases(self, data: st.DataObject) -> set[ReceiptLease]:
        if not self.leases:
            return set()
        return data.draw(st.sets(self.drawn_leases(), max_size=5))

    @invariant()
    def rows_are_as_the_model_says(self) -> None:
        columns = table.c
        query = select(
            columns.message_id,
            columns.consumer,
            columns.state,
            columns.next_attempt_at,
            columns.lease_expires_at,
            columns.attempt_count,
            columns.claim_count,
            columns.completed_at,
            columns.error_code,
        )
        rows = self.run(lambda connection: connection.execute(query).all())
        assert {ReceiptKey(*row[:2]): tuple(row[2:]) for row in rows} == {
            key: model.row() for key, model in self.model.items()
        }
        for model in self.model.values():
            assert (model.due is not None) == (model.state in UNFINISHED)
            assert (model.completed is not None) == (model.state not in UNFINISHED)


def test_receipts_live_as_the_model_says(database_kind: str, inbox_url: Callable[[str], str]) -> None:
    url = make_url(inbox_url(database_kind)).set(drivername=DRIVERS[database_kind])
    engine = create_engine(url)
    prepare_sqlite(engine)

    class Machine(ReceiptMachine):
        pass

    Machine.engine = engine
    try:
        run_state_machine_as_test(  # type: ignore[no-untyped-call]
            Machine,
            settings=settings(
                max_examples=12,
                stateful_step_count=50,
                deadline=None,
                suppress_health_check=list(HealthCheck),
                print_blob=True,
            ),
        )
    finally:
        engine.dispose()
