"""The three stages of one batch of events: claimed, sent, settled."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncEngine

from outbox.claimed import Claim, ClaimedMessage
from outbox.settlement import SettleReport
from outbox.store import OutboxStore
from relay.broker import PublishResult, Verdict
from relay.publishing.circuit import Circuit
from relay.publishing.outlet import Outlet
from relay.publishing.report import NOT_TRIED, count_publish, outcome_of, report_batch
from relay.publishing.verdict import settlement_of
from uow.backoff import Backoff
from uow.errors import TryAgainError
from uow.loop.renewal import LeaseKeeper
from uow.loop.step import loop_step
from uow.loop.supervision import is_outage, log_failure
from uow.telemetry import PublishOutcome, publish_span

LeasedRow = tuple[UUID, int]
"""The token and the sequence of a claimed row."""

_SETTLE_PAUSES: Final = Backoff(initial_seconds=0.2, maximum_seconds=2.0, jitter=0.3)


@dataclass(frozen=True, slots=True)
class Sent:
    """The verdicts on the rows of a claim, in their order, and how long it took to get them."""

    results: tuple[PublishResult, ...]
    seconds: float


class BatchStages:
    """Claims, sends and settles; stages of different batches may run at the same time, but not two sends."""

    def __init__(
        self,
        engine: AsyncEngine,
        store: OutboxStore,
        outlet: Outlet,
        circuit: Circuit,
    ) -> None:
        self._engine = engine
        self._store = store
        self._outlet = outlet
        self._circuit = circuit
        self._options = store.options
        self._keeper: LeaseKeeper[LeasedRow] = LeaseKeeper(
            engine, self._renew, lease_seconds=store.options.lease_seconds, name="outbox lease renewal"
        )

    async def claim(self, take: Callable[[Connection], Claim]) -> Claim:
        """Claim in a step of its own and begin to renew what was claimed."""
        claimed_at = time.monotonic()
        claim = await loop_step(self._engine, take)
        self._keeper.hold(_leased(claim), claimed_at=claimed_at)
        return claim

    async def send(self, claim: Claim) -> Sent:
        """Send what is still ours.

        Raises what the outlet raises on its own account; the rows are then left to their leases, so that
        a message that does this each time becomes a suspect and is tried alone.
        """
        held = self._keeper.still_held(_leased(claim))
        ours = [row for row in claim.rows if (claim.token, row.sequence) in held]
        began = time.monotonic()
        try:
            results = await self._results(ours)
        except Exception:
            self._keeper.let_go(_leased(claim))
            raise
        self._circuit.judge(result.verdict for result in results)
        verdicts = {row.sequence: result for row, result in zip(ours, results, strict=True)}
        ordered = tuple(verdicts.get(row.sequence, NOT_TRIED) for row in claim.rows)
        return Sent(ordered, time.monotonic() - began)

    def leave_out(self, claim: Claim) -> Sent:
        """What to settle for a claim that is not to be sent after all: it is given back at once."""
        return Sent((NOT_TRIED,) * len(claim.rows), 0.0)

    async def settle(self, claim: Claim, sent: Sent) -> None:
        """Write the verdicts, through an outage of the database as long as the leases last."""
        try:
            results, report = await self._write_through_outages(claim, sent.results)
        except Exception:
            count_publish(PublishOutcome.LEASE_LOST, len(claim.rows), sent.seconds, self._outlet.provider)
            raise
        finally:
            self._keeper.let_go(_leased(claim))
        if report.published:
            self._outlet.handed_over()
        report_batch(claim, results, report, seconds=sent.seconds, provider=self._outlet.provider)

    async def close(self) -> None:
        """Close the outlet and end the renewal."""
        await self._outlet.close()
        await self._keeper.close()

    async def _results(self, rows: Sequence[ClaimedMessage]) -> Sequence[PublishResult]:
        with contextlib.ExitStack() as stack:
            spans = [stack.enter_context(publish_span(row.message, self._outlet.provider)) for row in rows]
            try:
                results = await self._outlet.send([row.message for row in rows])
            except (TryAgainError, OSError) as error:
                log_failure("sending a batch of events", error)
                results = [PublishResult(Verdict.UNKNOWN)] * len(rows)
            for span, result in zip(spans, results, strict=True):
                span.set_outcome(outcome_of(result.verdict), error_type=result.error_code)
            return results

    async def _write_through_outages(
        self, claim: Claim, results: Sequence[PublishResult]
    ) -> tuple[Sequence[PublishResult], SettleReport]:
        failures = 0
        while True:
            try:
                return await loop_step(self._engine, lambda c: self._write(c, claim, results))
            except Exception as error:
                if not is_outage(error) or not self._keeper.still_held(_leased(claim)):
                    raise
                failures += 1
                log_failure("settling a batch of events", error)
            await asyncio.sleep(_SETTLE_PAUSES.delay_seconds(failures))

    def _write(
        self, connection: Connection, claim: Claim, results: Sequence[PublishResult]
    ) -> tuple[Sequence[PublishResult], SettleReport]:
        confirmed = [
            row.message
            for row, result in zip(claim.rows, results, strict=True)
            if result.verdict is Verdict.CONFIRMED
        ]
        refused = self._outlet.hand_over(connection, confirmed) if confirmed else {}
        final = [refused.get(row.message.id, result) for row, result in zip(claim.rows, results, strict=True)]
        settlements = [
            settlement_of(row, result, self._options) for row, result in zip(claim.rows, final, strict=True)
        ]
        return final, self._store.settle(connection, claim.token, settlements)

    def _renew(self, connection: Connection, rows: Collection[LeasedRow]) -> Collection[LeasedRow]:
        by_token: dict[UUID, list[int]] = {}
        for token, sequence in rows:
            by_token.setdefault(token, []).append(sequence)
        return [
            (token, sequence)
            for token, sequences in by_token.items()
            for sequence in self._store.renew(connection, token, sequences)
        ]


def _leased(claim: Claim) -> list[LeasedRow]:
    return [(claim.token, row.sequence) for row in claim.rows]
