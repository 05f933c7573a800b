"""All options of one App, grouped by the component that obeys them."""

from dataclasses import dataclass, field

from inbox.options import InboxOptions
from jobs.execution.options import ExecutorOptions
from jobs.options import JobOptions
from jobs.schedule.hosting.options import ScheduleOptions
from outbox.options import OutboxOptions
from relay.kombu_broker.options import BrokerOptions
from relay.options import RelayOptions
from uow.unit_options import UnitOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class AppOptions:
    """Options of an App. Every group has defaults that suit production.

    outbox: batches, publishing lease, retries, retention. inbox: processing lease, timeout, retries,
    concurrency, prefetch, retention. jobs: the lease and the retention of jobs. executor: queues, concurrency
    and polling of executors of jobs. schedules: ticks of hosts of schedules. relay: polling, stop grace,
    diagnostics. broker: names, timeouts, TLS; without effect with `local:`. unit: how long a unit of work
    waits for a database that does not answer.
    allow_lossy_broker: accept, in production, a transport that can lose messages (memory, filesystem,
    SQLAlchemy, and those never tested).
    declare_topology: create what is missing on the broker at each start; for development only.
    """

    outbox: OutboxOptions = field(default_factory=OutboxOptions)
    inbox: InboxOptions = field(default_factory=InboxOptions)
    jobs: JobOptions = field(default_factory=JobOptions)
    executor: ExecutorOptions = field(default_factory=ExecutorOptions)
    schedules: ScheduleOptions = field(default_factory=ScheduleOptions)
    relay: RelayOptions = field(default_factory=RelayOptions)
    broker: BrokerOptions = field(default_factory=BrokerOptions)
    unit: UnitOptions = field(default_factory=UnitOptions)
    allow_lossy_broker: bool = False
    declare_topology: bool = False
