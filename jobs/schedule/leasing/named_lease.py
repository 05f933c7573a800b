"""Named leases: one owner at a time for a piece of work, however it was started and wherever it runs."""

import contextlib
import logging
import time
from collections.abc import AsyncIterator
from typing import Final

from sqlalchemy.ext.asyncio import AsyncEngine

from jobs.schedule.batching.scoped_name import check_work_name, stored_lease_name
from jobs.schedule.batching.tenant_scope import tenant_for
from jobs.schedule.leasing.held_lease import HeldLease
from jobs.schedule.leasing.lease_error import LeaseHeldError, LeaseLostError
from uow.loop.chore import owner_name
from uow.loop.renewal import LeaseKeeper
from uow.loop.step import loop_step
from uow.option_rule import require_seconds
from uow.secret import describe_error
from uow.sql.lease import Lease, LeaseStore

_log: Final = logging.getLogger(__name__)


class NamedLeases:
    """Leases for manual entries, consumers and schedules alike; none lasts longer than its owner renews it.

    owner: how this process is named in the table; at most 200 UTF-16 units.
    """

    def __init__(self, engine: AsyncEngine, store: LeaseStore, *, owner: str | None = None) -> None:
        self._engine = engine
        self._store = store
        self._owner = owner or owner_name()

    @contextlib.asynccontextmanager
    async def hold(
        self, name: str, *, seconds: float, tenant: str | None = None, limit_seconds: float | None = None
    ) -> AsyncIterator[HeldLease]:
        """The block has the lease, which is renewed from a thread of its own and released at the end.

        name: 1 to 100 of `A-Z a-z 0-9 . _ -`. seconds: how long after a crash the next owner has to wait, at
        least 1; a pause of this process that is longer loses the lease. tenant: whose it is; that of the
        running TenantScope when None. limit_seconds: it is renewed no longer than that, None for no limit.

        Take it before a unit of work is opened: on SQLite a unit keeps the file from every other writer.
        Raises LeaseHeldError at once when another holds it. When it is lost, the block is cancelled at its
        next `await` and LeaseLostError raised; also when it turns out at the end only. What the block writes
        is safe from a later owner only under `held.guard(unit)`.
        """
        require_seconds("seconds", seconds, least=1.0)
        if limit_seconds is not None:
            require_seconds("limit_seconds", limit_seconds)
        tenant = tenant_for(tenant, f"lease {check_work_name('lease name', name)!r}")
        claimed_at = time.monotonic()
        lease = await self._acquire(name, tenant, seconds)
        held = HeldLease(self._store, lease, name=name, tenant=tenant, seconds=seconds)
        until = float("inf") if limit_seconds is None else claimed_at + limit_seconds
        try:
            async with self._kept(held, lease, seconds=seconds, claimed_at=claimed_at, until=until):
                yield held
        finally:
            still_ours = await self._release(lease)
        if not still_ours:
            raise LeaseLostError(name, tenant, held.token)

    async def holder(self, name: str, *, tenant: str | None = None) -> tuple[str, int] | None:
        """Owner and token of who holds it now, by the database's clock; None when it is free."""
        tenant = tenant_for(tenant, f"lease {check_work_name('lease name', name)!r}")
        stored = stored_lease_name(name, tenant)
        return await loop_step(self._engine, lambda c: self._store.holder(c, stored))

    async def _acquire(self, name: str, tenant: str | None, seconds: float) -> Lease:
        stored = stored_lease_name(name, tenant)
        acquired: list[Lease | None] = []
        try:
            await loop_step(
                self._engine,
                lambda c: acquired.append(
                    self._store.acquire(c, stored, owner=self._owner, lease_seconds=seconds)
                ),
            )
        except BaseException:
            # A cancelled caller does not hear of what was committed all the same.
            if acquired and acquired[-1] is not None:
                await self._release(acquired[-1])
            raise
        if acquired[-1] is not None:
            return acquired[-1]
        owner, token = await loop_step(self._engine, lambda c: self._store.holder(c, stored)) or (None, None)
        raise LeaseHeldError(name, tenant, owner, token)

    @contextlib.asynccontextmanager
    async def _kept(
        self, held: HeldLease, lease: Lease, *, seconds: float, claimed_at: float, until: float
    ) -> AsyncIterator[None]:
        # One keeper a lease: the renewal of one that a transaction guards has to wait for its commit, and
        # must not hold up the others.
        keeper: LeaseKeeper[Lease] = LeaseKeeper(
            self._engine,
            lambda c, due: [each for each in due if not self._store.renew(c, each, lease_seconds=seconds)],
            lease_seconds=seconds,
            name=f"lease {held.name}",
        )
        keeper.hold([lease], claimed_at=claimed_at, until=until, on_lost=held.block.lose)
        try:
            async with held.block.running():
                yield
        finally:
            keeper.let_go([lease])
            await keeper.close()

    async def _release(self, lease: Lease) -> bool:
        """Whether it was ours until now, as far as can be known."""
        try:
            return await loop_step(self._engine, lambda c: self._store.release(c, lease))
        except Exception as error:  # noqa: BLE001 - logged; it runs out by itself
            _log.warning("lease %r was not released, it runs out: %s", lease.name, describe_error(error))
            return True
