"""Counting and logging what became of published events; never a payload, never an id as attribute."""

import logging
from collections import Counter
from collections.abc import Sequence
from typing import Final, assert_never

from outbox.claimed import Claim
from outbox.settlement import SettleReport
from relay.broker import PublishResult, Verdict
from uow.telemetry import Operation, PublishOutcome, record_operation

_log: Final = logging.getLogger(__name__)

NOT_TRIED: Final = PublishResult(Verdict.UNSENT)
"""The verdict on a row that was claimed and then not sent, because the relay stops or the broker is away."""


def report_batch(
    claim: Claim, results: Sequence[PublishResult], report: SettleReport, *, seconds: float, provider: str
) -> None:
    """Count one outcome for each row that was tried, and log what a person should know."""
    tried = [row.sequence for row, result in zip(claim.rows, results, strict=True) if result is not NOT_TRIED]
    failed = {*report.retried, *report.released}.intersection(tried)
    count_publish(PublishOutcome.PUBLISHED, len(report.published), seconds, provider)
    count_publish(PublishOutcome.PUBLISH_FAILED, len(failed), seconds, provider)
    count_publish(PublishOutcome.DEAD_LETTER, len(report.dead_lettered), seconds, provider)
    count_publish(PublishOutcome.LEASE_LOST, len(report.lost), seconds, provider)
    if report.lost:
        _log.warning(
            "%d of %d events were no longer ours when they were settled; another relay has them",
            len(report.lost),
            len(claim.rows),
        )
    if report.dead_lettered:
        _log_dead(claim, results, frozenset(report.dead_lettered))


def outcome_of(verdict: Verdict) -> PublishOutcome:
    """The outcome that a verdict comes to, as far as it is known before it is settled."""
    match verdict:
        case Verdict.CONFIRMED:
            return PublishOutcome.PUBLISHED
        case Verdict.REFUSED:
            return PublishOutcome.DEAD_LETTER
        case Verdict.UNSENT | Verdict.UNKNOWN | Verdict.RETRY:
            return PublishOutcome.PUBLISH_FAILED
        case _:
            assert_never(verdict)


def count_publish(outcome: PublishOutcome, count: int, seconds: float, provider: str) -> None:
    """Count `count` events of one outcome."""
    if count:
        record_operation(
            operation=Operation.PUBLISH, outcome=outcome, seconds=seconds, provider=provider, count=count
        )


def _log_dead(claim: Claim, results: Sequence[PublishResult], dead: frozenset[int]) -> None:
    reasons = Counter(
        (row.message.routing_key, result.error_code or "unknown")
        for row, result in zip(claim.rows, results, strict=True)
        if row.sequence in dead
    )
    for (routing_key, error_code), count in reasons.items():
        _log.error("%d events %s were dead-lettered: %s", count, routing_key, error_code)
