"""Work for many tenants: each in its own scope, none in the way of another."""

import asyncio
import logging
import pickle
from collections.abc import Iterator

import pytest

from jobs.schedule.batching.scoped_name import stored_lease_name
from jobs.schedule.batching.tenant_report import TenantsFailedError
from jobs.schedule.batching.tenant_scope import ForeignTenantError, TenantScope, current_tenant
from jobs.schedule.batching.tenants import TenantListError, for_each_tenant
from uow import TextError
from uow.text import utf16_units

ODD = ("acme", "ACME", " acme", "acme ", "é", "e\u0301", "a/b", "a\nb", "%s", "'", "😀" * 100, "0", "None")


class Work:
    """Notes whom it worked for, and fails for some."""

    def __init__(self, *broken: str) -> None:
        self.broken = set(broken)
        self.seen: list[tuple[str, str | None]] = []

    async def __call__(self, scope: TenantScope) -> None:
        await asyncio.sleep(0)
        self.seen.append((scope.tenant, current_tenant()))
        if scope.tenant in self.broken:
            raise ValueError(f"{len(scope.tenant)} letters")


class Gate:
    """Holds everyone who comes until it is opened."""

    def __init__(self) -> None:
        self.inside: list[str] = []
        self.cancelled: list[str] = []
        self.came = asyncio.Event()
        self.opened = asyncio.Event()

    async def __call__(self, scope: TenantScope) -> None:
        self.inside.append(scope.tenant)
        self.came.set()
        try:
            await self.opened.wait()
        except asyncio.CancelledError:
            self.cancelled.append(scope.tenant)
            raise
        assert current_tenant() == scope.tenant


async def test_each_tenant_is_worked_for_in_its_own_scope_and_in_order() -> None:
    work = Work()
    report = await for_each_tenant(ODD, work)
    assert work.seen == [(tenant, tenant) for tenant in ODD]
    assert report.succeeded == ODD
    assert report.complete
    report.raise_if_failed()
    assert current_tenant() is None


async def test_tasks_that_the_work_begins_are_in_the_scope_too() -> None:
    async def work(scope: TenantScope) -> None:
        async def part() -> str | None:
            return current_tenant()

        assert await asyncio.gather(part(), part()) == [scope.tenant] * 2

    assert (await for_each_tenant(["a", "b"], work)).complete


