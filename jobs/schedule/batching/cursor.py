"""A cursor: how far one batch job has come, for one tenant."""

from functools import partial

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from jobs.schedule.batching.cursor_store import CursorKey, CursorState, CursorStore
from jobs.schedule.batching.position import write_position
from jobs.schedule.batching.scoped_name import check_work_name, shown_name
from jobs.schedule.batching.tenant_scope import ForeignTenantError, current_tenant, tenant_for
from jobs.schedule.batching.unit_step import run_in_unit
from uow.errors import TryAgainError
from uow.loop.step import loop_step
from uow.sql.fault import Fault, fault_of
from uow.unit import SelfManagedUnitOfWork


class CursorMovedError(TryAgainError):
    """Another runner has moved the cursor, or is about to; what was done with it is rolled back.

    Run again: the next one goes on from where the cursor is then.
    """

    def __init__(self, name: str, tenant: str | None) -> None:
        super().__init__(f"the cursor {shown_name(name, tenant)} was moved by another runner")
        self.name = name
        self.tenant = tenant

    def __reduce__(self) -> tuple[type["CursorMovedError"], tuple[str, str | None]]:
        return type(self), (self.name, self.tenant)


class BatchCursor:
    """How far a batch job has come, stored; it tells what is committed and nothing that is not.

    name: 1 to 100 of `A-Z a-z 0-9 . _ -`. tenant: whose it is; that of the running TenantScope when None.
    Raises TextError, and ForeignTenantError inside the scope of another tenant, then and at each use: no
    two tenants share a cursor.
    """

    def __init__(
        self, engine: AsyncEngine, store: CursorStore, name: str, *, tenant: str | None = None
    ) -> None:
        self.name = check_work_name("cursor name", name)
        self.tenant = tenant_for(tenant, f"cursor {name!r}")
        self._engine = engine
        self._store = store
        self._key = CursorKey(self.name, self.tenant)

    async def load(self) -> CursorState:
        """Where it stands; a cursor that is used for the first time is put at the beginning."""
        self._require_own_scope()
        return await loop_step(self._engine, self._load)

    async def advance(
        self, seen: CursorState, position: object, *, unit: SelfManagedUnitOfWork | None = None
    ) -> CursorState:
        """Move it from `seen` to `position`; how it stands then.

        With `unit`, an open one, that is part of its commit and best its first statement: other runners then
        wait for the end of the unit instead of doing the same work. Without, it is committed at once.
        Raises CursorMovedError, which makes the unit rollback-only, and PositionError.
        """
        self._require_own_scope()
        step = partial(self._advance, seen=seen, text=write_position(position))
        if unit is None:
            return await loop_step(self._engine, step)
        try:
            return await run_in_unit(unit, step)
        except DBAPIError as error:
            # Nothing but the cursor was touched: another transaction has moved it, or holds it.
            if fault_of(error) is Fault.RETRY_TRANSACTION:
                raise CursorMovedError(self.name, self.tenant) from error
            raise

    async def reset(self, position: object = None) -> None:
        """Set it to `position`, None for the beginning, whatever it is; running runners lose it.

        For operators. Raises PositionError.
        """
        self._require_own_scope()
        text = None if position is None else write_position(position)

        def step(connection: Connection) -> None:
            if not self._store.reset(connection, self._key, text=text):
                self._store.add(connection, self._key)
                self._store.reset(connection, self._key, text=text)

        await loop_step(self._engine, step)

    def _load(self, connection: Connection) -> CursorState:
        state = self._store.find(connection, self._key)
        if state is None:
            self._store.add(connection, self._key)
            state = self._store.find(connection, self._key)
        if state is None:
            raise CursorMovedError(self.name, self.tenant)
        return state

    def _advance(self, connection: Connection, *, seen: CursorState, text: str) -> CursorState:
        moved = self._store.advance(connection, self._key, seen=seen, text=text)
        if moved is None:
            raise CursorMovedError(self.name, self.tenant)
        return moved

    def _require_own_scope(self) -> None:
        scope = current_tenant()
        if scope is not None and scope != self.tenant:
            raise ForeignTenantError(
                f"the cursor {shown_name(self.name, self.tenant)} is used by work for another tenant; "
                "make it inside the scope of the tenant"
            )
