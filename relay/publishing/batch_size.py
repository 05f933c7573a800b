"""How many rows the relay claims at once, so that large payloads do not fill its memory."""

from typing import Final

from outbox.claimed import Claim

_FIRST_ROWS: Final = 16
_GROWTH: Final = 8


class BatchSize:
    """Learns from each claim; the next one holds about `body_bytes` of payload and at most `rows` rows.

    It begins with 16 rows, grows eightfold at most from claim to claim, and shrinks at once. Rows that
    suddenly become larger can exceed the bytes for one batch.
    """

    def __init__(self, *, rows: int, body_bytes: int) -> None:
        self._most_rows = rows
        self._body_bytes = body_bytes
        self.rows = min(rows, _FIRST_ROWS)

    def learn(self, claim: Claim) -> None:
        """Choose `rows` for the next claim by the payloads of this one."""
        if not claim.rows:
            return
        mean_bytes = sum(len(row.message.payload) for row in claim.rows) / len(claim.rows)
        fitting = int(self._body_bytes / max(mean_bytes, 1.0))
        self.rows = max(1, min(fitting, self.rows * _GROWTH, self._most_rows))
