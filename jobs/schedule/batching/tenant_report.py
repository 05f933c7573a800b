"""What became of the work for each of many tenants."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from jobs.schedule.errors import shown
from uow.errors import LookAtItError
from uow.secret import describe_error

_SHOWN: Final = 5


class TenantsFailedError(LookAtItError):
    """The work of some tenants failed, that of the others is done; `failed` has the error of each.

    Each can be run alone: `for_each_tenant(tenants, work, only=error.failed)`.
    """

    def __init__(self, failed: Mapping[str, BaseException], of: int) -> None:
        first = [f"{shown(tenant)} ({describe_error(error)})" for tenant, error in failed.items()][:_SHOWN]
        more = f" and {len(failed) - _SHOWN} more" if len(failed) > _SHOWN else ""
        super().__init__(f"{len(failed)} of {of} tenants failed: {'; '.join(first)}{more}")
        self.failed = failed
        self.of = of

    def __reduce__(self) -> tuple[type["TenantsFailedError"], tuple[dict[str, BaseException], int]]:
        return type(self), (dict(self.failed), self.of)


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantReport:
    """What became of each tenant that was to be worked for, in the order of the list.

    failed: with the error of each. not_begun: those left when the stop came.
    """

    succeeded: tuple[str, ...]
    failed: Mapping[str, BaseException]
    not_begun: tuple[str, ...]

    @classmethod
    def of(cls, tenants: Sequence[str], outcomes: Mapping[str, BaseException | None]) -> "TenantReport":
        """The report on `tenants`, of which those among `outcomes` were begun."""
        failed = {tenant: error for tenant in tenants if (error := outcomes.get(tenant)) is not None}
        return cls(
            succeeded=tuple(each for each in tenants if each in outcomes and each not in failed),
            failed=MappingProxyType(failed),
            not_begun=tuple(each for each in tenants if each not in outcomes),
        )

    @property
    def complete(self) -> bool:
        """Whether the work of every tenant is done."""
        return not self.failed and not self.not_begun

    def raise_if_failed(self) -> None:
        """Raise TenantsFailedError, from the first error, if a tenant has failed."""
        if self.failed:
            count = len(self.succeeded) + len(self.failed) + len(self.not_begun)
            raise TenantsFailedError(self.failed, count) from next(iter(self.failed.values()))
