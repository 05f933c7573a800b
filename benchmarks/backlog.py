"""A database with a backlog of pending events and a queue that takes them, made for one measurement."""

import json
from dataclasses import dataclass

import asyncpg
from sqlalchemy import make_url
from uuid_utils.compat import uuid7

from uow.ticks import UtcInstant

CONTRACT_NAME = "benchmark.measured"
PAYLOAD_BYTES = 200

_FILL = """
INSERT INTO outbox_message (event_id, contract_name, contract_version, occurred_at, payload, state,
    failure_count, claim_count, next_attempt_at, created_at)
SELECT event_id, $1, 1, $2, payload, 'pending', 0, 0, statement_timestamp(), statement_timestamp()
FROM unnest($3::uuid[], $4::text[]) AS event (event_id, payload)
"""


@dataclass(frozen=True, slots=True)
class Backlog:
    """An open connection to the database that holds the backlog, and its URL."""

    connection: asyncpg.Connection
    url: str

    async def fill(self, events: int, *, at_once: int = 5_000) -> None:
        """Empty the outbox, then add `events` pending rows of about 200 bytes of payload."""
        async with self.connection.transaction():  # so that a relay sees all of them at once
            await self.connection.execute("TRUNCATE outbox_message")
            for start in range(0, events, at_once):
                occurred_at = UtcInstant.now()
                ids = [uuid7() for _ in range(min(at_once, events - start))]
                payloads = [_payload(str(event_id), str(occurred_at)) for event_id in ids]
                await self.connection.execute(_FILL, CONTRACT_NAME, occurred_at.ticks, ids, payloads)
        await self.connection.execute("ANALYZE outbox_message")

    async def count(self, state: str) -> int:
        """How many rows are in this state."""
        query = "SELECT count(*) FROM outbox_message WHERE state = $1"
        return int(await self.connection.fetchval(query, state))

    async def completed(self) -> int:
        """How many receipts are finished."""
        query = "SELECT count(*) FROM inbox_receipt WHERE completed_at IS NOT NULL"
        return int(await self.connection.fetchval(query))

    async def unfinished(self) -> bool:
        """Whether any row still waits or is being published; cheap, so that asking disturbs nobody."""
        query = "SELECT EXISTS (SELECT FROM outbox_message WHERE next_attempt_at IS NOT NULL)"
        return bool(await self.connection.fetchval(query))


def plain_url(url: str) -> str:
    """The URL as asyncpg itself wants it, without the name of the driver."""
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


def _payload(event_id: str, occurred_at: str) -> str:
    payload = {"id": event_id, "occurred_at": occurred_at, "customer": "", "amount_cents": 1999}
    missing = PAYLOAD_BYTES - len(json.dumps(payload, separators=(",", ":")))
    return json.dumps(payload | {"customer": "x" * missing}, separators=(",", ":"))
