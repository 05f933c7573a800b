"""A step of a store inside an open unit of work."""

from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection
from sqlalchemy.orm import Session

from uow.unit import SelfManagedUnitOfWork
from uow.unit_errors import UnitNotActiveError

T = TypeVar("T")


async def run_in_unit(unit: SelfManagedUnitOfWork, step: Callable[[Connection], T]) -> T:
    """What `step` returned, executed in the transaction of the open `unit`.

    What it raises makes the unit rollback-only, even when the code catches it. Raises UnitNotActiveError
    outside a unit, since a unit of its own would commit the step alone.
    """
    if not unit.active:
        raise UnitNotActiveError(
            "this belongs into the commit of other work: call it inside `async with unit:` or in the "
            "operation given to `unit.execute(operation)`"
        )
    async with unit:
        return await unit.session.run_sync(lambda session: step(_connection_of(session)))


def _connection_of(session: Session) -> Connection:
    only = {bind for bind in session.binds.values() if bind is not None}
    if session.bind is None and len(only) == 1:
        return session.connection(bind_arguments={"bind": only.pop()})
    return session.connection()
