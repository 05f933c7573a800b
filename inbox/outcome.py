"""What became of one delivery."""

from enum import StrEnum


class ConsumeOutcome(StrEnum):
    """Exactly one for each delivery; the values are those of the metric attribute `outcome`."""

    CONSUMED = "consumed"
    """The handler's transaction is committed."""
    DUPLICATE = "duplicate"
    """The receipt was there already and what follows is the inbox's business; no failure."""
    BUSY = "busy"
    """Another holder has the receipt; no failure."""
    DEAD_LETTER = "dead_letter"
    """Given up: an operator replays or discards it."""
    CONSUME_FAILED = "consume_failed"
    """Rolled back; the inbox tries again later."""
    LEASE_LOST = "lease_lost"
    """The receipt was no longer ours; nothing of this attempt was kept."""
    CANCELLED = "cancelled"
    """Rolled back because the host stops; the attempt does not count."""
