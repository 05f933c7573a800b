"""A database that is away for a while delays slots; hosts need no restart, and none is lost or doubled."""

import asyncio
from typing import Any

import pytest

from tests.faults.test_executor_outage import outage
from tests.faults.test_schedule_hosts import comes
from tests.support.databases import engine_for
from tests.support.proxy import Reaction, TcpProxy
from tests.support.scheduling import Scheduling
from tests.support.waiting import eventually
from uow.ticks import TICKS_PER_SECOND, UtcInstant

pytestmark = pytest.mark.parametrize("database_kind", ["postgresql", "mariadb"])

OFTEN: dict[str, Any] = {"interval": 0.3, "overlap": "allow", "max_attempts": 20}


async def test_slots_go_on_when_the_database_is_back_and_those_meanwhile_are_made_up_for(
    scheduling: Scheduling,
) -> None:
    await scheduling.declare(often=OFTEN)
    async with (
        TcpProxy.before(scheduling.url) as proxy,
        engine_for(proxy.through(scheduling.url)) as engine,
        scheduling.host(engine=engine),
    ):
        await comes(scheduling, 2)
        async with outage(proxy):
            away = await scheduling.now()
            await eventually(lambda: slots_came(scheduling, since=away))
            back = await scheduling.now()
        await comes(scheduling, 8)
        await scheduling.over()
    assert await scheduling.faults() == []
    runs = await scheduling.runs("often")
    assert {run.outcome for run in runs if run.nominal > away} == {"succeeded"}
    assert sum(away < run.nominal < back < run.staged for run in runs) >= 3


@pytest.mark.parametrize("reaction", [Reaction.CUT_AFTER_REPLY, Reaction.CUT_BEFORE_SERVER])
async def test_a_firing_whose_connection_is_lost_is_tried_again(
    scheduling: Scheduling, reaction: Reaction
) -> None:
    await scheduling.declare(often=OFTEN)
    async with (
        TcpProxy.before(scheduling.url) as proxy,
        engine_for(proxy.through(scheduling.url)) as engine,
    ):
        proxy.react(b"INSERT INTO jobs_schedule_run", reaction)
        async with scheduling.host(engine=engine):
            async with asyncio.timeout(20):
                await proxy.seen.wait()
            await comes(scheduling, 3)
            await scheduling.over()
    assert await scheduling.faults() == []
    assert {run.outcome for run in await scheduling.runs("often")} == {"succeeded"}


async def slots_came(scheduling: Scheduling, *, since: UtcInstant) -> bool:
    """Whether the moments of three slots and more have passed."""
    return (await scheduling.now()).ticks - since.ticks > 4 * OFTEN["interval"] * TICKS_PER_SECOND
