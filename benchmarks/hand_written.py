"""The limit to compare with: the least that a hand-written relay could do and still be safe.

One statement claims a batch, all its messages are sent before the first confirm is awaited, one statement
settles. No retries, no reconnects, no renewed leases, no wake-up, no telemetry.
"""

import asyncio
from typing import Any
from uuid import uuid4

import amqp
import asyncpg
from sqlalchemy import make_url

from uow.ticks import UtcInstant

_CLAIM = """
UPDATE outbox_message SET state = 'publishing', lease_token = $1, claim_count = claim_count + 1,
    lease_expires_at = statement_timestamp() + interval '60 seconds',
    next_attempt_at = statement_timestamp() + interval '60 seconds'
WHERE sequence IN (
    SELECT sequence FROM outbox_message WHERE next_attempt_at <= statement_timestamp()
    ORDER BY next_attempt_at, sequence LIMIT $2 FOR UPDATE SKIP LOCKED)
RETURNING sequence, event_id, contract_name, contract_version, occurred_at, payload
"""
_SETTLE = """
UPDATE outbox_message SET state = 'published', lease_token = NULL, lease_expires_at = NULL,
    next_attempt_at = NULL, completed_at = statement_timestamp()
WHERE sequence = ANY($2) AND lease_token = $1 AND state = 'publishing'
"""


async def publish_everything(
    connection: asyncpg.Connection, broker_url: str, exchange: str, *, batch_size: int = 500
) -> int:
    """Publish all pending rows; returns how many."""
    channel = PipelinedChannel(broker_url, exchange)
    published = 0
    try:
        while True:
            token = uuid4()
            rows = await connection.fetch(_CLAIM, token, batch_size)
            if not rows:
                return published
            await asyncio.to_thread(channel.publish, rows)
            await connection.execute(_SETTLE, token, [row["sequence"] for row in rows])
            published += len(rows)
    finally:
        channel.close()


def connect(broker_url: str) -> amqp.Connection:
    """An open connection; it is a context manager too."""
    url = make_url(broker_url)
    connection = amqp.Connection(
        host=f"{url.host}:{url.port or 5672}",
        userid=url.username or "guest",
        password=url.password or "guest",
        virtual_host=(url.database or "/").lstrip("/") or "/",
    )
    connection.connect()
    return connection


class PipelinedChannel:
    """A channel in confirm mode that sends a whole batch before it waits."""

    def __init__(self, broker_url: str, exchange: str) -> None:
        self._connection = connect(broker_url)
        self._channel = self._connection.channel()
        self._channel.confirm_select()
        self._channel.events["basic_ack"].add(self._acknowledged)
        self._exchange = exchange
        self._sent = 0
        self._unconfirmed: set[int] = set()

    def publish(self, rows: list[asyncpg.Record]) -> None:
        """Send all rows, then wait until the broker has confirmed all of them."""
        for row in rows:
            routing_key = f"{row['contract_name']}.v{row['contract_version']}"
            message = amqp.Message(
                row["payload"].encode(),
                content_type="application/json",
                delivery_mode=2,
                message_id=row["event_id"].hex,
                type=routing_key,
                application_headers={
                    "ms-contract-name": row["contract_name"],
                    "ms-contract-version": row["contract_version"],
                    "ms-occurred-at": str(UtcInstant(row["occurred_at"])),
                },
            )
            self._sent += 1
            self._unconfirmed.add(self._sent)
            self._channel.basic_publish(message, self._exchange, routing_key, mandatory=True)
        while self._unconfirmed:
            self._connection.drain_events(timeout=15)

    def _acknowledged(self, delivery_tag: int, multiple: bool, *_: Any) -> None:
        if multiple:
            self._unconfirmed = {tag for tag in self._unconfirmed if tag > delivery_tag}
        else:
            self._unconfirmed.discard(delivery_tag)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
