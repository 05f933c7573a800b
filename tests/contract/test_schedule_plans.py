"""The plans of what hosts do all the time: by index, and bounded by the batch, whatever is stored besides.

Each database holds ten thousand schedules and as many runs that ended; its statistics are of that time.
"""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio
from sqlalchemy import Connection, insert, text, update

from jobs.schedule.storing.cause import Cause
from jobs.schedule.storing.due import DueSchedule
from jobs.schedule.storing.firing import Firing, FiringOutcome
from jobs.schedule.storing.run_identity import run_id_of
from jobs.schedule.storing.slot_plan import SlotPlan
from jobs.schedule.storing.state import find_states
from jobs.submission import JobSubmission
from tests.support.databases import KINDS, create_tables, engine_for, temporary_database_url
from tests.support.plans import Plan, plans_of
from tests.support.schedules import StoredSchedules, at, at_read_committed, metadata

SCHEDULES, ENDED, OPEN, DUE = 10_000, 10_000, 400, 100
LOOKS_AHEAD = 8
"""MariaDB reads some rows more than it takes."""
TABLES = ("jobs_schedule", "jobs_schedule_run", "jobs_schedule_action", "jobs_schedule_host", "jobs_job")

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=KINDS)
async def scheduled(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[StoredSchedules]:
    """One filled database of each kind for all tests here; each of them undoes what it did."""
    directory = tmp_path_factory.mktemp("plans")
    async with temporary_database_url(request.param, directory) as url, engine_for(url) as engine:
        await create_tables(engine, metadata)
        scheduled = StoredSchedules(at_read_committed(engine))
        await scheduled.fill(SCHEDULES)
        await runs(scheduled, ENDED, ended=True)
        await analyze(scheduled)
        await runs(scheduled, OPEN, ended=False)
        await runs(scheduled, DUE, ended=None)
        yield scheduled


async def runs(scheduled: StoredSchedules, count: int, *, ended: bool | None) -> None:
    """So many runs with jobs: settled, queued, or (None) ended and not settled yet."""
    kind = {True: "settled", False: "queued", None: "ended"}[ended]
    names = [f"crowd.{number:05d}" for number in range(count)]
    jobs = [JobSubmission.create(scope=SCOPE, job_id=f"{name}@{kind}", handler="h") for name in names]
    rows = [
        {
            "run_id": run_id_of(f"{name}@{kind}"),
            "name": name,
            "open_name": None if ended else name,
            "nominal_ticks": at(0),
            "cause": "schedule",
            "job_id": f"{name}@{kind}",
            "staged_ticks": at(0),
        }
        for name in names
    ]
    for first in range(0, count, 1000):
        await scheduled.jobs.submit(*jobs[first : first + 1000])
    job = scheduled.jobs.tables.job

    def store(connection: Connection) -> None:
        for first in range(0, count, 500):
            connection.execute(insert(scheduled.tables.run), rows[first : first + 500])
        if ended is not False:
            its = job.c.job_id.like(f"%@{kind}")
            values = {"state": "succeeded", "queued_in": None, "completed_ticks": at(0)}
            connection.execute(update(job).where(its).values(values))

    await scheduled.step(store)


async def analyze(scheduled: StoredSchedules) -> None:
    statement = {
        "sqlite": "ANALYZE",
        "postgresql": f"ANALYZE {', '.join(TABLES)}",
        "mysql": f"ANALYZE TABLE {', '.join(TABLES)}",
    }[scheduled.engine.dialect.name]
    async with scheduled.engine.connect() as connection:
        await connection.execute(text(statement))
        await connection.commit()


async def check(
    scheduled: StoredSchedules,
    work: Callable[[Connection], Any],
    *,
    most_rows: int,
    before: Callable[[Connection], Any] | None = None,
) -> None:
    """No step of any statement of `work` reads more than `most_rows` rows of our tables, or all of them."""
    for plan in await plans_of(scheduled.engine, work, before=before):
        match scheduled.engine.dialect.name:
            case "postgresql":
                check_postgresql(plan, most_rows)
            case "sqlite":
                check_sqlite(plan)
            case _:
                check_mariadb(plan, most_rows)


def check_postgresql(plan: Plan, most_rows: int) -> None:
    for node in plan.nodes:
        if node.get("Relation Name") in TABLES and "Actual Rows" in node and node["Actual Loops"]:
            assert node["Node Type"] != "Seq Scan", plan
            rows = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
            assert rows * node["Actual Loops"] <= most_rows, (rows, plan)


def check_sqlite(plan: Plan) -> None:
    for line in plan.lines:
        assert not (line.startswith("SCAN ") and line.split()[1] in TABLES and "INDEX" not in line), plan
        assert "AUTOMATIC" not in line, plan


def check_mariadb(plan: Plan, most_rows: int) -> None:
    for node in plan.nodes:
        if "access_type" in node and node.get("table_name", "<") in TABLES:
            assert node["access_type"] in {"range", "ref", "eq_ref", "const"}, plan
            assert (node.get("r_rows") or 0) * (node.get("r_loops") or 1) <= most_rows * LOOKS_AHEAD, plan


def make_due(scheduled: StoredSchedules, column: str) -> Callable[[Connection], Any]:
    """A hundred of the schedules have a slot that has come, or that waits."""
    table = scheduled.tables.schedule
    some = table.c.name.in_([f"crowd.{number:05d}" for number in range(5000, 5000 + DUE)])
    return lambda connection: connection.execute(update(table).where(some).values({column: at(0)}))


async def test_looking_for_due_slots_where_there_are_none_reads_nothing(scheduled: StoredSchedules) -> None:
    def look(connection: Connection) -> None:
        assert scheduled.store.find_due(connection)[1] == []
        assert scheduled.store.find_waiting(connection) == []

    await check(scheduled, look, most_rows=1)


async def test_looking_for_due_slots_reads_those_that_are(scheduled: StoredSchedules) -> None:
    def look(connection: Connection) -> None:
        _, found = scheduled.store.find_due(connection, limit=40)
        assert len(found) == 40
        _, found = scheduled.store.find_due(connection, after=found[-1], limit=40)
        assert found[0].name == "crowd.05040"

    await check(scheduled, look, most_rows=DUE + 1, before=make_due(scheduled, "next_fire_ticks"))


async def test_looking_for_waiting_slots_reads_those_that_wait(scheduled: StoredSchedules) -> None:
    def look(connection: Connection) -> None:
        found = scheduled.store.find_waiting(connection, limit=40)
        assert len(found) == 40
        (after, *_) = scheduled.store.find_waiting(connection, after=found[-1], limit=40)
        assert after.name == "crowd.05040"

    await check(scheduled, look, most_rows=DUE + 1, before=make_due(scheduled, "waiting_nominal_ticks"))


async def test_firing_reads_no_schedule_besides_and_no_run_that_has_ended(scheduled: StoredSchedules) -> None:
    found: list[DueSchedule] = []

    def prepare(connection: Connection) -> None:
        make_due(scheduled, "next_fire_ticks")(connection)
        found.extend(scheduled.store.find_due(connection)[1])

    def fire(connection: Connection) -> None:
        plan = SlotPlan(nominal=at(0), cause=Cause.SCHEDULE, handled=at(0), next_fire=at(60))
        job = {"overlap": "skip", "queue": "default", "max_attempts": 1, "priority": 0}
        outcomes = scheduled.store.fire(
            connection,
            [Firing(due=due, plan=plan, **job) for due in found],  # type: ignore[arg-type]
            host="host-1",
        )
        assert set(outcomes) == {FiringOutcome.FIRED}

    await check(scheduled, fire, most_rows=OPEN + DUE, before=prepare)


async def test_leaving_slots_out_reads_no_more(scheduled: StoredSchedules) -> None:
    found: list[DueSchedule] = []

    def prepare(connection: Connection) -> None:
        table = scheduled.tables.schedule
        first = table.c.name < f"crowd.{DUE:05d}"
        connection.execute(update(table).where(first).values(next_fire_ticks=at(0)))
        found.extend(scheduled.store.find_due(connection)[1])

    def fire(connection: Connection) -> None:
        plan = SlotPlan(nominal=at(0), cause=Cause.SCHEDULE, handled=at(0), next_fire=at(60))
        job = {"overlap": "skip", "queue": "default", "max_attempts": 1, "priority": 0}
        firings = [Firing(due=due, plan=plan, **job) for due in found]  # type: ignore[arg-type]
        outcomes = scheduled.store.fire(connection, firings, host="host-1")
        assert set(outcomes) == {FiringOutcome.OVERLAPPED}

    await check(scheduled, fire, most_rows=OPEN + DUE, before=prepare)


async def test_settling_reads_the_runs_that_are_open(scheduled: StoredSchedules) -> None:
    def settle(connection: Connection) -> None:
        assert scheduled.store.settle_runs(connection) == DUE

    await check(scheduled, settle, most_rows=OPEN + DUE)


async def test_records_of_a_run_and_of_a_host_are_found_by_their_keys(scheduled: StoredSchedules) -> None:
    run_id = run_id_of("crowd.00007@queued")

    def record(connection: Connection) -> None:
        scheduled.store.record_begun(connection, run_id, attempt=1)
        scheduled.store.record_ended(connection, run_id, attempt=1)
        assert scheduled.store.find_run(connection, run_id) is not None
        scheduled.store.pause(connection, "crowd.00007", actor="ann", reason="audit")
        scheduled.store.resume(connection, "crowd.00007", trigger=None, actor="ann", reason="audit")

    await check(scheduled, record, most_rows=1)


async def test_the_history_of_a_schedule_is_read_by_its_index(scheduled: StoredSchedules) -> None:
    def look(connection: Connection) -> None:
        assert len(scheduled.store.runs(connection, "crowd.00007", limit=50)) == 3

    await check(scheduled, look, most_rows=3)


async def test_the_last_run_of_each_schedule_is_looked_up(scheduled: StoredSchedules) -> None:
    plans = await plans_of(
        scheduled.engine, lambda connection: find_states(connection, scheduled.store._ground), before=None
    )
    assert len(plans) == 2
    if scheduled.engine.dialect.name == "postgresql":
        rows = [
            node["Actual Rows"] * node["Actual Loops"]
            for node in plans[0].nodes
            if node.get("Relation Name") == "jobs_schedule_run"
        ]
        assert max(rows) <= 2 * (ENDED + OPEN + DUE)


SCOPE = "selfmanaged.schedules"
