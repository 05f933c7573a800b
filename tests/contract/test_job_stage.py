"""Jobs staged in a unit of work are kept with it or not at all, with its rows and events."""

from typing import Any

import pytest
from sqlalchemy import insert, text

from jobs import (
    AttemptFencedError,
    AttemptMissingError,
    AttemptReference,
    JobCancelledError,
    JobCompletion,
    JobIdentityConflictError,
    Jobs,
)
from tests.support.job_shop import Shop
from tests.support.jobs import SCOPE, StoredJobs, submission, submissions
from tests.support.statements import recorded_statements
from uow import NoParticipantError, RollbackOnlyError, SelfManagedUnitOfWork, UnitNotActiveError
from uow.sql.dialect import database_of

pytest_plugins = ("tests.support.jobs_fixture",)


@pytest.fixture
async def shop(stored: StoredJobs) -> Shop:
    shop = Shop(stored.engine)
    await shop.clear()
    return shop


async def test_a_job_is_kept_with_rows_and_events_in_one_commit(shop: Shop) -> None:
    async with shop.unit() as unit:
        await shop.write(unit)
        staged = unit.stage(submission())
        assert staged.key == submission().key
    assert await shop.counts() == (1, 1, 1)
    assert shop.woken == 1
    assert (await shop.jobs.get()).state == "queued"


async def test_a_job_goes_with_the_unit_that_fails(shop: Shop) -> None:
    with pytest.raises(ZeroDivisionError):  # noqa: PT012 - the block of the unit
        async with shop.unit() as unit:
            await shop.write(unit)
            unit.stage(submission())
            raise ZeroDivisionError
    assert await shop.counts() == (0, 0, 0)
    assert shop.woken == 0


async def test_a_job_goes_with_the_savepoint_it_was_staged_in(shop: Shop) -> None:
    async with shop.unit() as unit:
        unit.stage(submission("kept"))
        with pytest.raises(ZeroDivisionError):  # noqa: PT012 - the block of the unit
            async with unit.session.begin_nested():
                unit.stage(submission("gone"))
                raise ZeroDivisionError
    assert await shop.counts() == (0, 0, 1)


async def test_staging_needs_an_open_unit_that_knows_jobs(shop: Shop) -> None:
    unit = shop.unit()
    with pytest.raises(UnitNotActiveError):
        unit.stage(submission())
    with pytest.raises(NoParticipantError):
        async with SelfManagedUnitOfWork(shop.sessions) as without:
            without.stage(submission())
    with pytest.raises(TypeError, match="a JobSubmission takes no options, not priority"):
        async with shop.unit() as open_unit:
            open_unit.stage(submission(), priority=1)
    with pytest.raises(TypeError, match=r"unit\.stage\(submission\)"):
        async with shop.unit() as open_unit:
            open_unit.enqueue(submission())


async def test_staging_executes_nothing_before_the_unit_commits(shop: Shop) -> None:
    client = Jobs(shop.sessions, shop.jobs.store)
    async with shop.unit() as unit:
        with recorded_statements(shop.jobs.engine) as statements:
            client.stage(unit, submission())
            client.stage_many(unit, submissions(20))
        assert statements == []
    assert await shop.counts() == (0, 0, 21)


@pytest.mark.parametrize("count", [1, 40, 400])
async def test_staging_many_costs_the_statements_of_one(shop: Shop, count: int) -> None:
    client = Jobs(shop.sessions, shop.jobs.store)
    with recorded_statements(shop.jobs.engine) as statements:
        async with shop.unit() as unit:
            client.stage_many(unit, submissions(count))
    expected = 2 if database_of(shop.jobs.engine).name == "mysql" else 1
    assert len(statements) == expected, statements
    with recorded_statements(shop.jobs.engine) as statements:
        async with shop.unit() as unit:
            client.stage_many(unit, submissions(count))
    again = {"mysql": 3, "postgresql": 3, "sqlite": 2}[database_of(shop.jobs.engine).name]
    assert len(statements) == again, statements


async def test_an_equal_job_staged_twice_is_stored_once(shop: Shop) -> None:
    async with shop.unit() as unit:
        first = unit.stage(submission(arguments={"a": 1}))
        assert unit.stage(submission(arguments={"a": 1}, priority=9)) is first
    assert await shop.counts() == (0, 0, 1)


async def test_another_request_under_a_staged_identity_rolls_everything_back(shop: Shop) -> None:
    with pytest.raises(RollbackOnlyError) as caught:  # noqa: PT012 - the block of the unit
        async with shop.unit() as unit:
            await shop.write(unit)
            unit.stage(submission(queue="a"))
            with pytest.raises(JobIdentityConflictError):
                unit.stage(submission(queue="b"))
    assert isinstance(caught.value.first_cause, JobIdentityConflictError)
    assert await shop.counts() == (0, 0, 0)


async def test_a_job_that_is_stored_already_leaves_the_unit_as_it_is(shop: Shop) -> None:
    await shop.jobs.submit(submission())
    before = await shop.jobs.rows()
    async with shop.unit() as unit:
        await shop.write(unit)
        unit.stage(submission())
    assert await shop.counts() == (1, 1, 1)
    assert await shop.jobs.rows() == before


