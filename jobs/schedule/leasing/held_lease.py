"""A named lease in hand: its token, and the guard of what is written under it."""

from sqlalchemy import Connection

from jobs.schedule.batching.unit_step import run_in_unit
from jobs.schedule.leasing.lease_block import LeaseBlock
from jobs.schedule.leasing.lease_error import LeaseLostError
from uow.sql.isolation import commits_by_itself
from uow.sql.lease import Lease, LeaseStore
from uow.unit import SelfManagedUnitOfWork
from uow.unit_errors import AutocommitError


class HeldLease:
    """What `NamedLeases.hold` gives: proof, for each transaction, that the work is still the only one.

    name: as it was asked for. tenant: whose it is, None for nobody's in particular. block: the work itself.
    """

    def __init__(
        self, store: LeaseStore, lease: Lease, *, name: str, tenant: str | None, seconds: float
    ) -> None:
        self.name = name
        self.tenant = tenant
        self.block = LeaseBlock(self._lost_error)
        self._store = store
        self._lease = lease
        self._seconds = seconds

    @property
    def token(self) -> int:
        """The fencing number, greater than that of every holder before; for systems that compare it."""
        return self._lease.fencing_token

    @property
    def owner(self) -> str:
        """Who holds it: host, process and a random part."""
        return self._lease.owner

    @property
    def lost(self) -> bool:
        """Whether it is lost as far as this process knows; the guard asks the database itself."""
        return self.block.lost

    async def guard(self, unit: SelfManagedUnitOfWork) -> None:
        """The open `unit` commits only if the lease is ours until then; it is prolonged with the commit.

        Call it before the unit reads or writes anything else: at REPEATABLE READ and SERIALIZABLE a database
        refuses it, with an error of its own, when the lease was renewed after the unit's first statement.
        From here to the commit nobody can take the lease over, nor can it be renewed: the rest of the unit
        must take less than half of the lease's seconds, or the work is cancelled. SQLite has one writer at a
        time, so there that holds for every unit from its first statement.
        Raises LeaseLostError, which also makes the unit rollback-only; UnitNotActiveError outside a unit.
        """
        await run_in_unit(unit, self.guard_on)

    def guard_on(self, connection: Connection) -> None:
        """The same for a transaction that the caller has begun on `connection`, from any thread.

        Raises LeaseLostError: the caller must roll back. Raises AutocommitError when there is no transaction.
        """
        held = self._store.renew(connection, self._lease, lease_seconds=self._seconds)
        if commits_by_itself(connection):
            raise AutocommitError(
                "the connection commits each statement by itself, so that a lease guards none of the others; "
                "begin a transaction"
            )
        if not held:
            raise self._lost_error()

    def _lost_error(self) -> LeaseLostError:
        return LeaseLostError(self.name, self.tenant, self.token)
