"""From the broker's verdict on a message to what the outbox keeps of it."""

from typing import assert_never

from outbox.claimed import ClaimedMessage
from outbox.options import OutboxOptions
from outbox.settlement import Settlement
from relay.broker import PublishResult, Verdict


def settlement_of(row: ClaimedMessage, result: PublishResult, options: OutboxOptions) -> Settlement:
    """What to write for one row. An outage costs no attempt: the row is given back.

    What surely did not leave is due at once; what may have arrived is due when its lease would have run
    out, so that a broker that only answers late does not get it twice.
    """
    match result.verdict:
        case Verdict.CONFIRMED:
            return Settlement.published(row.sequence)
        case Verdict.UNSENT:
            return Settlement.release(row.sequence)
        case Verdict.UNKNOWN:
            return Settlement.release(row.sequence, delay_seconds=options.lease_seconds)
        case Verdict.RETRY:
            return Settlement.retry(
                row.sequence,
                delay_seconds=options.backoff.delay_seconds(row.failure_count + 1),
                error_code=result.error_code or "nack",
                error_detail=result.detail,
            )
        case Verdict.REFUSED:
            return Settlement.dead_letter(
                row.sequence, error_code=result.error_code or "refused", error_detail=result.detail
            )
        case _:
            assert_never(result.verdict)
