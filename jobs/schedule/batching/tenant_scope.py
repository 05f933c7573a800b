"""The tenant that the running work is for."""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from jobs.schedule.errors import shown
from uow.errors import FixTheCodeError
from uow.text import check_text

TENANT_UNITS: Final = 200


class ForeignTenantError(FixTheCodeError):
    """Work for one tenant asked for what belongs to another, or to none; give each tenant its own."""


@dataclass(frozen=True, slots=True)
class TenantScope:
    """One tenant, named by the program and not by a user; what runs inside works for it alone.

    tenant: not blank, at most 200 UTF-16 units; compares by code point, nothing is trimmed or normalised.
    Leases and cursors that are asked for inside are the tenant's own; it also serves as the scope of jobs
    and as a part of every other idempotency key. Raises TextError.
    """

    tenant: str

    def __post_init__(self) -> None:
        check_text("tenant", self.tenant, units=TENANT_UNITS, blank=False)

    @contextlib.contextmanager
    def entered(self) -> Iterator["TenantScope"]:
        """The block, and every task begun in it, works for this tenant.

        Raises ForeignTenantError inside the scope of another.
        """
        tenant_for(self.tenant, "this work")
        token = _current.set(self)
        try:
            yield self
        finally:
            _current.reset(token)


_current: ContextVar[TenantScope | None] = ContextVar("selfmanaged.tenant", default=None)


def current_tenant() -> str | None:
    """The tenant whose scope the running code is in; None outside of any."""
    scope = _current.get()
    return None if scope is None else scope.tenant


def tenant_for(tenant: str | None, what: str) -> str | None:
    """Whose `what` is: that of `tenant`, checked; when None is given that of the scope; None outside of any.

    Raises ForeignTenantError when the scope is another's.
    """
    scope = current_tenant()
    if tenant is None:
        return scope
    named = TenantScope(tenant).tenant
    if scope is not None and named != scope:
        raise ForeignTenantError(
            f"{what} is for tenant {shown(named)}, but the running work is for tenant {shown(scope)}"
        )
    return named