async def test_a_conflict_with_a_stored_job_rolls_back_rows_and_events(shop: Shop) -> None:
    await shop.jobs.submit(submission(queue="a"))
    with pytest.raises(JobIdentityConflictError):  # noqa: PT012 - the block of the unit
        async with shop.unit() as unit:
            await shop.write(unit)
            await unit.session.flush()
            unit.stage(submission("new"))
            unit.stage(submission(queue="b"))
    assert await shop.counts() == (0, 0, 1)
    assert shop.woken == 0


async def test_a_duplicate_does_not_abort_the_transaction_of_the_unit(shop: Shop) -> None:
    """It is written while others write: the statement after it must still work."""
    await shop.jobs.submit(submission())
    wrote: list[int] = []

    class Last:
        """Writes after the jobs, in the same transaction."""

        def accepts(self, item: object) -> bool:
            return isinstance(item, int)

        def stage(self, item: Any, **options: Any) -> Any:
            from uow import Staged

            return Staged(key=item, content=item, value=item)

        def conflict(self, staged: Any, earlier: Any) -> Exception:
            return ValueError()

        def write(self, connection: Any, staged: Any) -> str | None:
            connection.execute(insert(shop.note).values(id=7, text="after"))
            wrote.append(7)
            return None

        def committed(self, staged: Any) -> None:
            pass

    async with SelfManagedUnitOfWork(shop.sessions, (*shop.participants, Last())) as unit:
        unit.stage(submission())
        unit.stage(submission("new"))
        unit.stage(1)
    assert wrote == [7]
    assert await shop.counts() == (1, 0, 2)


@pytest.mark.parametrize("database_kind", ["postgresql"])
async def test_the_units_transaction_id_is_told_by_the_insert(shop: Shop) -> None:
    participant = shop.participants[1]
    staged = [participant.stage(each) for each in submissions(3)]
    told = await shop.jobs.step(lambda connection: participant.write(connection, staged))
    asked = text("SELECT pg_xact_status(CAST(CAST(:id AS text) AS xid8))")
    status = await shop.jobs.step(lambda connection: connection.execute(asked, {"id": told}).scalar())
    assert status == "committed"


class TestCompletion:
    """The success of a job inside the unit that holds its effects."""

    async def complete(self, shop: Shop, reference: AttemptReference) -> None:
        async with shop.unit() as unit:
            await shop.write(unit)
            unit.stage(submission("follow-up"))
            unit.stage(JobCompletion(reference=reference, result_reference="s3://a"))

    async def test_effects_events_further_jobs_and_success_commit_together(self, shop: Shop) -> None:
        reference = await shop.jobs.submitted_and_started()
        await self.complete(shop, reference)
        assert await shop.counts() == (1, 1, 2)
        assert await shop.jobs.states() == ("succeeded", ["succeeded"])
        assert (await shop.jobs.get()).result_reference == "s3://a"

    async def test_a_stale_token_rolls_all_of_it_back(self, shop: Shop) -> None:
        stale = await shop.jobs.submitted_and_started()
        shop.jobs.advance(60)
        await shop.jobs.step(shop.jobs.store.recover_expired)
        current = (await shop.jobs.start()).reference
        with pytest.raises(AttemptFencedError) as caught:
            await self.complete(shop, stale)
        assert caught.value.reference == stale
        assert await shop.counts() == (0, 0, 1)
        await self.complete(shop, current)
        assert await shop.jobs.states() == ("succeeded", ["interrupted", "succeeded"])

    async def test_an_expired_lease_rolls_all_of_it_back(self, shop: Shop) -> None:
        reference = await shop.jobs.submitted_and_started()
        shop.jobs.advance(60)
        with pytest.raises(AttemptFencedError):
            await self.complete(shop, reference)
        assert await shop.counts() == (0, 0, 1)

    async def test_a_cancellation_that_came_first_rolls_all_of_it_back(self, shop: Shop) -> None:
        reference = await shop.jobs.submitted_and_started()
        await shop.jobs.step(shop.jobs.store.cancel, SCOPE, "j")
        with pytest.raises(JobCancelledError):
            await self.complete(shop, reference)
        assert await shop.counts() == (0, 0, 1)
        assert await shop.jobs.states() == ("running", ["running"])

    async def test_a_missing_attempt_rolls_all_of_it_back(self, shop: Shop) -> None:
        reference = await shop.jobs.submitted_and_started()
        await shop.jobs.step(lambda connection: connection.execute(shop.jobs.tables.attempt.delete()))
        with pytest.raises(AttemptMissingError):
            await self.complete(shop, reference)
        assert await shop.counts() == (0, 0, 1)
        assert (await shop.jobs.get()).state == "running"

    async def test_one_job_is_completed_once_in_a_unit(self, shop: Shop) -> None:
        reference = await shop.jobs.submitted_and_started()
        async with shop.unit() as unit:
            completion = JobCompletion(reference=reference)
            assert unit.stage(completion) is unit.stage(JobCompletion(reference=reference))
        with pytest.raises(AttemptFencedError):  # noqa: PT012 - the block of the unit
            async with shop.unit() as unit:
                unit.stage(JobCompletion(reference=reference))
                unit.stage(JobCompletion(reference=reference, result_reference="other"))
