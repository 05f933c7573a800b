"""Commits wake relays: in this process everywhere, in other processes where the database can notify."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url, text
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.support.databases import engine_for, temporary_database_url
from tests.support.waiting import eventually
from uow.loop.notification import NotificationListener
from uow.loop.supervision import StopRequest
from uow.wake import WakeSignal
from uow.wakeup import CommitSignal

DRIVERS = ("asyncpg", "psycopg")


@pytest.fixture
async def url(tmp_path: Path) -> AsyncIterator[str]:
    async with temporary_database_url("postgresql", tmp_path) as url:
        yield url


@pytest.fixture(params=DRIVERS)
async def postgresql(request: pytest.FixtureRequest, url: str) -> AsyncIterator[AsyncEngine]:
    address = make_url(url).set(drivername=f"postgresql+{request.param}")
    async with engine_for(address.render_as_string(hide_password=False)) as engine:
        yield engine


class Listening:
    """A listener that runs, and what it heard."""

    def __init__(self, engine: AsyncEngine, **options: float) -> None:
        self.heard = 0
        self.listener = NotificationListener(engine, {"selfmanaged_outbox": self._hear}, **options)

    def _hear(self) -> None:
        self.heard += 1


@contextlib.asynccontextmanager
async def listening(engine: AsyncEngine, **options: float) -> AsyncIterator[Listening]:
    ears = Listening(engine, **options)
    running = asyncio.create_task(ears.listener.run())
    try:
        await eventually(lambda: ears.listener.hearing)
        ears.heard = 0
        yield ears
    finally:
        ears.listener.stop()
        await running


async def test_a_commit_wakes_the_waiters_of_this_process_on_every_database(engine: AsyncEngine) -> None:
    signal = CommitSignal(engine)
    with signal.local.waiter() as first, signal.local.waiter() as second:
        signal()
        assert await first.wait(5)
        assert await second.wait(5)
        assert not await first.wait(0.01)
    await signal.close()


async def test_a_call_that_comes_while_the_waiter_is_busy_is_not_forgotten() -> None:
    signal = WakeSignal()
    with signal.waiter() as waiter:
        signal()
        signal()
        await asyncio.sleep(0)
        assert await waiter.wait(5)
        assert not await waiter.wait(0)


async def test_a_call_from_another_thread_wakes_the_waiter() -> None:
    signal = WakeSignal()
    with signal.waiter() as waiter:
        thread = threading.Thread(target=signal)
        thread.start()
        assert await waiter.wait(5)
        thread.join()


async def test_a_waiter_whose_loop_is_gone_disturbs_nobody() -> None:
    signal = WakeSignal()

    def join_and_end() -> None:
        async def join() -> None:
            signal.join(signal.waiter())

        asyncio.run(join())

    await asyncio.to_thread(join_and_end)
    with signal.waiter() as waiter:
        signal()
        assert await waiter.wait(5)


async def test_a_commit_is_heard_in_another_process(postgresql: AsyncEngine) -> None:
    async with listening(postgresql) as ears:
        signal = CommitSignal(postgresql)
        signal()
        await eventually(lambda: ears.heard == 1)
        await signal.close()


async def test_a_burst_of_commits_becomes_a_few_notifications(postgresql: AsyncEngine) -> None:
    async with listening(postgresql) as ears:
        signal = CommitSignal(postgresql, gap_seconds=0.05)
        for _ in range(1000):
            signal()
        await signal.close()
        await eventually(lambda: ears.heard >= 1)
        assert ears.heard <= 2


async def test_the_notification_uses_no_connection_of_the_business(postgresql: AsyncEngine) -> None:
    async with (
        listening(postgresql) as ears,
        engine_for(
            postgresql.url.render_as_string(hide_password=False), pool_size=1, max_overflow=0
        ) as business,
    ):
        signal = CommitSignal(business)
        async with business.begin() as connection:
            await connection.execute(text("select 1"))
            signal()
            await eventually(lambda: ears.heard == 1)
        await signal.close()


async def test_a_call_never_fails_when_the_database_is_away(caplog: pytest.LogCaptureFixture) -> None:
    async with engine_for("postgresql+asyncpg://nobody@127.0.0.1:1/nothing") as away:
        signal = CommitSignal(away, gap_seconds=0)
        with caplog.at_level(logging.WARNING), signal.local.waiter() as waiter:
            for _ in range(3):
                signal()
                assert await waiter.wait(5)
                await eventually(lambda: "find new work by polling" in caplog.text)
        await signal.close()
        assert caplog.text.count("find new work by polling") == 1


async def test_the_signal_serves_event_loops_one_after_the_other(postgresql: AsyncEngine) -> None:
    async with listening(postgresql) as ears:
        signal = CommitSignal(postgresql)

        def call_in_a_loop_of_its_own() -> None:
            async def call() -> None:
                signal()
                await asyncio.sleep(0)

            asyncio.run(call())

        await asyncio.to_thread(call_in_a_loop_of_its_own)
        signal()
        await eventually(lambda: ears.heard >= 1)
        await signal.close()


async def test_a_listener_whose_connection_is_closed_listens_again_and_wakes_everyone(
    postgresql: AsyncEngine,
) -> None:
    async with listening(postgresql) as ears:
        async with postgresql.begin() as connection:
            await connection.execute(
                text("select pg_terminate_backend(pid) from pg_stat_activity where query like :asked"),
                {"asked": "%pg_notify%"},
            )
        await eventually(lambda: ears.listener.connections == 2 and ears.listener.hearing)
        assert ears.heard >= 1
        assert ears.listener.health.restarts == 1


async def test_a_deaf_listener_notices_by_its_own_probe(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def deaf(self: Any, channels: Any) -> None:
        """As behind a pooler: LISTEN succeeds and nothing ever comes."""

    async with engine_for(url) as engine:
        ears = Listening(engine, answer_seconds=0.1, probe_seconds=0.1)
        with monkeypatch.context() as patch:
            patch.setattr("uow.loop.ears._CallbackEars.listen", deaf)
            running = asyncio.create_task(ears.listener.run())
            await eventually(lambda: ears.listener.health.restarts >= 1)
            assert not ears.listener.hearing
            assert ears.listener.health.last_error == "DeafListenerError"
        await eventually(lambda: ears.listener.hearing)
        assert ears.heard == 1
        ears.listener.stop()
        await running
    assert "a pooler" in caplog.text


async def test_probes_wake_nobody(postgresql: AsyncEngine) -> None:
    async with listening(postgresql, probe_seconds=0.02) as ears:
        ticked = ears.listener.health.last_tick
        await eventually(lambda: ears.listener.health.last_tick != ticked)
        assert ears.heard == 0


@pytest.mark.parametrize("database_kind", ["sqlite", "mariadb"])
async def test_without_notifications_the_listener_ends_at_once(engine: AsyncEngine) -> None:
    await asyncio.wait_for(NotificationListener(engine, {"channel": lambda: None}).run(), 5)


async def test_a_sleeping_loop_hears_a_stop_at_once() -> None:
    stop = StopRequest()
    sleeping = asyncio.create_task(stop.sleep(3600))
    await asyncio.sleep(0)
    stop.request()
    assert await asyncio.wait_for(sleeping, 5)
