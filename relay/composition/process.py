"""The loops of one process, put together from the parts of an App."""

from collections.abc import Collection
from typing import Final

from inbox.handlers import Consumer
from inbox.receiver import Receiver
from relay.broker import ConsumerBinding, TopologyError
from relay.composition.executing import (
    NothingToRunError,
    make_executor,
    make_job_housekeeping,
    make_schedule_host,
)
from relay.composition.ground import ProcessGround
from relay.composition.service import Component
from relay.consuming.host import ConsumerHost
from relay.consuming.hosted import HostedConsumer
from relay.consuming.single_writer import fit_to_lease, slots_for
from relay.consuming.subscription import check_consumer
from relay.health import Probe, Readiness
from relay.housekeeping import Housekeeping
from relay.local_broker import LocalOutlet
from relay.publishing.outlet import BrokerOutlet, Outlet
from relay.publishing.publisher import OutboxRelay
from uow.errors import TryAgainError
from uow.loop.notification import NotificationListener
from uow.loop.slots import Slots
from uow.loop.supervision import LoopHealth
from uow.sql.dialect import database_of
from uow.wakeup import INBOX_CHANNEL, JOBS_CHANNEL, OUTBOX_CHANNEL

RELAY_LIMIT: Final = 64
"""No process drives more relays than this."""


class LoopFailingError(TryAgainError):
    """A loop of this process fails at each round; its log says why."""


class Process:
    """The loops that one process runs: relays, the host of some consumers, or both.

    relays: how many (0 to 64). only: host these consumers instead of all. jobs: run the executor of jobs;
    queues: those it serves instead of the option's. schedules: host the App's schedules. Raises
    NothingToRunError or UnknownConsumerError.
    """

    def __init__(
        self,
        ground: ProcessGround,
        *,
        relays: int,
        consumers: bool,
        only: Collection[str] | None = None,
        jobs: bool = False,
        queues: Collection[str] | None = None,
        schedules: bool = False,
    ) -> None:
        self._ground = ground
        hosted = _chosen(ground, only) if consumers else []
        if not 0 <= relays <= RELAY_LIMIT:
            raise ValueError(f"relays must be between 1 and {RELAY_LIMIT}, not {relays}")
        self._relays = [self._make_relay(number) for number in range(1, relays + 1)]
        self._host = self._make_host(hosted) if hosted else None
        self._executor = make_executor(ground, queues=queues) if jobs else None
        self._schedule_host = make_schedule_host(ground) if schedules else None
        self._job_housekeeping = make_job_housekeeping(ground) if jobs else None
        self._housekeeping = Housekeeping(
            ground.parts.engine,
            ground.outbox,
            ground.inbox,
            ground.leases,
            provider=ground.parts.provider,
            broker=ground.parts.broker,
            consumers=[consumer.name for consumer in ground.parts.consumers],
            options=ground.parts.options.relay,
        )
        calls = {OUTBOX_CHANNEL: ground.committed.local, INBOX_CHANNEL: ground.handed_over.local}
        if ground.jobs is not None:
            calls[JOBS_CHANNEL] = ground.jobs.committed.local
        self._listener = NotificationListener(ground.parts.engine, calls)

    @property
    def components(self) -> list[Component]:
        """The loops, to be run side by side."""
        loops: list[Component | None] = [
            *self._relays,
            self._host,
            self._executor,
            self._schedule_host,
            self._job_housekeeping,
            self._housekeeping,
            self._listener,
        ]
        return [loop for loop in loops if loop is not None]

    @property
    def probes(self) -> list[Probe]:
        """What to look at while they run. A loop that fails or a queue that gives nothing is degraded."""
        probes = [Probe(name="loops", look=self._require_loops, otherwise=Readiness.DEGRADED)]
        if self._host is not None and self._ground.parts.broker is not None:
            probes.append(Probe(name="consumers", look=self._require_consumers, otherwise=Readiness.DEGRADED))
        return probes

    def _make_relay(self, number: int) -> OutboxRelay:
        ground = self._ground
        if ground.parts.broker is None and not ground.parts.bindings:
            raise NothingToRunError(
                "this App has broker='local:' and no consumers, so every event would be unroutable; "
                "give it the consumers, or a broker"
            )
        return OutboxRelay(
            ground.parts.engine,
            ground.outbox,
            self._outlet(),
            wake=ground.committed.local,
            options=ground.parts.options.relay,
            name=f"relay {number}",
        )

    def _outlet(self) -> Outlet:
        parts = self._ground.parts
        if parts.broker is None:
            return LocalOutlet(self._ground.inbox, parts.bindings, wake=self._ground.handed_over)
        return BrokerOutlet(parts.broker, provider=parts.provider)

    def _make_host(self, hosted: list[HostedConsumer]) -> ConsumerHost:
        ground = self._ground
        return ConsumerHost(
            ground.parts.engine,
            ground.inbox,
            hosted,
            lease_seconds=ground.parts.options.inbox.lease_seconds,
            broker=ground.parts.broker,
            provider=ground.parts.provider,
            wake=ground.handed_over.local,
            options=ground.parts.options.relay,
        )

    async def _require_loops(self) -> None:
        loops: list[LoopHealth] = [relay.health for relay in self._relays]
        loops += [] if self._host is None else self._host.health
        loops += self._housekeeping.health
        loops += [] if self._executor is None else self._executor.health
        loops += [] if self._schedule_host is None else [self._schedule_host.health]
        loops += [] if self._job_housekeeping is None else self._job_housekeeping.health
        failing = [f"{loop.name} ({loop.last_error})" for loop in loops if loop.failing_since is not None]
        if failing:
            raise LoopFailingError(f"failing: {', '.join(failing)}")

    async def _require_consumers(self) -> None:
        connected = {} if self._host is None else self._host.connected
        away = sorted(name for name, is_connected in connected.items() if not is_connected)
        if away:
            raise TopologyError(f"not receiving: {', '.join(away)}")


def _chosen(ground: ProcessGround, only: Collection[str] | None) -> list[HostedConsumer]:
    parts = ground.parts
    names = [consumer.name for consumer in parts.consumers]
    for name in only or ():
        check_consumer(name, names)
    if not names:
        raise NothingToRunError("this App has no consumers; give it some: App(..., consumers=[...])")
    shared = slots_for(database_of(parts.engine))
    return [
        _hosted(ground, consumer, binding, shared)
        for consumer, binding in zip(parts.consumers, parts.bindings, strict=True)
        if only is None or consumer.name in only
    ]


def _hosted(
    ground: ProcessGround, consumer: Consumer, binding: ConsumerBinding, shared_slots: Slots | None
) -> HostedConsumer:
    parts = ground.parts
    receiver = Receiver(
        consumer,
        engine=parts.engine,
        unit_of_work=ground.handler_unit,
        store=ground.inbox,
        contracts=parts.contracts,
        options=fit_to_lease(parts.options.inbox, database_of(parts.engine)),
        provider=parts.provider,
    )
    return HostedConsumer(
        binding=binding, receiver=receiver, options=receiver.options, shared_slots=shared_slots
    )
