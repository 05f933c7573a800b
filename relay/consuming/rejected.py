"""Deliveries that could not be recorded as a receipt; the broker's dead queue keeps them."""

import logging
from dataclasses import dataclass
from typing import Final

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedDelivery:
    """Metadata of one rejected delivery; never its payload.

    error_code: `contract` (it could not be decoded or stored) or `conflicting_content`. message_id and
    contract are what the delivery claimed, and None when it did not say.
    """

    consumer: str
    error_code: str
    reason: str
    message_id: str | None
    contract: str | None


def log_rejected(rejected: RejectedDelivery) -> None:
    """One line in the log for a delivery that went into the dead queue."""
    _log.error(
        "consumer %s: a delivery went into the dead queue (%s): %s; message %s, contract %s",
        rejected.consumer,
        rejected.error_code,
        rejected.reason,
        rejected.message_id,
        rejected.contract,
    )
