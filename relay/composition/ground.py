"""What all loops of one App share: stores, participants and the calls that wake others."""

from dataclasses import dataclass
from typing import Final

from inbox.participant import ReceiptParticipant
from inbox.store import InboxStore
from inbox.table import inbox_table
from jobs.client import Jobs
from jobs.completion import JobCompletionParticipant
from jobs.participant import JobParticipant
from jobs.schedule.batching.cursor import BatchCursor
from jobs.schedule.batching.cursor_store import CursorStore
from jobs.schedule.batching.cursor_table import cursor_table
from jobs.schedule.hosting.client import Schedules
from jobs.schedule.leasing.named_lease import NamedLeases
from jobs.schedule.storing.store import ScheduleStore
from jobs.schedule.storing.table import SchedulesNotMappedError
from jobs.store import JobStore
from jobs.table import JobsNotMappedError
from outbox.participant import OutboxParticipant
from outbox.store import OutboxStore
from outbox.table import outbox_table
from relay.composition.parts import AppParts
from uow.participant import Participant
from uow.sql.lease import LeaseStore, lease_table
from uow.unit import SelfManagedUnitOfWork
from uow.wakeup import INBOX_CHANNEL, JOBS_CHANNEL, CommitSignal

_LEFT_OUT: Final = (
    "the tables of {0} were left out; call relay.add_messaging_tables(metadata) without {0}=False"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobGround:
    """The store of jobs, the client on it, and the call after a commit that queued jobs."""

    store: JobStore
    client: Jobs
    committed: CommitSignal


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleGround:
    """The store of schedules, the client on it, and the store of cursors."""

    store: ScheduleStore
    client: Schedules
    cursors: CursorStore


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessGround:
    """What all loops of one App share. jobs, schedules: None when their tables were left out."""

    parts: AppParts
    outbox: OutboxStore
    inbox: InboxStore
    leases: LeaseStore
    named_leases: NamedLeases
    jobs: JobGround | None
    schedules: ScheduleGround | None
    participants: tuple[Participant, ...]
    committed: CommitSignal
    handed_over: CommitSignal

    @property
    def job_client(self) -> Jobs:
        """The client of jobs. Raises JobsNotMappedError when their tables were left out."""
        if self.jobs is None:
            raise JobsNotMappedError(_LEFT_OUT.format("jobs"))
        return self.jobs.client

    @property
    def schedule_client(self) -> Schedules:
        """The client of schedules. Raises SchedulesNotMappedError when their tables were left out."""
        if self.schedules is None:
            raise SchedulesNotMappedError(_LEFT_OUT.format("schedules"))
        return self.schedules.client

    def cursor(self, name: str, *, tenant: str | None) -> BatchCursor:
        """A cursor. Raises SchedulesNotMappedError when the tables of schedules were left out."""
        if self.schedules is None:
            raise SchedulesNotMappedError(_LEFT_OUT.format("schedules"))
        return BatchCursor(self.parts.engine, self.schedules.cursors, name, tenant=tenant)

    def unit_of_work(self) -> SelfManagedUnitOfWork:
        """A new unit of work in which events are enqueued, jobs staged and receipts completed."""
        return SelfManagedUnitOfWork(self.parts.sessions, self.participants, options=self.parts.options.unit)

    def handler_unit(self) -> SelfManagedUnitOfWork:
        """A new unit of work for one run of a handler."""
        return SelfManagedUnitOfWork(
            self.parts.handler_sessions, self.participants, options=self.parts.options.unit
        )

    async def close(self) -> None:
        """Close the connections that wake other processes."""
        signals = [self.committed, self.handed_over]
        for signal in signals if self.jobs is None else [*signals, self.jobs.committed]:
            await signal.close()


def ground_of(parts: AppParts) -> ProcessGround:
    """Stores, participants and signals on the database of these parts; no I/O."""
    outbox = OutboxStore(outbox_table(parts.metadata), options=parts.options.outbox)
    inbox = InboxStore(inbox_table(parts.metadata), options=parts.options.inbox)
    committed = CommitSignal(parts.engine)
    jobs, leases = _jobs_of(parts), LeaseStore(lease_table(parts.metadata))
    participants: list[Participant] = [
        OutboxParticipant(parts.contracts, outbox, on_committed=committed),
        ReceiptParticipant(inbox),
    ]
    if jobs is not None:
        participants += [
            JobParticipant(jobs.store, on_committed=jobs.committed),
            JobCompletionParticipant(jobs.store),
        ]
    return ProcessGround(
        parts=parts,
        outbox=outbox,
        inbox=inbox,
        leases=leases,
        named_leases=NamedLeases(parts.engine, leases),
        jobs=jobs,
        schedules=None if jobs is None else _schedules_of(parts, jobs, leases),
        participants=tuple(participants),
        committed=committed,
        handed_over=CommitSignal(parts.engine, channel=INBOX_CHANNEL),
    )


def _jobs_of(parts: AppParts) -> JobGround | None:
    if parts.work.job_tables is None:
        return None
    store = JobStore(parts.work.job_tables, options=parts.options.jobs)
    committed = CommitSignal(parts.engine, channel=JOBS_CHANNEL)
    client = Jobs(parts.sessions, store, on_committed=committed)
    return JobGround(store=store, client=client, committed=committed)


def _schedules_of(parts: AppParts, jobs: JobGround, leases: LeaseStore) -> ScheduleGround | None:
    if parts.work.schedule_tables is None:
        return None
    store = ScheduleStore(parts.work.schedule_tables, jobs.store)
    client = Schedules(parts.engine, store, parts.work.schedules, leases=leases, committed=jobs.committed)
    cursors = CursorStore(cursor_table(parts.metadata))
    return ScheduleGround(store=store, client=client, cursors=cursors)
