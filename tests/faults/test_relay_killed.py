"""A relay killed at any point loses nothing, and what it had in hand comes back within its lease."""

from collections import Counter
from pathlib import Path

import pytest

from outbox.store import OutboxStore
from relay.publishing.publisher import OutboxRelay
from tests.faults.relay_program import OPTIONS, deliver
from tests.support.databases import create_tables, engine_for, temporary_database_url
from tests.support.process import kill, program, said
from tests.support.relaying import (
    CONFIRMED,
    QUICK,
    ScriptedOutlet,
    all_published,
    fill,
    metadata,
    outbox,
    outbox_rows,
    outbox_states,
    running,
)
from tests.support.waiting import eventually


@pytest.mark.parametrize(
    ("point", "kind"),
    [
        ("claimed", "postgresql"),
        ("sent", "postgresql"),
        ("confirmed", "postgresql"),
        ("confirmed", "sqlite"),
        ("confirmed", "mariadb"),
    ],
)
async def test_every_event_arrives_although_a_relay_is_killed(point: str, kind: str, tmp_path: Path) -> None:
    broker = tmp_path / "broker"
    broker.touch()

    async def confirm(messages: object) -> object:
        deliver(broker, messages)  # type: ignore[arg-type]
        return [CONFIRMED] * len(messages)  # type: ignore[arg-type]

    async with temporary_database_url(kind, tmp_path) as url, engine_for(url) as engine:
        await create_tables(engine, metadata)
        messages = await fill(engine, 25)
        async with program("tests.faults.relay_program", url, point, str(broker)) as process:
            await said(process, "here")
            await kill(process)
        assert (await outbox_states(engine))["published"] == 0
        store = OutboxStore(outbox, options=OPTIONS)
        outlet = ScriptedOutlet(confirm)  # type: ignore[arg-type]
        async with running(OutboxRelay(engine, store, outlet, options=QUICK)):
            await eventually(lambda: all_published(engine, 25))
        delivered = Counter(broker.read_text().split())
        assert set(delivered) == {message.id.hex for message in messages}
        assert max(delivered.values()) <= (1 if point == "claimed" else 2)
        rows = await outbox_rows(engine)
        assert {row["failure_count"] for row in rows.values()} == {0}
