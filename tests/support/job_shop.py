"""An application with business rows, an outbox and jobs in one database."""

from dataclasses import dataclass
from uuid import UUID, uuid4

from sqlalchemy import Connection, MetaData, delete, func, insert, select
from sqlalchemy.ext.asyncio import AsyncEngine, async_sessionmaker

from jobs import JobCompletionParticipant, JobParticipant, add_job_tables
from outbox import OutboxParticipant, OutboxStore, add_outbox_table
from tests.support.jobs import StoredJobs
from tests.support.unit_of_work import note_table
from uow import SelfManagedUnitOfWork, UtcInstant
from uow.contracts import Contracts
from uow.sql.lease import add_lease_table

contracts = Contracts()
metadata = MetaData()
note = note_table.to_metadata(metadata)
outbox = add_outbox_table(metadata)
add_job_tables(metadata)
leases = add_lease_table(metadata)


@contracts.event("invoices.requested", version=1)
@dataclass(frozen=True)
class InvoiceRequested:
    id: UUID
    occurred_at: UtcInstant


class Shop:
    """Makes units of work on all of it, and counts the wake-ups of executors."""

    def __init__(self, engine: AsyncEngine, jobs: StoredJobs | None = None) -> None:
        self.note = note
        self.outbox = outbox
        self.jobs = jobs or StoredJobs(engine, metadata=metadata)
        self.sessions = async_sessionmaker(engine, expire_on_commit=False)
        self.woken = 0
        self.participants = (
            OutboxParticipant(contracts, OutboxStore(outbox)),
            JobParticipant(self.jobs.store, on_committed=self.wake),
            JobCompletionParticipant(self.jobs.store),
        )

    def wake(self) -> None:
        self.woken += 1

    def unit(self) -> SelfManagedUnitOfWork:
        return SelfManagedUnitOfWork(self.sessions, self.participants)

    async def write(self, unit: SelfManagedUnitOfWork, number: int = 1) -> None:
        """A business row and an event."""
        await unit.session.execute(insert(note).values(id=number, text="hello"))
        unit.enqueue(InvoiceRequested(uuid4(), UtcInstant.now()))

    async def counts(self) -> tuple[int, int, int]:
        """How many business rows, events and jobs are stored."""
        tables = (note, outbox, self.jobs.tables.job)
        query = select(*(select(func.count()).select_from(table).scalar_subquery() for table in tables))
        rows, events, jobs = await self.jobs.step(lambda connection: connection.execute(query).one())
        return rows, events, jobs

    async def clear(self) -> None:
        """Delete everything that is stored."""

        def delete_all(connection: Connection) -> None:
            for table in metadata.sorted_tables:
                connection.execute(delete(table))

        await self.jobs.step(delete_all)
