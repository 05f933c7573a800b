"""The relay of the outbox: claims events, sends them, and writes what became of them."""

import logging
import time
from typing import Final

from sqlalchemy.ext.asyncio import AsyncEngine

from outbox.claimed import Claim
from outbox.store import OutboxStore
from relay.options import RelayOptions
from relay.publishing.batch import BatchStages, Sent
from relay.publishing.batch_size import BatchSize
from relay.publishing.circuit import Circuit
from relay.publishing.outlet import Outlet
from relay.publishing.pipeline import run_pipeline
from relay.publishing.report import count_publish
from uow.backoff import Backoff
from uow.loop.polling import AdaptivePolling
from uow.loop.step import loop_step
from uow.loop.supervision import LoopHealth, StopRequest, run_with_grace, supervise
from uow.telemetry import PublishOutcome
from uow.wake import WakeSignal

_log: Final = logging.getLogger(__name__)


class OutboxRelay:
    """Publishes what the outbox holds, until it is stopped. Any number may run, in any number of processes.

    While one batch is being confirmed the next is claimed and the last is settled. While the broker is
    known to be away nothing is claimed. `wake` ends the wait of an idle relay; without it the relay looks
    at least every `poll_interval_seconds`. The outlet belongs to the relay, which closes it.
    """

    def __init__(
        self,
        engine: AsyncEngine,
        store: OutboxStore,
        outlet: Outlet,
        *,
        wake: WakeSignal | None = None,
        options: RelayOptions | None = None,
        name: str = "relay",
    ) -> None:
        self._engine = engine
        self._store = store
        self._outlet = outlet
        self._wake = wake or WakeSignal()
        self._options = options or RelayOptions()
        self._stop = StopRequest()
        pauses = Backoff(initial_seconds=0.2, maximum_seconds=self._options.outage_pause_seconds)
        self._circuit = Circuit(outlet.check, pauses=pauses)
        self._stages = BatchStages(engine, store, outlet, self._circuit)
        self._batch_size = BatchSize(rows=store.options.batch_size, body_bytes=self._options.batch_body_bytes)
        self._suspects_due_at = time.monotonic() + self._options.poll_interval_seconds
        self.health = LoopHealth(name=name)

    @property
    def broker_usable(self) -> bool:
        """Whether the broker answered when it was asked last."""
        return self._circuit.usable

    async def run(self) -> None:
        """Relay until `stop`. Errors are logged and counted in `health`, and the loop goes on."""
        body = supervise(self._work, self.health, self._stop)
        try:
            await run_with_grace(
                body, self._stop, grace_seconds=self._options.stop_grace_seconds, name=self.health.name
            )
        finally:
            await self._stages.close()

    def stop(self) -> None:
        """Claim nothing more; `run` ends when the batch in hand is confirmed and settled.

        What was claimed and not sent is given back at once. After the grace period what is left is
        cancelled, and comes back when its lease has run out.
        """
        self._stop.request()
        self._wake()

    async def _work(self) -> None:
        with self._wake.waiter() as waiter:
            polling = AdaptivePolling(waiter, maximum_seconds=self._options.poll_interval_seconds)
            while await self._circuit.wait_until_usable(self._stop):
                if (claim := await self._claim()) is not None:
                    polling.found()
                    await run_pipeline(
                        claim, claim=self._claim_next, send=self._send, settle=self._stages.settle
                    )
                await self._look_at_suspects()
                self.health.tick()
                if claim is None and not self._stop.requested:
                    await polling.wait()

    async def _claim(self) -> Claim | None:
        limit = self._batch_size.rows if self._circuit.closed else 1
        while not self._stop.requested:
            claim = await self._stages.claim(lambda connection: self._store.claim(connection, limit=limit))
            if claim.rows:
                self._batch_size.learn(claim)
                return claim
            if not claim.more:
                break
        return None

    async def _claim_next(self) -> Claim | None:
        """The batch after one that is being sent; None when it is better to pause first."""
        if not self._circuit.closed or time.monotonic() >= self._suspects_due_at:
            return None
        self.health.tick()
        return await self._claim()

    async def _send(self, claim: Claim) -> Sent:
        if self._stop.requested or not self._circuit.usable:
            return self._stages.leave_out(claim)
        return await self._stages.send(claim)

    async def _look_at_suspects(self) -> None:
        """Bury rows that never end, and publish those whose relay died each time, one alone at a time."""
        if time.monotonic() < self._suspects_due_at:
            return
        self._suspects_due_at = time.monotonic() + self._options.poll_interval_seconds
        buried = await loop_step(self._engine, self._store.bury_suspects)
        if buried:
            _log.error("%d events were dead-lettered: their relay died each time", len(buried))
            count_publish(PublishOutcome.DEAD_LETTER, len(buried), 0.0, self._outlet.provider)
        while not self._stop.requested and self._circuit.usable:
            claim = await self._stages.claim(self._store.claim_suspect)
            if not claim.rows:
                break
            await self._stages.settle(claim, await self._send(claim))
