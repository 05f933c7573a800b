"""One process of many: the one that holds a named lease."""

from sqlalchemy.ext.asyncio import AsyncEngine

from uow.loop.step import loop_step
from uow.sql.lease import Lease, LeaseStore


class Leadership:
    """A named lease that is kept by asking for it again and again; whoever stops asking is followed.

    held: the lease as it was last renewed, None while another process has it.
    """

    def __init__(
        self, engine: AsyncEngine, leases: LeaseStore, *, name: str, owner: str, lease_seconds: float
    ) -> None:
        self._engine = engine
        self._leases = leases
        self._name = name
        self._owner = owner
        self._lease_seconds = lease_seconds
        self.held: Lease | None = None

    async def lead(self) -> bool:
        """Renew the lease, or acquire it when it is free; whether it is ours now."""
        lease, seconds = self.held, self._lease_seconds
        if lease is not None and await loop_step(
            self._engine, lambda c: self._leases.renew(c, lease, lease_seconds=seconds)
        ):
            return True
        self.held = None
        self.held = await loop_step(
            self._engine,
            lambda c: self._leases.acquire(c, self._name, owner=self._owner, lease_seconds=seconds),
        )
        return self.held is not None

    async def stand_down(self) -> None:
        """Give the lease up, so that another process follows at once."""
        lease, self.held = self.held, None
        if lease is not None:
            await loop_step(self._engine, lambda c: self._leases.release(c, lease))
