"""Any sequence of verbs, with tokens long since stale among them, leaves what a plain model says."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar
from uuid import UUID

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import (
    Connection,
    Engine,
    MetaData,
    RowMapping,
    Table,
    create_engine,
    delete,
    make_url,
    select,
)

from outbox import OutboxCounts, OutboxOptions, OutboxStore, Settlement, SettlementKind, add_outbox_table
from tests.support.databases import temporary_database_url
from tests.support.outbox import START, message
from tests.support.outbox_model import HOLDING, ModelRow, OutboxModel
from uow.message import Message
from uow.sql.clock import PinnedClock
from uow.sql.dialect import database_of
from uow.sql.sqlite import prepare_sqlite

T = TypeVar("T")
EXAMPLES = 12
OPTIONS = OutboxOptions(batch_size=3, max_retry_attempts=1, isolate_after=2, published_retention_seconds=300)
_SYNC_DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg", "mariadb": "mysql+pymysql"}
_COMPARED = [
    "sequence", "event_id", "ordering_key", "next_attempt_at", "state", "lease_token",
    "lease_expires_at", "failure_count", "claim_count", "completed_at", "error_code",
]  # fmt: skip


@dataclass
class Database:
    """A database with the table in it, reached by a plain sync driver."""

    engine: Engine
    table: Table


@pytest.fixture
async def database(database_kind: str, tmp_path: Path) -> Any:
    async with temporary_database_url(database_kind, tmp_path) as url:
        engine = create_engine(make_url(url).set(drivername=_SYNC_DRIVERS[database_kind]))
        prepare_sqlite(engine)
        if (isolation := database_of(engine).claim_isolation) is not None:
            engine = engine.execution_options(isolation_level=isolation)
        metadata = MetaData()
        table = add_outbox_table(metadata)
        metadata.create_all(engine)
        yield Database(engine, table)
        engine.dispose()


class Lifecycle(RuleBasedStateMachine):
    """Relays that claim, die and come back late, operators, and time that passes; all in one thread."""

    database: ClassVar[Database]

    def __init__(self) -> None:
        super().__init__()
        self.clock = PinnedClock(START)
        self.model = OutboxModel(OPTIONS, START)
        self.store = OutboxStore(self.database.table, options=OPTIONS, clock=self.clock)
        self.events: dict[UUID, Message] = {}
        self.claims: list[tuple[UUID, tuple[int, ...]]] = []
        self.stored: Sequence[RowMapping] = ()
        self.counts = OutboxCounts(
            pending=0, publishing=0, dead_lettered=0, oldest_unfinished_age_seconds=None
        )
        self.step(lambda connection: connection.execute(delete(self.database.table)))

    def step(self, work: Callable[[Connection], T]) -> T:
        """Do it, and look at the table and the counts before the commit."""
        table = self.database.table
        with self.database.engine.begin() as connection:
            result = work(connection)
            query = select(*(table.c[name] for name in _COMPARED), table.c.holding_key)
            self.stored = connection.execute(query).mappings().all()
            self.counts = self.store.counts(connection)
        return result

    @rule(keys=st.lists(st.sampled_from([None, None, "a", "b"]), min_size=1, max_size=4))
    def enqueue(self, keys: list[str | None]) -> None:
        added = [message(key=key) for key in keys]
        assert self.step(lambda connection: self.store.append(connection, added)).added == len(added)
        sequences = {row["event_id"]: row["sequence"] for row in self.stored}
        for one in added:
            self.events[one.id] = one
            self.model.add(sequences[one.id], one.id, one.ordering_key)

    @precondition(lambda self: self.model.rows)
    @rule(data=st.data())
    def enqueue_again(self, data: st.DataObject) -> None:
        known = self.events[self._some_event(data)]
        assert self.step(lambda connection: self.store.append(connection, [known])).added == 0

    @rule(limit=st.integers(1, 4))
    def claim(self, limit: int) -> None:
        claim = self.step(lambda connection: self.store.claim(connection, limit=limit))
        assert list(claim.sequences) == self.model.claim(claim.token, limit)
        self.claims.append((claim.token, claim.sequences))

    @rule()
    def claim_suspect(self) -> None:
        claim = self.step(self.store.claim_suspect)
        assert list(claim.sequences) == self.model.claim_suspect(claim.token)
        self.claims.append((claim.token, claim.sequences))

    @rule(times=st.integers(1, 6))
    def relay_dies_again_and_again(self, times: int) -> None:
        for _ in range(times):
            self.claim_suspect()
            self.claim(limit=3)
            self.time_passes(60)

    @rule()
    def bury(self) -> None:
        assert set(self.step(self.store.bury_suspects)) == self.model.bury_suspects()

    @rule(seconds=st.sampled_from([1, 30, 60, 301, 900]))
    def time_passes(self, seconds: int) -> None:
        self.clock.advance(seconds)
        self.model.now = self.clock.moment

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        token, sequences = self._some_claim(data)
        settlements = [_settlement(data, sequence) for sequence in sequences]
        report = self.step(lambda connection: self.store.settle(connection, token, settlements))
        assert set(report.lost) == self.model.settle(token, settlements)

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def renew(self, data: st.DataObject) -> None:
        token, sequences = self._some_claim(data)
        lost = self.step(lambda connection: self.store.renew(connection, token, sequences))
        assert lost == self.model.renew(token, sequences)

    @precondition(lambda self: self.model.rows)
    @rule(data=st.data())
    def replay(self, data: st.DataObject) -> None:
        asked = [self._some_event(data), self._some_event(data)]
        answers = self.step(lambda connection: self.store.replay(connection, asked))
        accepted = {event_id for event_id, answer in answers.items() if answer == "accepted"}
        assert accepted == self.model.replay(asked)

    @precondition(lambda self: self.model.rows)
    @rule(data=st.data())
    def discard(self, data: st.DataObject) -> None:
        asked = [self._some_event(data), self._some_event(data)]
        answers = self.step(lambda connection: self.store.discard(connection, asked))
        accepted = {event_id for event_id, answer in answers.items() if answer == "accepted"}
        assert accepted == self.model.discard(asked)

    @precondition(lambda self: self.model.rows)
    @rule(data=st.data())
    def schedule_again(self, data: st.DataObject) -> None:
        event_id = self._some_event(data)
        known = self.events[event_id]
        self.step(lambda connection: self.store.schedule_again(connection, known))
        self.model.schedule_again(event_id)

    @rule()
    def cleanup(self) -> None:
        assert self.step(self.store.cleanup) == self.model.cleanup()

    @invariant()
    def the_table_holds_what_the_model_says(self) -> None:
        stored = {row["event_id"]: ModelRow(**{name: row[name] for name in _COMPARED}) for row in self.stored}
        assert stored == self.model.rows
        for row in self.stored:
            assert row["holding_key"] == (row["ordering_key"] if row["state"] in HOLDING else None)

    @invariant()
    def counts_agree(self) -> None:
        states = [row.state for row in self.model.rows.values()]
        assert (self.counts.pending, self.counts.publishing, self.counts.dead_lettered) == tuple(
            states.count(state) for state in ("pending", "publishing", "dead_lettered")
        )

    def _some_event(self, data: st.DataObject) -> UUID:
        return data.draw(
            st.sampled_from(sorted(self.model.rows, key=lambda each: self.model.rows[each].sequence))
        )

    def _some_claim(self, data: st.DataObject) -> tuple[UUID, tuple[int, ...]]:
        """The latest ones mostly, but any that ever was."""
        index = data.draw(st.integers(0, len(self.claims) - 1))
        return self.claims[-1 - index]


def _settlement(data: st.DataObject, sequence: int) -> Settlement:
    match data.draw(st.sampled_from(SettlementKind)):
        case SettlementKind.PUBLISHED:
            return Settlement.published(sequence)
        case SettlementKind.RETRY:
            delay = data.draw(st.sampled_from([1, 30]))
            return Settlement.retry(sequence, delay_seconds=delay, error_code=f"nack {delay}")
        case SettlementKind.DEAD_LETTER:
            return Settlement.dead_letter(sequence, error_code="unroutable")
        case SettlementKind.RELEASE:
            return Settlement.release(sequence, delay_seconds=data.draw(st.sampled_from([0, 30])))
    raise AssertionError("unreachable")


async def test_the_store_does_what_the_model_does(database: Database) -> None:
    class OnThisDatabase(Lifecycle):
        pass

    OnThisDatabase.database = database
    run_state_machine_as_test(
        OnThisDatabase,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=25,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
