"""The composition root: everything of one application put together by plain constructor calls."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker

from inbox.handlers import Consumer
from jobs.client import Jobs
from jobs.execution.handler import JobHandler
from jobs.execution.registry import JobRegistry, handlers_of
from jobs.schedule.batching.cursor import BatchCursor
from jobs.schedule.hosting.client import Schedules
from jobs.schedule.hosting.release_gate import release_problems
from jobs.schedule.leasing.named_lease import NamedLeases
from outbox.failure import OutboxCounts
from relay.admin.status import Status
from relay.broker import BrokerUnavailableError, TopologyError, TopologyPart
from relay.composition.administration import dead_queues_of, failed_messages_of
from relay.composition.app_options import AppOptions
from relay.composition.check import AppConfigurationError
from relay.composition.database_check import DatabaseCheck, DatabaseUnavailableError
from relay.composition.executing import NothingToRunError
from relay.composition.ground import ground_of
from relay.composition.own_package import check_own_packages
from relay.composition.parts import checked_parts
from relay.composition.probes import probes_of
from relay.composition.process import Process
from relay.composition.service import run_components
from relay.composition.topology_gate import TopologyGate
from relay.health import Health
from relay.local_broker import LOCAL_URL
from relay.schema import SchemaDifference
from uow.contracts import Contracts
from uow.sql.durability import durability_faults
from uow.sql.step import run_step
from uow.unit import SelfManagedUnitOfWork

if TYPE_CHECKING:
    from jobs.schedule.declaring.module import ScheduleModule
    from jobs.schedule.declaring.override import ScheduleOverrides

__all__ = ["App", "AppConfigurationError", "DatabaseUnavailableError", "Environment", "NothingToRunError"]

Environment = Literal["development", "production"]


class App:
    """One application: its database, its contracts, its broker and its consumers.

    engine, or sessions (an `async_sessionmaker` bound to one engine): the application's database.
    metadata: the MetaData to which `add_messaging_tables` was applied. contracts: the registered events.
    broker: `local:` (events go to the inbox of the same database) or a kombu URL such as
    `amqp://user:password@host//`. consumers: those that this application hosts. jobs: the registries of its
    handlers of jobs. schedules: the modules with its schedules; schedule_overrides: what this deployment
    changes of them. options: AppOptions, or a mapping such as `{"outbox": {"batch_size": 100}}`.
    environment: outside `development` transports that can lose messages are refused.

    Everything is checked at once and without I/O. Raises AppConfigurationError, whose `problems` name each
    fault with what to do about it. Several Apps (other databases, other schemas) live in one process.
    The engine stays the application's: `close` does not dispose it.
    """

    def __init__(
        self,
        *,
        engine: AsyncEngine | None = None,
        sessions: async_sessionmaker[AsyncSession] | None = None,
        metadata: MetaData,
        contracts: Contracts,
        broker: str = LOCAL_URL,
        consumers: Sequence[Consumer] = (),
        jobs: Sequence[JobRegistry] = (),
        schedules: Sequence["ScheduleModule"] = (),
        schedule_overrides: Sequence["ScheduleOverrides"] = (),
        options: AppOptions | Mapping[str, Any] | None = None,
        environment: Environment = "production",
    ) -> None:
        check_own_packages()
        self._parts = checked_parts(
            engine=engine,
            sessions=sessions,
            metadata=metadata,
            contracts=contracts,
            broker=broker,
            consumers=consumers,
            jobs=jobs,
            schedules=schedules,
            schedule_overrides=schedule_overrides,
            options=options,
            environment=environment,
        )
        self._ground = ground_of(self._parts)
        self._topology = TopologyGate(self._parts)
        self._database = DatabaseCheck(self._parts.engine, metadata)
        self.failed = failed_messages_of(self._ground)
        self.dead = dead_queues_of(self._ground)
        self.health = Health(probes_of(self._parts, self._database, self._topology))

    @property
    def engine(self) -> AsyncEngine:
        """The engine of the application's database."""
        return self._parts.engine

    @property
    def metadata(self) -> MetaData:
        """The application's MetaData."""
        return self._parts.metadata

    @property
    def options(self) -> AppOptions:
        """The options in force."""
        return self._parts.options

    @property
    def consumers(self) -> tuple[Consumer, ...]:
        """The consumers that this App hosts."""
        return self._parts.consumers

    @property
    def jobs(self) -> Jobs:
        """Submitting, staging, looking at and controlling jobs. Raises JobsNotMappedError without tables."""
        return self._ground.job_client

    @property
    def schedules(self) -> Schedules:
        """Looking at schedules and controlling them. Raises SchedulesNotMappedError without tables."""
        return self._ground.schedule_client

    @property
    def leases(self) -> NamedLeases:
        """Named leases, so that one owner at a time does a piece of work, however it was started."""
        return self._ground.named_leases

    def cursor(self, name: str, *, tenant: str | None = None) -> BatchCursor:
        """How far the batch work of this name has come, for one tenant. Raises TextError.

        Raises SchedulesNotMappedError without the tables of schedules.
        """
        return self._ground.cursor(name, tenant=tenant)

    @property
    def job_handlers(self) -> tuple[JobHandler, ...]:
        """The handlers of jobs of all registries."""
        return tuple(handlers_of(self._parts.work.registries).values())

    @property
    def database_display(self) -> str:
        """The address of the database without its password."""
        return self._database.display_url

    @property
    def broker_display(self) -> str:
        """The address of the broker without its password."""
        broker = self._parts.broker
        return LOCAL_URL if broker is None else broker.display_url

    def unit_of_work(self) -> SelfManagedUnitOfWork:
        """A new unit of work on this application's database; one per request, message or job."""
        return self._ground.unit_of_work()

    async def run_relay(self, stop: asyncio.Event | None = None, *, relays: int = 1) -> None:
        """Publish what the outbox holds until `stop` is set (or the task is cancelled).

        relays: how many relays share the work in this process (1 to 64); each has its own connection to the
        broker. Raises, before anything runs, DatabaseUnavailableError, SchemaError, TopologyError (run
        `selfmanaged topology declare`), or NothingToRunError; a broker that is away is waited for.
        """
        await self._run(Process(self._ground, relays=relays, consumers=False), stop)

    async def run_consumers(
        self, stop: asyncio.Event | None = None, *, only: Collection[str] | None = None
    ) -> None:
        """Run the handlers of all consumers, or of those named in `only`, until `stop` is set.

        Raises as `run_relay` does.
        """
        await self._run(Process(self._ground, relays=0, consumers=True, only=only), stop)

    async def run_jobs(
        self,
        stop: asyncio.Event | None = None,
        *,
        queues: Collection[str] | None = None,
        schedules: bool = True,
    ) -> None:
        """Run due jobs until `stop` is set, of the queues of the options or of `queues`.

        With `schedules` it hosts the App's schedules, too, unless the option says otherwise. Needs no broker.
        Raises DatabaseUnavailableError, SchemaError or NothingToRunError.
        """
        hosting = schedules and self.options.schedules.enabled
        process = Process(
            self._ground, relays=0, consumers=False, jobs=True, queues=queues, schedules=hosting
        )
        await self._run(process, stop, broker=False)

    async def run(self, stop: asyncio.Event | None = None) -> None:
        """Relay, consumers, executor and host in one process, until `stop` is set; what it has of these.

        Raises as `run_relay` does.
        """
        jobs = bool(self.job_handlers or self._parts.work.schedules)
        process = Process(
            self._ground,
            relays=0 if jobs and not self.consumers and self._parts.broker is None else 1,
            consumers=bool(self.consumers),
            jobs=jobs,
            schedules=self.options.schedules.enabled,
        )
        await self._run(process, stop)

    async def check_database(self) -> None:
        """Raises DatabaseUnavailableError, or SchemaError when our tables are missing or differ."""
        await self._database.check_schema()

    async def schema_differences(self) -> list[SchemaDifference]:
        """In what the database differs from our tables. Raises DatabaseUnavailableError."""
        return await self._database.differences()

    async def declare_topology(self) -> list[TopologyPart]:
        """Create what is missing on the broker; what exists is left as it is. Empty with `local:`.

        Raises BrokerUnavailableError.
        """
        return await self._topology.declare()

    async def check_topology(self) -> list[TopologyPart]:
        """How everything stands on the broker, without changing it. Empty with `local:`.

        Raises BrokerUnavailableError.
        """
        return await self._topology.check()

    async def status(self) -> Status:
        """How much is stored and waiting. A broker that is away is told in the answer."""
        outbox, inbox = await run_step(
            self._parts.engine, lambda c: (self._ground.outbox.counts(c), self._ground.inbox.counts(c))
        )
        jobs = None if self._ground.jobs is None else await self._ground.jobs.client.counts()
        try:
            dead, unknown = await self.dead.counts(), None
        except (BrokerUnavailableError, TopologyError) as error:
            dead, unknown = {}, str(error)
        return Status(
            outbox=outbox, inbox=inbox, jobs=jobs, dead_deliveries=dead, dead_deliveries_unknown=unknown
        )

    async def release_problems(self) -> list[str]:
        """What speaks against releasing this App now, one sentence each: its database, and its schedules."""
        faults = await run_step(self._parts.engine, durability_faults)
        problems = [f"database: {fault}" for fault in faults]
        if self._parts.work.schedules:
            problems += release_problems(await self.schedules.report())
        return problems

    async def outbox_counts(self) -> OutboxCounts:
        """How many events wait in each state."""
        return await run_step(self._parts.engine, self._ground.outbox.counts)

    async def close(self) -> None:
        """Close connections to the broker and those that wake other processes; the engine stays open."""
        await self._ground.close()
        if self._parts.broker is not None:
            await self._parts.broker.close()

    async def _run(self, process: Process, stop: asyncio.Event | None, *, broker: bool = True) -> None:
        await self.check_database()
        if broker:
            await self._topology.prepare()
        stopping = stop or asyncio.Event()
        probes = process.probes
        self.health.start(probes)
        unready = asyncio.create_task(self._be_unready_after(stopping))
        try:
            await run_components(process.components, stopping)
        finally:
            unready.cancel()
            self.health.stop()
            self.health.end(probes)

    async def _be_unready_after(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self.health.stop()