async def test_one_that_fails_stops_no_other_and_can_be_run_alone(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    work = Work("b", "dd")
    report = await for_each_tenant(["a", "b", "c", "dd", "e"], work)
    assert report.succeeded == ("a", "c", "e")
    assert list(report.failed) == ["b", "dd"]
    assert not report.complete
    assert "the work for tenant 'b' failed: ValueError: 1 letters" in caplog.text
    with pytest.raises(TenantsFailedError, match=r"2 of 5 tenants failed: 'b' \(ValueError: 1 ") as caught:
        report.raise_if_failed()
    assert caught.value.__cause__ is report.failed["b"]
    work = Work()
    again = await for_each_tenant(["a", "b", "c", "dd", "e"], work, only=caught.value.failed)
    assert [tenant for tenant, _ in work.seen] == ["b", "dd"]
    assert again.succeeded == ("b", "dd")
    assert again.complete


async def test_a_report_on_many_failures_stays_short() -> None:
    tenants = [f"tenant {number}" for number in range(100)]
    report = await for_each_tenant(tenants, Work(*tenants))
    with pytest.raises(TenantsFailedError, match=r"100 of 100 .* and 95 more$") as caught:
        report.raise_if_failed()
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("concurrency", [1, 2, 5, 100])
async def test_at_most_so_many_are_worked_for_at_a_time(concurrency: int) -> None:
    tenants = [str(number) for number in range(7)]
    gate = Gate()
    running = asyncio.create_task(for_each_tenant(tenants, gate, concurrency=concurrency))
    await gate.came.wait()
    await asyncio.sleep(0)
    assert gate.inside == tenants[:concurrency]
    gate.opened.set()
    assert (await running).succeeded == tuple(tenants)


async def test_after_a_stop_no_more_begin_and_those_that_run_end() -> None:
    stopped = asyncio.Event()
    gate = Gate()
    running = asyncio.create_task(
        for_each_tenant(["a", "b", "c", "d"], gate, concurrency=2, stop=stopped.is_set)
    )
    await gate.came.wait()
    stopped.set()
    gate.opened.set()
    report = await running
    assert report.succeeded == ("a", "b")
    assert report.not_begun == ("c", "d")
    assert not report.complete
    report.raise_if_failed()


async def test_a_cancelled_caller_cancels_those_that_run_and_no_other_begins() -> None:
    gate = Gate()
    running = asyncio.create_task(for_each_tenant(["a", "b", "c", "d"], gate, concurrency=2))
    await gate.came.wait()
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert gate.inside == sorted(gate.cancelled) == ["a", "b"]


async def test_work_that_ends_well_in_spite_of_the_cancellation_is_followed_by_no_other() -> None:
    begun = []
    entered = asyncio.Event()

    async def work(scope: TenantScope) -> None:
        begun.append(scope.tenant)
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return

    running = asyncio.create_task(for_each_tenant(["a", "b"], work))
    await entered.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert begun == ["a"]


async def test_a_cancellation_inside_the_work_is_the_failure_of_that_tenant() -> None:
    async def work(scope: TenantScope) -> None:
        if scope.tenant == "a":
            inner = asyncio.create_task(asyncio.sleep(3600))
            inner.cancel()
            await inner

    report = await for_each_tenant(["a", "b"], work)
    assert isinstance(report.failed["a"], asyncio.CancelledError)
    assert report.succeeded == ("b",)


async def test_a_generator_is_read_to_its_end_before_the_first_begins() -> None:
    events: list[str] = []

    def tenants() -> Iterator[str]:
        yield "a"
        yield "b"
        events.append("read")

    async def work(scope: TenantScope) -> None:
        events.append(scope.tenant)

    await for_each_tenant(tenants(), work)
    assert events == ["read", "a", "b"]


async def test_no_tenants_are_no_work() -> None:
    report = await for_each_tenant([], Work())
    assert report.complete
    assert report.succeeded == ()


@pytest.mark.parametrize(
    ("tenants", "only", "error", "text"),
    [
        (["a", "b", "a"], None, TenantListError, "listed more than once: 'a'"),
        ("abc", None, TenantListError, "as a list, not as str"),
        (7, None, TenantListError, "as a list, not as int"),
        (["a", "b"], ["b", "B"], TenantListError, "not among the tenants that are listed: 'B'"),
        (["a", "b"], "ab", TenantListError, "`only` as a list"),
        (["a", ""], None, TextError, "tenant must not be blank"),
        (["a", " \t"], None, TextError, "tenant must not be blank"),
        (["a", "b\x00"], None, TextError, "NUL"),
        (["a", "\ud800"], None, TextError, "lone surrogate"),
        (["a", "😀" * 101], None, TextError, "at most 200 UTF-16 units, not 202"),
        (["a", 7], None, TextError, "must be text, not int"),
        (["a", None], None, TextError, "must be text, not NoneType"),
    ],
)
async def test_a_list_with_a_fault_is_refused_before_anything_begins(
    tenants: list[str], only: list[str] | None, error: type[Exception], text: str
) -> None:
    work = Work()
    with pytest.raises(error, match=text):
        await for_each_tenant(tenants, work, only=only)
    assert work.seen == []


@pytest.mark.parametrize("concurrency", [0, 101, 1.0, True])
async def test_a_concurrency_that_is_none_is_refused(concurrency: int) -> None:
    with pytest.raises(ValueError, match="concurrency must be a whole number, 1 to 100"):
        await for_each_tenant(["a"], Work(), concurrency=concurrency)


async def test_work_for_a_tenant_has_no_other_tenants() -> None:
    async def work(scope: TenantScope) -> None:
        with scope.entered():
            assert current_tenant() == scope.tenant
        with pytest.raises(ForeignTenantError, match=r"for tenant 'b', but .* for tenant 'a'"):
            TenantScope("b").entered().__enter__()
        await for_each_tenant(["a"], Work())

    report = await for_each_tenant(["a"], work)
    assert isinstance(report.failed["a"], ForeignTenantError)


def test_a_lease_has_another_stored_name_for_each_name_and_tenant() -> None:
    tenants = {None, *ODD, *("x" * length for length in range(80, 201)), "😀" * 99 + "x"}
    names = ("a", "A", "a.b", "x" * 100)
    stored = {stored_lease_name(name, tenant) for name in names for tenant in tenants}
    assert len(stored) == len(names) * len(tenants)
    assert max(map(utf16_units, stored)) <= 200
    assert stored_lease_name("month-end", "acme") == "named month-end / acme"


def test_errors_come_through_a_pickle() -> None:
    from jobs.schedule.batching.cursor import CursorMovedError
    from jobs.schedule.leasing.lease_error import LeaseHeldError, LeaseLostError

    for error in (
        LeaseHeldError("a", None, "host", 3),
        LeaseLostError("a", "acme", 3),
        CursorMovedError("a", "acme"),
        TenantsFailedError({"a": ValueError("no")}, 3),
    ):
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), str(copy)) == (type(error), str(error))
