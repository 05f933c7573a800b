"""The same work for each of many tenants, none of which can stop the others."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Final

from jobs.schedule.batching.tenant_report import TenantReport
from jobs.schedule.batching.tenant_scope import ForeignTenantError, TenantScope, current_tenant
from jobs.schedule.errors import shown
from uow.errors import FixTheCodeError
from uow.option_rule import require_whole_number
from uow.secret import describe_error

_SHOWN: Final = 5
_MOST_AT_ONCE: Final = 100

_log: Final = logging.getLogger(__name__)


class TenantListError(FixTheCodeError, ValueError):
    """The list of tenants cannot be worked through; nothing was begun."""


async def for_each_tenant(
    tenants: Iterable[str],
    work: Callable[[TenantScope], Awaitable[object]],
    *,
    concurrency: int = 1,
    only: Collection[str] | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> TenantReport:
    """Await `work(scope)` for each tenant inside its scope; an error of one is reported, the others go on.

    tenants: an explicit list, read to its end and checked before the first begins; see TenantScope for what
    they may be. concurrency: how many at a time, 1 to 100. only: those of the list to work for, None for all.
    stop: asked before each tenant; once it says True no more begin, and those that run end. When the caller
    is cancelled, so is the work of the tenants that run, and the cancellation goes on: there is no report.

    Raises TenantListError for a tenant listed twice or one of `only` that is not listed, TextError for one
    that cannot be a tenant, ForeignTenantError inside the scope of a tenant, ValueError for `concurrency`.
    """
    require_whole_number("concurrency", concurrency, least=1, most=_MOST_AT_ONCE)
    if (outer := current_tenant()) is not None:
        raise ForeignTenantError(f"the running work is for tenant {shown(outer)} alone; it has no others")
    chosen = _chosen(_listed(tenants), only)
    waiting = iter(chosen)
    outcomes: dict[str, BaseException | None] = {}

    async def work_through() -> None:
        while not (_is_cancelled() or stop()) and (scope := next(waiting, None)) is not None:
            outcomes[scope.tenant] = await _outcome(scope, work)

    async with asyncio.TaskGroup() as group:
        for _ in range(min(concurrency, len(chosen))):
            group.create_task(work_through())
    return TenantReport.of([each.tenant for each in chosen], outcomes)


async def _outcome(
    scope: TenantScope, work: Callable[[TenantScope], Awaitable[object]]
) -> BaseException | None:
    try:
        with scope.entered():
            await work(scope)
    except asyncio.CancelledError as error:
        if _is_cancelled():
            raise
        failure: BaseException = error  # something inside was cancelled, not the whole
    except Exception as error:  # noqa: BLE001 - logged and reported
        failure = error
    else:
        return None
    _log.warning("the work for tenant %s failed: %s", shown(scope.tenant), describe_error(failure))
    return failure


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _listed(tenants: Iterable[str]) -> list[TenantScope]:
    if isinstance(tenants, str | bytes) or not isinstance(tenants, Iterable):
        raise TenantListError(f"give the tenants as a list, not as {type(tenants).__name__}")
    scopes = [TenantScope(tenant) for tenant in tenants]
    twice = [scope.tenant for scope, count in Counter(scopes).items() if count > 1]
    if twice:
        raise TenantListError(f"listed more than once: {_some(twice)}")
    return scopes


def _chosen(scopes: list[TenantScope], only: Collection[str] | None) -> list[TenantScope]:
    if only is None:
        return scopes
    if isinstance(only, str):
        raise TenantListError("give `only` as a list, not as text")
    unknown = set(only) - {scope.tenant for scope in scopes}
    if unknown:
        raise TenantListError(f"not among the tenants that are listed: {_some(sorted(unknown))}")
    return [scope for scope in scopes if scope.tenant in only]


def _some(tenants: Collection[str]) -> str:
    more = f" and {len(tenants) - _SHOWN} more" if len(tenants) > _SHOWN else ""
    return ", ".join(shown(tenant) for tenant in list(tenants)[:_SHOWN]) + more
