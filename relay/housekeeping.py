"""Retention and diagnostics: chores that one process of many does for all."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from sqlalchemy.ext.asyncio import AsyncEngine

from inbox.store import InboxStore
from outbox.store import OutboxStore
from relay.broker import Broker
from relay.diagnostics import Diagnostics
from relay.options import RelayOptions
from uow.loop.chore import Chore, owner_name
from uow.loop.step import loop_step
from uow.loop.supervision import LoopHealth, StopRequest, run_with_grace, supervise
from uow.sql.lease import LeaseStore


class Housekeeping:
    """Deletes finished rows after their retention, in bounded batches, and samples what is stored.

    Each chore is a task of its own under a named lease of its own. Run it in every process; a process that
    does not lead a chore only asks for its lease.
    """

    def __init__(
        self,
        engine: AsyncEngine,
        outbox: OutboxStore,
        inbox: InboxStore,
        leases: LeaseStore,
        *,
        provider: str,
        broker: Broker | None = None,
        consumers: Sequence[str] = (),
        options: RelayOptions | None = None,
    ) -> None:
        self._engine = engine
        self._outbox = outbox
        self._inbox = inbox
        self._options = options or RelayOptions()
        self._stop = StopRequest()
        self.diagnostics = Diagnostics(
            engine, outbox, inbox, provider=provider, broker=broker, consumers=consumers
        )
        self.chores = self._chores(leases)

    @property
    def health(self) -> tuple[LoopHealth, ...]:
        """How the chores stand."""
        return tuple(chore.health for chore in self.chores)

    async def run(self) -> None:
        """Keep house until `stop`."""
        grace_seconds = self._options.stop_grace_seconds
        await run_with_grace(self._run_all(), self._stop, grace_seconds=grace_seconds, name="housekeeping")

    def stop(self) -> None:
        """End after the batch in hand, and give the leases up so that others follow at once."""
        self._stop.request()

    def _chores(self, leases: LeaseStore) -> tuple[Chore, ...]:
        options = self._options
        chore = partial(Chore, self._engine, leases, owner=owner_name(), stop=self._stop)
        cleaning = partial(chore, interval_seconds=options.retention_interval_seconds)
        return (
            cleaning(name="retention of the outbox", work=self._clean_outbox),
            cleaning(name="retention of the inbox", work=self._clean_inbox),
            chore(
                name="diagnostics",
                interval_seconds=options.diagnostics_interval_seconds,
                work=self.diagnostics.sample,
                stood_down=self.diagnostics.clear,
            ),
        )

    async def _run_all(self) -> None:
        # A group, since a cancelled gather() returns as soon as the first of them has ended.
        async with asyncio.TaskGroup() as group:
            for chore in self.chores:
                group.create_task(supervise(chore.run, chore.health, self._stop))

    async def _clean_outbox(self) -> bool:
        return await self._clean(self._outbox.cleanup)

    async def _clean_inbox(self) -> bool:
        return await self._clean(self._inbox.cleanup)

    async def _clean(self, cleanup: Callable[..., int]) -> bool:
        limit = self._options.retention_batch_size
        return await loop_step(self._engine, lambda c: cleanup(c, limit=limit)) == limit
