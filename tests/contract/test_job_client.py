"""The application's client: independent of whatever the caller has open, in sessions of its own."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, event, func, insert, select
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_scoped_session, async_sessionmaker
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from jobs import (
    CancelAnswer,
    JobCursor,
    JobFilter,
    JobIdentityConflictError,
    JobNotFoundError,
    Jobs,
    JobState,
    JobStore,
    JobSubmission,
    JobSubmissionError,
    RetryAnswer,
    Settlement,
    Submitted,
    UnfitSessionError,
)
from tests.support.job_shop import Shop
from tests.support.jobs import SCOPE, SEVERAL_WRITERS, StoredJobs, at, submission, submissions
from tests.support.statements import recorded_statements
from tests.support.unit_of_work import checked_out
from uow.sql.clock import PinnedClock

pytest_plugins = ("tests.support.jobs_fixture",)


class Model(DeclarativeBase):
    pass


class Order(Model):
    """A business row, in the table of notes."""

    __tablename__ = "note"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    text: Mapped[str] = mapped_column(default="hello")


class Client:
    """A client on a database with business rows; it counts its wake-ups."""

    def __init__(self, engine: AsyncEngine) -> None:
        self.stored = StoredJobs(engine)
        self.sessions = async_sessionmaker(engine)
        self.woken = 0
        self.jobs = Jobs(self.sessions, self.stored.store, on_committed=self.wake)

    def wake(self) -> None:
        self.woken += 1

    async def orders(self) -> int:
        query = select(func.count()).select_from(Order)
        return await self.stored.step(lambda connection: connection.execute(query).scalar_one())


@pytest.fixture
async def client(stored: StoredJobs) -> Client:
    await Shop(stored.engine).clear()
    return Client(stored.engine)


async def test_what_is_no_submission_is_refused_before_anything_is_stored(stored: StoredJobs) -> None:
    jobs = Jobs(async_sessionmaker(stored.engine), stored.store)
    with pytest.raises(JobSubmissionError, match=r"must be a JobSubmission, .* not dict"):
        await jobs.submit_many([submission(), {"job_id": "k"}])  # type: ignore[list-item]
    assert await jobs.find(SCOPE, "j") is None


async def test_a_submitted_job_is_committed_at_once_and_wakes_executors(client: Client) -> None:
    snapshot = await client.jobs.submit(submission(arguments={"a": 1}))
    assert snapshot == await client.stored.get()
    assert client.woken == 1
    assert await client.jobs.submit(submission(arguments={"a": 1})) == snapshot
    assert client.woken == 1
    with pytest.raises(JobIdentityConflictError):
        await client.jobs.submit(submission(arguments={"a": 2}))
    assert checked_out(client.stored.engine) == 0


async def test_many_are_stored_together_or_not_at_all(client: Client) -> None:
    assert all(each.created for each in await client.jobs.submit_many(submissions(30)))
    with pytest.raises(JobIdentityConflictError):
        await client.jobs.submit_many([submission("new"), submission("j00001", queue="other")])
    assert await client.jobs.find(SCOPE, "new") is None


async def test_a_wake_up_that_fails_does_not_undo_the_commit(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise RuntimeError("no executor here")

    jobs = Jobs(client.sessions, client.stored.store, on_committed=fail)
    await jobs.submit(submission())
    assert (await client.stored.get()).state is JobState.QUEUED
    assert "waking executors failed" in caplog.text


@pytest.mark.parametrize("database_kind", SEVERAL_WRITERS)
async def test_nothing_of_the_callers_open_session_comes_along(client: Client) -> None:
    async with client.sessions() as session:
        session.add(Order(id=1))
        await session.flush()
        session.add(Order(id=2))
        await client.jobs.submit(submission(), beside=session)
        await session.rollback()
    assert await client.orders() == 0
    assert (await client.stored.get()).state is JobState.QUEUED


class TestUnfitSessions:
    """A session that is not new is refused, and left as it is."""

    async def refused(self, session: AsyncSession, store: JobStore, *, beside: bool, why: str) -> None:
        jobs = Jobs(lambda: session, store)
        with pytest.raises(UnfitSessionError, match=why):
            await jobs.submit(submission(), beside=session if beside else None)

    async def test_the_callers_own(self, client: Client) -> None:
        async with client.sessions() as session:
            await self.refused(session, client.stored.store, beside=True, why="is in use already")

    async def test_one_with_a_transaction(self, client: Client) -> None:
        async with client.sessions() as session:
            await session.execute(insert(Order).values(id=1))
            await self.refused(session, client.stored.store, beside=False, why="has a transaction")
            await session.commit()
        assert await client.orders() == 1

    async def test_one_with_pending_changes(self, client: Client) -> None:
        async with client.sessions() as session:
            order = Order(id=1)
            session.add(order)
            await self.refused(session, client.stored.store, beside=False, why="has pending changes")
            assert order in session.new

    async def test_one_that_holds_loaded_objects(self, client: Client) -> None:
        await client.stored.step(lambda connection: connection.execute(insert(Order).values(id=1)))
        async with async_sessionmaker(client.stored.engine, expire_on_commit=False)() as session:
            order = await session.get(Order, 1)
            await session.commit()
            assert order is not None
            await self.refused(session, client.stored.store, beside=False, why="holds loaded objects")

    async def test_one_that_two_calls_share(self, client: Client) -> None:
        scoped = async_scoped_session(client.sessions, scopefunc=lambda: 1)
        jobs = Jobs(scoped, client.stored.store)
        first = asyncio.create_task(jobs.submit(submission("a")))
        second = asyncio.create_task(jobs.submit(submission("b")))
        results = await asyncio.gather(first, second, return_exceptions=True)
        assert [type(result).__name__ for result in results] == ["JobSnapshot", "UnfitSessionError"]

    async def test_one_that_commits_each_statement_by_itself(self, client: Client) -> None:
        autocommit = client.stored.engine.execution_options(isolation_level="AUTOCOMMIT")
        async with async_sessionmaker(autocommit)() as session:
            await self.refused(session, client.stored.store, beside=False, why="is in AUTOCOMMIT")

    async def test_one_on_a_connection_with_a_transaction(self, client: Client) -> None:
        async with client.stored.engine.connect() as connection, connection.begin():
            session = AsyncSession(bind=connection)
            await self.refused(session, client.stored.store, beside=False, why="is bound to a connection")

    async def test_a_factory_bound_by_table_or_by_model_leads_to_its_engine(self, client: Client) -> None:
        engine = client.stored.engine
        for binds in ({Model: engine}, {client.stored.tables.job: engine}):
            jobs = Jobs(async_sessionmaker(binds=binds), client.stored.store)  # type: ignore[arg-type]
            await jobs.submit(submission())


class TestLostRaces:
    """An insert that fails by a unique key although the store asks for none to fail."""

    async def test_the_winners_job_is_read_in_a_new_session(self, client: Client) -> None:
        await client.stored.submit(submission(priority=9))
        jobs = Jobs(client.sessions, _Loser(client.stored))
        assert (await jobs.submit(submission())).priority == 9
        with pytest.raises(JobIdentityConflictError):
            await jobs.submit(submission(queue="other"))

    async def test_without_a_winner_the_error_of_the_database_comes_back(self, client: Client) -> None:
        jobs = Jobs(client.sessions, _Loser(client.stored))
        with pytest.raises(IntegrityError):
            await jobs.submit(submission())

    async def test_another_error_of_the_database_comes_back(self, engine: AsyncEngine) -> None:
        client = Client(engine)
        with pytest.raises(DBAPIError, match="jobs_job"):
            await client.jobs.submit(submission())


async def test_a_deadlock_is_repeated_in_a_fresh_session(client: Client) -> None:
    used: list[AsyncSession] = []
    failures = 2

    def sessions() -> AsyncSession:
        used.append(client.sessions())
        return used[-1]

    def fail_twice(connection: Connection, *_: Any) -> None:
        nonlocal failures
        if failures:
            failures -= 1
            raise _BusyError

    jobs = Jobs(sessions, client.stored.store)
    event.listen(client.stored.engine.sync_engine, "before_cursor_execute", fail_twice)
    try:
        await jobs.submit(submission())
    finally:
        event.remove(client.stored.engine.sync_engine, "before_cursor_execute", fail_twice)
    assert len({id(session) for session in used}) == 3


async def test_a_cancelled_call_leaves_no_connection_behind(client: Client) -> None:
    call = asyncio.create_task(client.jobs.submit(submission()))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert checked_out(client.stored.engine) == 0


async def test_the_client_looks_cancels_and_retries_in_its_scope(client: Client) -> None:
    await client.jobs.submit_many(submissions(3))
    assert isinstance(client.stored.clock, PinnedClock)
    page = await client.jobs.list(SCOPE, JobFilter(queue="default"), limit=2)
    rest = await client.jobs.list(SCOPE, cursor=JobCursor.after(page[-1]))
    assert [job.job_id for job in (*page, *rest)] == ["j00002", "j00001", "j00000"]
    assert await client.jobs.cancel(SCOPE, "j00000") is CancelAnswer.CANCELLED
    assert await client.jobs.cancel("other", "j00001") is CancelAnswer.NOT_FOUND
    run = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=90)
    assert await client.jobs.retry(SCOPE, "j00000", next_run=run) is RetryAnswer.QUEUED
    assert (await client.jobs.get(SCOPE, "j00000")).next_run == at(90)
    assert await client.jobs.retry(SCOPE, "j00000") is RetryAnswer.INVALID_STATE
    assert client.woken == 2
    assert await client.jobs.attempts(SCOPE, "j00000") == []
    (counts,) = (await client.jobs.counts()).queues
    assert (counts.queue, counts.queued, counts.running) == ("default", 3, 0)
    with pytest.raises(JobNotFoundError):
        await client.jobs.get("other", "j00001")


async def test_a_record_is_found_in_its_scope_without_its_arguments_being_read(client: Client) -> None:
    await client.jobs.submit(submission(arguments={"a": 1}))
    with recorded_statements(client.stored.engine) as statements:
        found = await client.jobs.find_record(SCOPE, "j")
    assert found == (await client.jobs.list(SCOPE))[0]
    assert "arguments" not in "".join(statements)
    assert [await client.jobs.find_record(*key) for key in [("other", "j"), (SCOPE, "J")]] == [None, None]


async def test_waiting_for_a_job_ends_when_it_is_final(client: Client) -> None:
    reference = await client.stored.submitted_and_started()
    waiting = asyncio.create_task(client.jobs.wait(SCOPE, "j", poll_seconds=0.01))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(waiting), 0.1)
    await client.stored.settle(Settlement.succeed(reference, result_reference="here"))
    assert (await waiting).result_reference == "here"
    with pytest.raises(JobNotFoundError):
        await client.jobs.wait("other", "j")
    assert checked_out(client.stored.engine) == 0


class _BusyError(Exception):
    """What a driver says of a transaction that should be begun anew."""

    sqlstate = "40001"


class _Loser(JobStore):
    """A store whose every insert loses its race at the last moment."""

    def __init__(self, stored: StoredJobs) -> None:
        super().__init__(stored.tables, clock=stored.clock)

    def submit_many(
        self, connection: Connection, submissions: Sequence[JobSubmission]
    ) -> Sequence[Submitted]:
        for _ in range(2):
            connection.execute(insert(Order).values(id=1))
        raise AssertionError("unreachable")
