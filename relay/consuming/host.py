"""The host of consumers: broker deliveries and the inbox pump, one limit for each consumer."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from sqlalchemy.ext.asyncio import AsyncEngine

from inbox.receipt import ReceiptLease
from inbox.store import InboxStore
from relay.broker import Broker
from relay.consuming.hosted import HostedConsumer, RunningReceipts
from relay.consuming.intake import DeliveryIntake
from relay.consuming.pump import InboxPump
from relay.consuming.rejected import RejectedDelivery, log_rejected
from relay.options import RelayOptions
from uow.loop.renewal import LeaseKeeper
from uow.loop.supervision import LoopHealth, StopRequest, log_failure, run_with_grace, supervise
from uow.wake import WakeSignal


class ConsumerHost:
    """Runs the handlers of consumers until it is stopped; any number of hosts share the work.

    Without a broker (`local:`) only the pump brings work. `wake` ends the wait of an idle pump. Leases are
    renewed from a thread of their own, so a handler that blocks the event loop keeps its lease until its
    processing timeout, and not longer. On SQLite a handler that has written holds the one write lock, in
    which nothing can be renewed: there it must end within its lease (see relay.consuming.single_writer).
    The broker belongs to the caller.
    """

    def __init__(
        self,
        engine: AsyncEngine,
        store: InboxStore,
        consumers: Sequence[HostedConsumer],
        *,
        lease_seconds: float,
        broker: Broker | None = None,
        provider: str = "local",
        wake: WakeSignal | None = None,
        options: RelayOptions | None = None,
        rejected: Callable[[RejectedDelivery], None] = log_rejected,
    ) -> None:
        self._engine = engine
        self._store = store
        self._consumers = tuple(consumers)
        self._broker = broker
        self._provider = provider
        self._wake = wake or WakeSignal()
        self._options = options or RelayOptions()
        self._rejected = rejected
        self._stop = StopRequest()
        self._keeper: LeaseKeeper[ReceiptLease] = LeaseKeeper(
            engine, store.renew, lease_seconds=lease_seconds, name="inbox lease renewal"
        )
        self._running = RunningReceipts(self._keeper)
        self._intakes: dict[str, DeliveryIntake] = {}
        self._pump = InboxPump(
            engine,
            store,
            self._consumers,
            self._running,
            provider=provider,
            wake=self._wake,
            poll_interval_seconds=self._options.poll_interval_seconds,
            stop=self._stop,
        )

    @property
    def health(self) -> tuple[LoopHealth, ...]:
        """How the loops stand: the pump first, then the deliveries of each consumer."""
        intakes = self._intakes.values()
        return (
            self._pump.health,
            *(intake.health for intake in intakes),
            *(intake.recheck_health for intake in intakes),
        )

    @property
    def connected(self) -> dict[str, bool]:
        """For each consumer with a subscription, whether the broker would give it a delivery now."""
        return {name: intake.connected for name, intake in self._intakes.items()}

    async def run(self) -> None:
        """Host until `stop`; then see it."""
        grace_seconds = self._options.stop_grace_seconds
        try:
            await self._open()
            await run_with_grace(
                self._run_loops(), self._stop, grace_seconds=grace_seconds, name="consumer host"
            )
        finally:
            await self._close()

    def stop(self) -> None:
        """Take nothing more. Running handlers get the grace period and are then cancelled.

        Unfinished deliveries go back to the broker, finished ones are acknowledged, and then `run` ends.
        """
        self._stop.request()
        self._wake()

    async def _open(self) -> None:
        if self._broker is None:
            return
        for consumer in self._consumers:
            subscription = await self._broker.open_subscription(
                consumer.binding, prefetch=consumer.options.prefetch
            )
            self._intakes[consumer.name] = DeliveryIntake(
                self._engine,
                self._store,
                consumer,
                subscription,
                self._running,
                provider=self._provider,
                rejected=self._rejected,
                stop=self._stop,
            )

    async def _run_loops(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(supervise(self._pump.run, self._pump.health, self._stop))
            for intake in self._intakes.values():
                group.create_task(supervise(intake.take, intake.health, self._stop))
                group.create_task(supervise(intake.recheck_busy, intake.recheck_health, self._stop))
            await self._stop.wait()
            await self._tell_all("stop receiving", DeliveryIntake.stop_receiving)
        await self._running.end()

    async def _close(self) -> None:
        await self._running.cancel()
        await self._tell_all("close", DeliveryIntake.close)
        await self._keeper.close()

    async def _tell_all(self, what: str, tell: Callable[[DeliveryIntake], Awaitable[None]]) -> None:
        intakes = tuple(self._intakes.values())
        for intake, result in zip(
            intakes, await asyncio.gather(*map(tell, intakes), return_exceptions=True), strict=True
        ):
            if isinstance(result, Exception):
                log_failure(f"{intake.health.name}, {what}", result)
